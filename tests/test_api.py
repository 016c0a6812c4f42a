"""The public names: what they return is what the commands write, and importing them costs nothing."""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import audit
from audit import api
from audit.runs.csv_tables import read_table
from audit.tables.gap import GAP
from audit.tasks.registry import task_of

EXAMPLES = Path(__file__).parents[1] / "reports"
ORIGIN, PERSONA = (EXAMPLES / "example-sweep" / name for name in ("origin", "persona-1"))
GROUPS = {"a Hindu": "Hindu", "a Muslim": "Muslim", "a Sikh": "Sikh", "a person": "unspecified"}


def rated(*, gap=3.0, n=12, seed=0):
    rng = np.random.default_rng(seed)
    rows = [
        (p, e, f"n{k}", 50 + gap * (p == e) + rng.normal(0, 1)) for p in GROUPS for e in GROUPS for k in range(n)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["perceiver", "experiencer", "narrative_id", "rating"])


def test_the_public_names_are_these_and_each_says_what_it_is():
    assert set(audit.__all__) == set(api.__all__) == {
        "AuditError", "Compared", "Gap", "Run", "Tables", "compare", "disparity", "empathy_gap", "open_run", "run",
    }  # fmt: skip
    for name in audit.__all__:
        assert inspect.getdoc(getattr(audit, name)), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        audit.nothing  # noqa: B018


@pytest.mark.process
def test_importing_audit_imports_nothing_heavy():
    said = "import audit, sys; print([name for name in ('pandas', 'numpy', 'torch', 'hydra') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_run_that_is_opened_has_what_its_folder_holds():
    run = audit.open_run(EXAMPLES / "example")
    assert run.manifest.prompt.variant == "origin"
    gap = read_table(EXAMPLES / "example" / "tables" / "gap.csv", GAP)
    pd.testing.assert_series_equal(run.tables["gap"]["delta"], gap["delta"])
    assert run.tables["gap"]["note"].notna().all()
    there = {path.stem for path in (EXAMPLES / "example" / "tables").glob("*.csv")}
    assert set(run.tables) == {*there, *task_of(run.manifest).described}
    assert len(run.answers) == run.manifest.n_prompts
    assert run.tables["gap"] is run.tables["gap"]
    with pytest.raises(KeyError, match=r"no table 'gaps'; there are: .*gap"):
        run.tables["gaps"]


@pytest.mark.process
def test_a_run_without_verdicts_says_how_to_have_them(tmp_path):
    shutil.copytree(EXAMPLES / "example", tmp_path / "run")
    (tmp_path / "run" / "tables" / "verdicts.csv").unlink()
    with pytest.raises(audit.AuditError, match=r"no table of verdicts.*audit report") as raised:
        audit.Run(str(tmp_path / "run")).verdicts  # noqa: B018
    command = str(raised.value).split("`")[1].split()
    assert command[:3] == ["python", "-m", "audit"]
    subprocess.run([sys.executable, *command[1:]], check=True, capture_output=True)
    assert [each.code for each in audit.open_run(tmp_path / "run").verdicts] == ["no_verdict"]


def test_a_run_that_is_opened_shows_its_headline_and_its_figures():
    run = audit.open_run(EXAMPLES / "example")
    [row] = run.headline.to_dict("records")
    gap = run.tables["gap"].query("headline and scope == 'narratives'")
    assert row["dimension"] == "religion"
    assert row["delta"] == gap["delta"].item()
    assert {"gaps", "interaction-religion-origin", "groups-religion-origin"} <= set(run.figures)
    assert all(hasattr(figure, "savefig") for figure in run.figures.values())
    assert list(audit.open_run(EXAMPLES / "example-replies").figures) == ["measures-religion-origin"]


def test_a_run_without_tables_says_how_to_get_them():
    for of in ("headline", "figures"):
        with pytest.raises(KeyError, match=r"no table 'gap'; there are: none\. `python -m audit report` makes"):
            getattr(audit.open_run(ORIGIN), of)


def test_a_run_that_is_opened_tells_what_was_asked():
    run = audit.open_run(EXAMPLES / "example")
    first = run.answers.iloc[0]
    asked = run.asked(first["prompt_index"])
    assert asked.system == run.manifest.example_prompt.system
    assert asked.user == run.manifest.example_prompt.user
    assert str(first["perceiver"]) in asked.system
    with pytest.raises(audit.AuditError, match=r"example has no prompt 720; prompt_index goes from 0 to 719"):
        run.asked(720)


