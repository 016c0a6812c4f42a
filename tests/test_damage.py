"""Whatever is damaged in what a command reads ends in one line and exit code 2, wherever it is read."""

import json
import os
import random
import shutil

import pytest
from gated import run_maker, two_terms
from runs import as_stored
from test_store import row

from audit.cli.main import main
from audit.runs.manifest import COPY
from audit.runs.store import PartBegun, RunFolder
from audit.tables.replies import REPLIES
from audit.tasks.reply.scoring import score_counts, write_scores

READERS = {
    "report": ["report", "run"],
    "report beside another": ["report", "other", "run", "run_dir=compared"],
    "report with a setting": ["report", "run", "statistics.margin=2"],
    "gate": ["gate", "run", "margin=2"],
    "gate by a baseline": ["gate", "other", "margin=2", "baseline=run"],
    "consolidate": ["consolidate", "run"],
    "people export": ["people", "export", "run", "n=3"],
    "people import": ["people", "import", "run", "file.csv"],
    "people export of pairs": ["people", "export", "run", "other", "n=2"],
    "judge": ["judge", "run", "other", "model=nowhere"],
}
DAMAGE = {
    "no JSON": "{",
    "empty": "",
    "not a number": '{"schema_version": 1, "n_prompts": NaN}',
    "huge": '{"schema_version": 1, "n_prompts": 1e999}',
    "a list": "[1]",
    "null": "null",
    "a list for a number": '{"schema_version": 1, "n_prompts": [1], "shard_size": 1}',
    "text for names": '{"schema_version": 1, "n_prompts": 1, "shard_size": 1, "model": "x"}',
    "names for a list": '{"schema_version": 1, "n_prompts": 1, "shard_size": 1, "dimensions": {"a": 1}}',
    "numbers for texts": '{"schema_version": 1, "n_prompts": 1, "shard_size": 1, "dimensions": [1]}',
    "no prompts": '{"schema_version": 1, "shard_size": 1}',
    "a number of no run": f'{{"schema_version": 1, "n_prompts": {10**30}, "shard_size": 1}}',
    "bytes that are no text": b"\xff\xfe\x00",
}


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two runs, ``run`` and ``other``, in the folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
    make = run_maker(tmp_path)
    for seed, name in enumerate(("run", "other")):
        make(two_terms(n=6, seed=seed), name)
        with RunFolder(tmp_path / name) as folder:
            folder.consolidate()
    (tmp_path / "file.csv").write_text("item_id\n")
    return tmp_path


