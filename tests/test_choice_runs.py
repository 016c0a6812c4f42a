"""People who choose between two runs' replies, from the command line: export, a rater's file, import."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from audit.cli.main import main
from audit.runs.store import RunFolder
from audit.tables.preference import CHOICES, PEOPLE_PREFERENCE

N_PROMPTS = 2 * 25  # five religions of one term each, two narratives


def command(model, run, *more):
    return [
        "run", "task=reply", "engine=transformers", "engine.device=cpu", f"model.path={model}", "model.name=tiny",
        "model.dtype=float32", "stimuli.identities=hou2025", "dimensions=religion", "stimuli.emotions=[sad,happy]",
        "stimuli.unspecified=false", "stimuli.placebo=0", "stimuli.pairs=all", "stimuli.situations_per_emotion=1",
        "task.max_tokens=4", "measures.names=[lexical]", "statistics.n_permutations=100", f"run_dir={run}", *more,
    ]  # fmt: skip


def rewrite(run, name):
    """Give the replies of a run texts that say whose they are."""
    folder = RunFolder(run)
    replies = folder.read("replies", n_prompts=N_PROMPTS)
    texts = [f"{name} writes reply {place}." for place in replies["prompt_index"]]
    folder.clear("replies")
    folder.write_shard(0, replies.assign(text=texts, status="written"), "replies")


@pytest.fixture(scope="module")
def runs(tiny_model, tmp_path_factory):
    """Two finished runs whose replies say whose they are; not to be written to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("here"))
        patch.setattr(sys, "argv", list(sys.argv))
        patch.setattr("audit.engines.open._kept", None)
        patch.setattr("audit.tasks.reply.figures.draw_measures", lambda *_, **__: {})
        assert main(command(tiny_model, "one")) == 0
        assert main(command(tiny_model, "two", "strategy=basic-empathy")) == 0
        rewrite(Path("one"), "Alpha")
        rewrite(Path("two"), "Beta")
        return [Path(name).absolute() for name in ("one", "two")]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def export(runs, *more, code=0):
    assert main(["people", "export", *map(str, runs), "run_dir=out", *more]) == code
    return Path("out")


def answer(folder, name, wanted):
    """Fill in the spreadsheet as a rater: ``wanted(whether Alpha stands first, person, place)``."""
    items = pd.read_csv(folder / "raters/items.csv", encoding="utf-8-sig")
    first = items["reply"].str.startswith("1.\nAlpha")
    given = [wanted(alpha, place) for place, alpha in enumerate(first)]
    items.assign(empathy=given)[["item_id", "empathy"]].to_csv(name, index=False)
    return name


def test_choices_that_are_imported_end_in_the_share_that_prefers_the_first_run(runs, capsys):
    out = export(runs, "n=20", "seed=3")
    said = capsys.readouterr()
    assert "send raters: out/raters" in said.out
    assert "the first run's reply stands first in " in said.err
    shown = b"".join(path.read_bytes() for path in sorted((out / "raters").iterdir())).decode()
    assert "Alpha writes" in shown
    assert not any(word in shown for word in ("basic-empathy", "prompt_index", "in_group", str(runs[0])))

    always = answer(out, "anna.csv", lambda alpha, _: 1 if alpha else 3)
    mostly = answer(out, "ben.csv", lambda alpha, k: 2 if k % 4 == 0 else (1 if alpha else 3))
    assert main(["people", "import", "out", always, mostly]) == 0
    assert "preferred by people: the replies of none over those of basic-empathy" in capsys.readouterr().out
    choices, table = (pd.read_csv(out / f"tables/{name}.csv") for name in ("choices", "preference"))
    assert list(choices) == list(CHOICES)
    assert list(table) == list(PEOPLE_PREFERENCE)
    assert (choices.loc[choices["rater"] == "anna", "chose"] == 1).all()
    assert set(choices.loc[choices["rater"] == "ben", "chose"]) == {0.5, 1.0}
    rows = table.set_index("pairs")
    means = choices.groupby(["narrative_id", "rater"])["chose"].mean()
    assert rows.loc["all", "share"] == pytest.approx(means.groupby("narrative_id").mean().mean())
    assert rows.loc["all", ["n_raters", "n_pairs", "n_choices"]].tolist() == [2, 20, 40]
    assert rows.loc["in_group", "n_choices"] == rows.loc["out_group", "n_choices"] == 20
    agreement = pd.read_csv(out / "tables/agreement.csv")
    assert agreement[["question", "n_raters", "n_items"]].values.tolist() == [["empathy", 2, 20]]
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["kind"], manifest["status"], manifest["n_raters"]) == ("choices", "complete", 2)
    described = pd.read_csv(out / "dictionary.csv").groupby("table")["column"].apply(list)
    assert described["preference"] == list(PEOPLE_PREFERENCE)

    export(runs, "n=20", "seed=3", code=2)  # what raters sent back belongs to those pairs
    assert "holds what raters sent back" in capsys.readouterr().err
    assert main(["people", "import", "out", always]) == 0
    assert pd.read_csv(out / "tables/preference.csv")["n_raters"].eq(1).all()


def test_the_same_export_again_is_the_same_to_the_byte_and_another_is_refused(runs, capsys):
    out = export(runs, "n=8")
    before = {
        path: path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and path.name not in (".lock", "ledger.jsonl")
    }
    export(runs, "n=8")
    assert {path: path.read_bytes() for path in before} == before
    export(runs, "n=9", code=2)
    assert "run_dir=out holds other pairs, or other questions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("export", "{0}", "{0}"), "hold the same run"),
        (("export", "{0}", "{1}", "{0}"), "people export takes one run folder, or two to choose between, got 3"),
        (("export", "{0}", "{1}", "n=0"), "n=0"),
        (("export", "{0}", "{1}", "mask_experiencer=yes"), "mask_experiencer"),
        (("import", "{0}", "a.csv"), "has no key.csv"),
    ],
)
def test_what_can_not_be_asked_for_is_one_line(runs, words, message, capsys):
    assert main(["people", *(word.format(*runs) for word in words)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.strip().splitlines()) == 1


def test_a_folder_of_choices_is_no_run(runs, capsys):
    export(runs, "n=8")
    assert main(["report", "out"]) == 2
    assert "it has a choice of people between two runs' replies" in capsys.readouterr().err
    assert main(["people", "import", "out", "anna.csv", "form=norming"]) == 2
    assert "form: a choice between two runs does not take this option" in capsys.readouterr().err