def test_what_was_asked_is_refused_where_it_cannot_be_told(tmp_path):
    run = audit.open_run(shutil.copytree(ORIGIN, tmp_path / "run"))
    (tmp_path / "run" / "prompts.json.gz").write_bytes(b"not gzip")
    with pytest.raises(audit.AuditError, match=r"the prompts cannot be rebuilt: .*prompts\.json\.gz"):
        run.asked(0)


def test_a_folder_that_is_none_of_a_run_s_is_refused(tmp_path):
    with pytest.raises(audit.AuditError, match="is not a run folder"):
        audit.open_run(tmp_path)


@pytest.fixture(scope="module")
def again(tmp_path_factory):
    """A copy of a committed run, reported with another margin."""
    run = audit.open_run(shutil.copytree(ORIGIN, tmp_path_factory.mktemp("api") / "run"))
    return run.report(margin=2.0, n_permutations=100)


def test_a_report_with_another_setting_is_that_of_the_command(again):
    assert again.manifest.statistics.margin == 2.0
    assert "statistics.margin=2.0" in again.manifest.report_command
    assert again.page.is_file()
    assert set(again.tables["equivalence"]["margin"].dropna()) == {2.0}


def test_runs_are_compared_as_by_the_command(again, tmp_path):
    compared = audit.compare(again, PERSONA, run_dir=tmp_path / "beside", n_permutations=100)
    assert compared.page.is_file()
    assert list(compared.tables["runs"]["prompt"]) == ["origin", "persona-1"]
    own = again.tables["gap"].query("headline and scope == 'narratives'")
    beside = compared.tables["gap"].query("scope == 'narratives' and run == 'origin'")
    assert beside.set_index("dimension")["delta"].to_dict() == pytest.approx(
        own.set_index("dimension")["delta"].to_dict()
    )


def test_the_gap_of_a_table_of_ratings_is_the_planted_one():
    ratings = rated()
    before = ratings.copy()
    found = audit.empathy_gap(ratings, GROUPS, low=0, high=100, n_permutations=200)
    pd.testing.assert_frame_equal(ratings, before)
    assert found.delta == pytest.approx(3.0, abs=0.4)
    [row] = found.headline.to_dict("records")
    assert row["ci_low"] < 3.0 < row["ci_high"]
    assert row["n_answers"] == 12 * 9
    assert f"{row['delta']:+.2f} points" in repr(found)
    assert "12 narratives, 108 ratings" in repr(found)
    # Each group has one term, which all its in-group pairs repeat.
    assert "Repeated words are not controlled" in repr(found)
    assert found.scale == (0, 100)
    assert {"gaps", "cells-identity-outside"} <= set(found.figures)
    assert not any(name.startswith(("null", "published")) for name in found.figures)


def test_the_gap_of_a_run_s_own_ratings_is_the_run_s():
    """Which is free of repeated words only for who says which stems terms have: nothing guesses them."""
    run = audit.open_run(EXAMPLES / "example")
    own = run.answers.rename(columns={"intensity": "rating"})
    own = own[~own["dimension"].isin(run.manifest.placebo)]
    term = {"term": own["experiencer"], "group": own["experiencer_group"], "dimension": "religion"}
    stated = pd.DataFrame(term).drop_duplicates()
    # Of a term without a stem of its own, that is its words.
    stated["stem"] = [run.manifest.stems["religion"].get(each, each) for each in stated["term"]]
    controls = run.tables["controls"].set_index("control")["delta"]
    gap = run.tables["gap"].query("headline and scope == 'narratives' and dimension == 'religion'")
    assert gap["delta"].item() == controls["echo_free"] != controls["all_terms"]
    for groups, of in ((stated, "echo_free"), (stated.drop(columns="stem"), "all_terms"), (None, "all_terms")):
        found = audit.empathy_gap(own, groups, low=0, high=100, n_permutations=100)
        assert found.delta == pytest.approx(controls[of], rel=1e-9), of


