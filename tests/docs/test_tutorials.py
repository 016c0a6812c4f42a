"""Tutorials are followed by a script; what it kept is of the commands that they have now. Python blocks run."""

import importlib.util
import re
import shutil
import subprocess
import sys

import pytest
from documents import DOCS, PAGES, ROOT, blocks

import audit
from audit.cli.main import main

spec = importlib.util.spec_from_file_location("transcripts", ROOT / "benchmarks" / "transcripts.py")
transcripts = importlib.util.module_from_spec(spec)
sys.modules["transcripts"] = transcripts
spec.loader.exec_module(transcripts)

TUTORIALS = sorted(DOCS.glob("tutorial-*.md"))
TRANSCRIPTS = sorted((DOCS / "transcripts").glob("*.txt"))
EXECUTED = {
    ("python.md", 0): "tests/test_api.py",
    ("python.md", 1): "tests/test_api.py",
    ("elsewhere.md", 0): "tests/test_answers.py",
    ("delta.md", 0): "tests/docs/test_tutorials.py",
}
"""Blocks of Python that another test runs, by page and place, with that test."""
NOT_RUN = "not run by the tests: "


def test_there_is_a_tutorial_for_each_of_three_readers():
    assert [page.stem for page in TUTORIALS] == ["tutorial-gate", "tutorial-report", "tutorial-vignettes"]


def test_every_tutorial_has_a_transcript():
    assert {page.stem for page in TUTORIALS} - {path.stem for path in TRANSCRIPTS} == set()


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_is_of_the_commands_that_its_tutorial_has_now(path):
    kept, page = path.read_text("utf-8"), (DOCS / f"{path.stem}.md").read_text("utf-8")
    followed = re.findall(r"^\$ (.*)$", kept, flags=re.MULTILINE)
    assert followed == [step.command for step in transcripts.steps(page) if step.command]


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_no_command_of_a_transcript_ended_in_a_fault(path):
    codes = re.findall(r"^\[exit code (\d+)\]$", path.read_text("utf-8"), flags=re.MULTILINE)
    assert not set(map(int, codes)) & transcripts.FAULTS


@pytest.mark.process
def test_a_tutorial_is_followed_in_order_and_what_varies_is_left_out(tmp_path):
    (folder := tmp_path / "project").mkdir()
    (home := tmp_path / "home").mkdir()
    progress = "echo '4 of 48 prompts, 0.21 prompts/s, about 3 min 32 s left' && echo '48 of 48 prompts, 0.2 prompts/s'"
    page = (
        "Save:\n\n```csv things.csv\na,b\n```\n\n```sh\nnot followed\n```\n\n"
        f"```console\n$ cat things.csv\n$ pwd; (exit 3)\n```\n\n```console\n$ {progress}\n"
        "$ echo in 2.5 s on 2026-11-25T01:02:03+00:00\n$ no-such-program\n$ pwd > ~/x\n"
        '$ cd $HOME; read answer; echo "got $answer"\n$ cat x\n```\n'
    )
    told, faults = transcripts.follow(page, folder, home)
    assert told.split("\n\n") == [
        "[things.csv is saved]",
        "$ cat things.csv\na,b",
        "$ pwd; (exit 3)\n.\n[exit code 3]",
        f"$ {progress}\n48 of 48 prompts, N prompts/s",
        "$ echo in 2.5 s on 2026-11-25T01:02:03+00:00\nin N s on DATE",
        "$ no-such-program\nbash: no-such-program: command not found\n[exit code 127]",
        "$ pwd > ~/x",
        '$ cd $HOME; read answer; echo "got $answer"\ngot ',
        "$ cat x\n.\n",
    ]
    assert faults == ["no-such-program"]


@pytest.mark.process
def test_a_command_that_ends_the_shell_is_no_step_of_a_tutorial(tmp_path):
    with pytest.raises(ValueError, match="exit 3: it ended the shell"):
        transcripts.follow("```console\n$ exit 3\n```\n", tmp_path, tmp_path)