def refused(words, capsys):
    """Return the one line in which a command ends."""
    capsys.readouterr()
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    [line] = [line for line in printed.err.splitlines() if line.startswith("audit: ")]
    return line


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_manifest_is_named_by_all_that_read_it(damage, runs, capsys):
    content = DAMAGE[damage]
    (runs / "run" / "manifest.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    for words in READERS.values():
        line = refused(words, capsys)
        assert "run/manifest.json" in line
        assert "python -m audit recover run restores it from its copy" in line


@pytest.mark.parametrize("damage", ["footer", "length", "cut", "zeros", "no parquet", "parts"])
def test_a_damaged_parquet_file_is_named_by_all_that_read_it(damage, runs, capsys):
    path = runs / "run" / "ratings.parquet"
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little")
    if damage == "footer":
        content[-footer // 2 - 8 : -footer // 2] = b"\xff" * 8
    elif damage == "length":
        content[-8:-4] = (2**31 - 1).to_bytes(4, "little")
    elif damage == "cut":
        content = content[:-100]
    elif damage == "zeros":
        content[-footer:] = bytes(footer)
    elif damage == "no parquet":
        content = bytearray(b"prompt_index,intensity\n")
    else:  # what it says of its own parts
        content = content.replace(b'["part-000000", ', b'["part-00000x", ')
    path.write_bytes(content)
    as_stored(runs / "run")  # what a ledger does not tell, the file itself does
    named = ("report", "report beside another", "gate", "gate by a baseline", "consolidate")
    for name in named:
        line = refused(READERS[name], capsys)
        assert "run/ratings.parquet cannot be read (" in line
        assert "python -m audit recover run sets it aside, and the same run command collects all of it again" in line


def test_whatever_byte_of_a_footer_is_changed_no_command_ends_in_an_unforeseen_error(runs, capsys):
    path = runs / "run" / "ratings.parquet"
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    rng = random.Random(5)
    for _ in range(150):
        content = bytearray(whole)
        for place in rng.sample(range(len(content) - footer, len(content)), k=rng.choice((1, 1, 2, 8))):
            content[place] = rng.randrange(256)
        path.write_bytes(content)
        assert main(["consolidate", "run"]) in (0, 2)
        assert main(["gate", "run", "margin=2"]) in (0, 1, 2, 3)
    assert "unexpected error" not in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="needs names that are bytes")
def test_names_that_are_no_utf_8_are_taken_or_refused_in_one_line(runs, capsys):
    name = os.fsdecode(b"caf\xe9")
    (runs / "run").rename(runs / name)
    asked = json.loads((runs / "other" / "manifest.json").read_text())
    asked["identity"]["model"] = {"name": "another"}
    asked["model"]["name"] = "another \udcff"
    (runs / "other" / "manifest.json").write_text(json.dumps(asked))
    as_stored(runs / "other")
    for words in (
        ["report", name, "statistics.margin=2", "statistics.n_permutations=100"],
        ["report", name, "other", f"run_dir={name}-compared"],
        [
            "report",
            f"ratings={name}.csv",
            "groups=run-groups.csv",
            f"run_dir={name}-out",
            "low=0",
            "high=100",
            "statistics.n_permutations=100",
        ],
        ["consolidate", name],
        ["recover", name],
    ):
        shutil.copy(runs / "run-ratings.csv", runs / f"{name}.csv")
        assert main(words) == 0, words
    assert main(["gate", name, "margin=2", f"out={name}-gate"]) in (0, 1, 3)
    assert (runs / f"{name}-gate" / "verdict.json").is_file()
    assert "caf" in (runs / f"{name}-compared" / "comparison.html").read_text(encoding="utf-8")
    capsys.readouterr()
    for words, said in (
        (["report", f"{name}x"], "caf\\udce9x is not a run folder: it has no manifest.json"),
        (
            ["judge", name, "other", f"model={name}"],
            "model='caf\\udce9': is not valid UTF-8; rename the file, or give another value",
        ),
        (
            ["run", f"run_dir={name}"],
            "run_dir='caf\\udce9': the path is not valid UTF-8, so a manifest cannot record it",
        ),
        (["run", f"prompt={name}"], "caf\\udce9"),
        ([name], "'caf\\udce9' is not a command"),
    ):
        assert said in refused(words, capsys)


def test_what_was_kept_of_a_part_is_read_as_far_as_it_is_text(tmp_path):
    path = tmp_path / "part-begun.jsonl"
    begun = PartBegun(path, "shard 1")
    begun.put("a", {"text": "1"})
    path.write_bytes(path.read_bytes() + b"\n\xff\xfe{\n")
    again = PartBegun(path, "shard 1")
    assert (again.get("a"), again.get("b")) == ({"text": "1"}, None)


def test_what_was_counted_beside_scores_is_checked(tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        texts = {"text": "a", "status": "written", "n_prompt_tokens": 1, "n_tokens": 1, "n_dropped": 0}
        folder.write_shard(0, [{name: (row(0) | texts)[name] for name in REPLIES}], "replies")
        (tmp_path / "run" / "scores" / "lexical").mkdir(parents=True)
        (tmp_path / "run" / COPY).write_text("{}")
    import pandas as pd

    scores = pd.DataFrame({"prompt_index": [0], "measure": pd.Categorical(["n_words"]), "value": [1.0]})
    for counted in ("[1]", '{"a": [1]}', '{"a": {"b": "c"}}', "{", "[" * 100_000, "\ufeff{}"):
        with RunFolder(tmp_path / "run") as folder:
            write_scores(folder, "lexical", 0, scores, {})
            (tmp_path / "run" / "scores" / "lexical" / "part-000000.json").write_text(counted)
            with pytest.raises(Exception, match=r"part-000000.json cannot be read \(") as raised:
                score_counts(folder, "lexical")
        assert len(str(raised.value).splitlines()) == 1


def test_a_questionnaire_without_its_items_is_named(runs, capsys):
    path = runs / "run" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "task": {"kind": "inventory"}}))
    as_stored(runs / "run")
    assert "run/manifest.json is damaged: the manifest has no inventory" in refused(READERS["report"], capsys)
