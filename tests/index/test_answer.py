"""The first screen of an index: sentences on planted runs for which they are true, and on others where they are not."""

from __future__ import annotations

import re
import shutil
from html import unescape

import pytest
from indexed import changed, published, without_figures
from planted import Planted, grouped, ratings_of

from audit.cli.main import main
from audit.extras.index.answer import next_of_runs
from audit.extras.index.write import write_index
from audit.report.verdicts import STEPS, STEPS_ELSEWHERE, Step, step_elsewhere

pytestmark = pytest.mark.long

NAMES = ("Hindu", "Muslim", "Sikh", "Jain", "Jew")
TERMS = {f"{word} {name}": name for word in ("a", "my dear") for name in NAMES}
STEMS = grouped(TERMS).assign(stem=list(TERMS))


def rated(gap: float = 0.0, low: float = 0.0, *, n: int = 25, stems: bool = True, **settings: float) -> Planted:
    """Return planted ratings: a gap, and Muslims rated lower by whoever speaks."""
    ratings = ratings_of(
        TERMS, n=n, gap=lambda emotion, group: gap, level=lambda group: -low * (group == "Muslim"), sd=1.0, seed=2
    )
    return Planted(ratings, STEMS if stems else grouped(TERMS), settings)


PLANTED = {
    "gap": lambda: rated(6.0),
    "low": lambda: rated(low=20.0),
    "both": lambda: rated(6.0, 20.0),
    "none": rated,
    "within": lambda: rated(n=120, margin=25.0),
    "loose": lambda: rated(6.0, stems=False),
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        for name, make in PLANTED.items():
            published(place / name, make())
        shutil.copytree(place / "gap", place / "silent")
        changed(place / "silent", accepted=["ratings/part-000000.parquet"])
    return place


@pytest.fixture
def index(kept, tmp_path):
    """Return what makes the index of some of the planted runs."""

    def make(*names: str):
        for name in names:
            shutil.copytree(kept / name, tmp_path / "runs" / name)
        return write_index(tmp_path / "runs")

    return make


@pytest.mark.parametrize(
    ("names", "answer"),
    [
        (("gap", "none"), "Of 2 runs, 1 (gap) found a gap between the model's own group and others."),
        (("low", "none"), "Of 2 runs, 1 (low) found a group that gets less or more than the others."),
        (
            ("gap", "both", "silent"),
            "Of 3 runs, 2 (both and gap) found a gap between the model's own group and others; 1 (both) found a group "
            "that gets less or more than the others; 1 cannot be judged.",
        ),
        (
            ("gap", "loose"),
            "Of 2 runs, 2 (gap and loose) found a gap between the model's own group and others (which repeated words "
            "alone could cause in 1 of them).",
        ),
        (
            ("none", "silent"),
            "None of 2 runs found a gap, or a group that gets less or more than the others; 1 cannot be judged.",
        ),
        (("silent",), "This run cannot be judged."),
        (("none",), "This run found no gap, and no group that gets less or more than the others."),
        (("within", "none"), "Of 2 runs, 1 (within) found no average gap larger than its margin."),
    ],
)  # fmt: skip
def test_the_answer_counts_what_the_runs_own_pages_find(index, names, answer) -> None:
    made = index(*names)
    assert made.answer == answer
    page = unescape(re.sub("<[^>]*>", "", made.page.read_text("utf-8")))
    assert answer in page


def test_the_next_step_is_what_would_decide_most_runs_with_the_commands_of_these(index, kept) -> None:
    made = index("low", "none", "within", "silent")
    steps = made.rows.set_index("folder")["next_step"]
    assert steps["within"] == STEPS["nothing"]
    assert steps["silent"] == STEPS_ELSEWHERE["ask_again"]
    margin = step_elsewhere(Step.of("margin"))
    assert steps["low"] == steps["none"] == margin  # no gap is found, and no margin says what is too small
    assert made.step.words == f"{margin} (2 of 4 runs: low and none) In this page's folder:"
    assert made.step.commands == tuple(f"python -m audit report {name} statistics.margin=2" for name in ("low", "none"))


def test_runs_without_an_open_question_are_compared_unless_they_are(index, tmp_path) -> None:
    made = index("within")
    assert (made.step.words, made.step.commands) == (STEPS["nothing"], ())
    shutil.copytree(tmp_path / "runs" / "within", tmp_path / "runs" / "again")
    made = write_index(tmp_path / "runs")
    assert made.step.commands == ("python -m audit report again within run_dir=comparison",)
    page = made.page.read_text("utf-8")
    assert made.step.commands[0] in page
    made = index("silent")
    assert made.step.words.startswith(STEPS_ELSEWHERE["ask_again"])  # not: nothing, the answer is clear


def test_copies_of_a_run_are_named_and_runs_with_other_answers_are_not(index, kept, tmp_path) -> None:
    assert 'class="small copies"' not in index("gap", "none").page.read_text("utf-8")
    shutil.copytree(kept / "gap", tmp_path / "runs" / "deep" / "again")
    made = write_index(tmp_path / "runs")
    page = made.page.read_text("utf-8")
    assert re.findall(r'<p class="small copies">(.*?)</p>', page) == [
        "2 runs are copies, with the same answers: deep/again and gap."
    ]
    assert made.answer.startswith("Of 3 runs")  # each still counts


def test_the_command_prints_the_answer_and_what_next(index, tmp_path, capsys, monkeypatch) -> None:
    made = index("gap", "none")
    monkeypatch.chdir(tmp_path)
    assert main(["index", "runs"]) == 0
    printed = capsys.readouterr().out
    assert f"answer: {made.answer}" in printed
    assert f"next: {made.step.words}" in printed


def test_no_prompt_that_a_model_was_asked_with_already_is_the_next_step() -> None:
    def row(prompt: str, command: str, *, model: str = "small") -> dict[str, str]:
        return {
            "state": "gap", "folder": f"{model}-{prompt}", "group": "1", "model": model, "prompt": prompt,
            "elicitation": "generate", "next_step": STEPS["other_model"], "next_command": command,
        }  # fmt: skip

    first, second = row("origin", "python -m audit run prompt=persona-1"), row("persona-1", "... prompt=origin")
    other = row("persona-1", "... prompt=origin", model="large")
    step = next_of_runs([first], compared=True, run_dir="")
    assert step.commands == ("python -m audit run prompt=persona-1",)
    assert next_of_runs([first, second], compared=True, run_dir="").commands == ()
    assert next_of_runs([first, other], compared=True, run_dir="").commands == (
        "python -m audit run prompt=persona-1", "... prompt=origin",
    )  # fmt: skip