def test_a_console_block_holds_commands_alone():
    with pytest.raises(ValueError, match="begins with"):
        list(transcripts.steps("```console\n$ ls\nthings.csv\n```\n"))


def of_python():
    for page in PAGES:
        found = [block for block in blocks(page) if block.language == "python"]
        yield from ((page.name, place, block) for place, block in enumerate(found))


def test_every_block_of_python_is_run_or_says_why_not():
    unclear = [
        (name, place)
        for name, place, block in of_python()
        if (name, place) not in EXECUTED and not block.remark.startswith((NOT_RUN, "run in "))
    ]
    assert unclear == []
    assert [name for (name, _), test in EXECUTED.items() if name not in (ROOT / test).read_text("utf-8")] == []


def test_the_worked_example_of_the_gap_comes_out_as_printed(capsys):
    page = (DOCS / "delta.md").read_text(encoding="utf-8")
    code, shown = (page.split(fence)[1].split("```")[0] for fence in ("```python\n", "```text\n"))
    names = {}
    exec(code, names)
    assert capsys.readouterr().out == shown
    [row] = names["gap"].headline.to_dict("records")
    # Gaps of 3 and 1: SD √2, standard error 1, t(.975, 1 degree of freedom) = 12.706.
    assert f"{row['ci_low']:.1f} to +{row['ci_high']:.1f}".replace("-", "−") in page.replace("reaches from ", "")


@pytest.mark.long
def test_what_python_md_does_with_runs_works(tmp_path, monkeypatch):
    copied = {"example": "example", "one": "example-sweep/origin", "other": "example-sweep/persona-1"}
    for name, example in copied.items():
        shutil.copytree(ROOT / "reports" / example, tmp_path / "reports" / name)
    monkeypatch.chdir(tmp_path)
    ran = [block for name, _, block in of_python() if name == "python.md" and block.remark.startswith("run in ")]
    assert len(ran) == 2
    names: dict[str, object] = {}
    exec("import audit", names)
    for block in ran:
        exec(block.text, names)
    assert names["run"].manifest.model.name == "smollm2"
    assert names["beside"].page.is_file()


@pytest.mark.parametrize(
    "part",
    [
        "Read with care", "Group or words?", "Different from the other emotions",
        "Do written answers match the probabilities?", "No verdict",
        "95% interval", "Downloads", "Reproduce", "generation", "narratives.csv",
    ],
)  # fmt: skip
def test_the_parts_of_a_page_that_an_auditor_is_told_of_are_there(part):
    told = (DOCS / "tutorial-report.md").read_text("utf-8")
    page = (ROOT / "reports" / "example" / "report.html").read_text("utf-8")
    assert part.lower() in told.lower()
    assert part.lower() in page.lower()


@pytest.mark.process
def test_the_script_in_r_comes_to_the_headline_of_the_report(tmp_path):
    r = shutil.which("Rscript")
    if r is None:
        pytest.skip("R is not installed")
    run = audit.open_run(ROOT / "reports" / "example")
    [step] = [s for s in transcripts.steps((DOCS / "tutorial-vignettes.md").read_text("utf-8")) if s.file == "gap.R"]
    (tmp_path / "gap.R").write_text(step.text, "utf-8")
    done = main(["export", str(run.path), "form=csv", f"to={tmp_path / 'my-study-csv'}"])
    assert done == 0
    printed = subprocess.run([r, "gap.R"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    low, high = re.search(r"95 percent confidence interval:\n *(\S+) +(\S+)", printed).groups()
    mean = re.search(r"mean of x *\n *(\S+)", printed)[1]
    [row] = run.headline.to_dict("records")
    found = [row["delta"], row["ci_low"], row["ci_high"]]
    assert found == pytest.approx([float(mean), float(low), float(high)], rel=1e-5)  # of the digits that R prints