def test_what_cannot_be_used_is_one_line_that_names_the_table():
    with pytest.raises(audit.AuditError, match=r"no column perceiver_group; give groups="):
        audit.empathy_gap(rated())
    with pytest.raises(audit.AuditError, match=r"the table of groups") as error:
        audit.empathy_gap(rated(), {"a Hindu": "Hindu"}, low=0, high=100)
    assert "/" not in str(error.value).replace("low=/high=", "")
    with pytest.raises(audit.AuditError, match=r"statistics\.marginn"):
        audit.empathy_gap(rated(), GROUPS, low=0, high=100, marginn=2)
    with pytest.raises(audit.AuditError, match=r"audit\.run makes one run"):
        audit.run("-m", "prompt=origin,persona-1")


def test_texts_are_escaped_where_a_notebook_shows_them():
    ratings = rated().assign(dimension="<script>x</script>")
    shown = audit.empathy_gap(ratings, GROUPS, low=0, high=100, n_permutations=100)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_several_dimensions_have_no_one_gap():
    both = pd.concat([rated(seed=k).assign(dimension=name) for k, name in enumerate(("faith", "heritage"))])
    found = audit.empathy_gap(both, GROUPS, low=0, high=100, n_permutations=100)
    assert set(found.headline["dimension"]) >= {"faith", "heritage"}
    with pytest.raises(audit.AuditError, match="use headline, which lists them all"):
        found.delta  # noqa: B018


def test_the_page_on_python_shows_what_its_code_gives():
    page = (Path(__file__).parents[1] / "docs" / "python.md").read_text(encoding="utf-8")
    code, shown = (page.split(fence)[1].split("```")[0] for fence in ("```python\n", "```text\n"))
    names = {}
    exec(code, names)
    assert repr(names["gap"]) == shown.strip()
    exec(page.split("```python\n")[2].split("```")[0], names)
    assert set(names["found"]["group"]) == {"Hindu", "Muslim", "Sikh"}
    # In-group ratings are 3 higher in every column, so that no group is rated lower than the others.
    assert names["found"]["disparity"].abs().max() < 1


def test_ratings_without_a_persona_are_not_taken_for_those_of_a_person():
    alone = rated()[lambda table: table["perceiver"] == rated()["perceiver"].iloc[0]]
    assert set(audit.disparity(alone.drop(columns="perceiver"), GROUPS, low=0, high=100)["view"]) - {"baseline"} == {
        "no_persona"
    }
    for group in ("unspecified", "no persona"):
        named = audit.disparity(alone.assign(perceiver="no persona"), GROUPS | {"no persona": group}, low=0, high=100)
        assert set(named["view"]) - {"baseline"} == {"no_persona"}
    person = audit.disparity(alone.assign(perceiver="a person"), GROUPS | {"a person": "unspecified"}, low=0, high=100)
    assert set(person["view"]) - {"baseline"} == {"unspecified"}


# --- Verified and gated -----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_run_is_verified_and_gated_as_by_the_commands(tmp_path):
    run = audit.open_run(shutil.copytree(EXAMPLES / "example", tmp_path / "run"))
    assert run.verify() == []
    gated = run.gate(margin=2)
    assert {row.verdict for row in gated.rows} <= {"passed", "undecided", "failed"}
    with pytest.raises(audit.AuditError, match="holds the same run"):
        run.gate(margin=2, baseline=run)
    with pytest.raises(audit.AuditError, match="margin=-1: must be a number above 0, the largest"):
        run.gate(margin=-1)
    (tmp_path / "run" / "tables" / "gap.csv").write_text("delta\n14\n")
    assert [finding.name for finding in run.verify()] == ["tables/gap.csv", "tables/gap.csv"]


def test_a_run_is_exported_as_by_the_command(audit, tmp_path):
    run = api.open_run(EXAMPLES / "example")
    files = run.export(tmp_path / "csv", form="csv", texts=True)
    assert audit("export", EXAMPLES / "example", "form=csv", "to=command", "texts=true") == 0
    assert [file.name for file in files] == ["ratings.csv", "dictionary.csv", "ABOUT.md"]
    assert {file.name: file.read_bytes() for file in files} == {
        file.name: file.read_bytes() for file in (tmp_path / "command").iterdir()
    }
    for words, said in (
        ({"form": "word"}, "form='word': there are csv, spss"),
        ({"form": "csv", "text": True}, "no export form has the option 'text'; there are license"),
        ({"form": "card", "texts": True}, "texts= is not of form=card"),
    ):
        with pytest.raises(api.AuditError, match=said):
            run.export(tmp_path / "other", **words)
    assert not (tmp_path / "other").exists()
