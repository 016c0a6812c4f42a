"""What strategies change against a run without one, and what they cost: run folders to the page, no model."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_comparison import Numbers, files_of, table_of, write_run

from audit.runs.differences import choices_of, reference_runs
from audit.runs.manifest import Manifest
from audit.runs.parts import part_name
from audit.runs.store import RunFolder
from audit.tables.formatting import points, unsigned
from audit.tables.ratings import MANIPULATED, RATINGS
from audit.tables.stages import STAGES

pytestmark = pytest.mark.long

COMMITTED = Path(__file__).parents[1] / "reports" / "example-strategies" / "comparison"
LED = {"name": "ecn", "stages": ["perspective", "synthesis"]}


def plant(folder, *, gap, strategy=None, level=50.0, refused=0, mass=None, stages=(), text=None, n=30, seed=0, **more):
    """Write a complete run with a gap of so many points, noise, a level of all ratings, refusals, and stages.

    ``text`` gives what a stage writes in a row of the ratings; else all texts are one letter.
    """
    # The narratives' own part is the same in all runs; the noise is not.
    named = {"elicitation": {"method": "generate"}} | ({"strategy": strategy} if strategy else {})
    write_run(folder, n=n, seed=seed, identity={"folder": folder.name}, **named | more)
    with RunFolder(folder) as kept:
        rows = kept.read_ratings(n_prompts=kept.read_manifest().n_prompts).sort_values("prompt_index")
        noise = np.random.default_rng(list(folder.name.encode())).normal(scale=1, size=len(rows))
        narrative = rows["narrative_id"].str[1:].astype(float) % 10
        side = rows["in_group"].map({True: gap / 2, False: -gap / 2}).astype(float)
        rows["intensity"] = level + narrative + side + noise
        rows["number_mass"] = mass
        rows["status"] = rows["status"].astype(object)
        rows.loc[rows["prompt_index"] < refused, ["status", "intensity"]] = ["refused", None]
        kept.write_shard(0, rows[list(RATINGS)])
        for place, (read, wrote) in enumerate(stages):
            kept.parts(STAGES).write(
                part_name(0, place),
                [
                    {"prompt_index": row["prompt_index"], "stage": f"stage {place}",
                     "text": "x" if text is None else text(row), "status": "written" if read else "failed",
                     "n_prompt_tokens": read, "n_tokens": wrote, "n_dropped": 0}
                    for row in rows.to_dict("records")
                ],
            )  # fmt: skip
    return folder


@pytest.fixture(autouse=True)
def no_figures(request, monkeypatch):
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("audit.comparing.comparison._draw", lambda *_: {})


@pytest.fixture
def drawn():
    """Ask for it to have figures drawn."""


@pytest.fixture
def two(tmp_path):
    """Folders of a run with a gap of 6 points, and of one led by a strategy with a gap of 2."""
    plant(tmp_path / "none", gap=6, mass=0.9, timings={"elicit_s": 12.0, "n_prompts": 24})
    plant(tmp_path / "led", gap=2, strategy=LED, level=60, mass=0.8, stages=[(40, 10), (60, 20)])
    return ["none", "led"]


def page_of(folder):
    """Return the page from the strategies on."""
    return (folder / "comparison.html").read_text("utf-8").partition('<h2 id="worth">')[2]


def words_of(page):
    """Return all that a page says, as text."""
    inline = re.sub(r"</?(data|bdi|strong|a)\b[^>]*>", "", page.read_text("utf-8"))
    return " ".join(re.sub(r"<[^>]*>", " ", inline).split())


def rows_of(folder):
    return {row["run"]: row for row in table_of(folder, "strategies").fillna({"reference": ""}).to_dict("records")}


def test_a_planted_change_lies_in_its_interval_and_leaves_out_0(audit, two, tmp_path):
    assert audit("report", *two, "run_dir=out") == 0
    none, led = rows_of(tmp_path / "out").values()
    assert (led["strategy"], led["reference"], none["strategy"], none["reference"]) == ("ecn", "none", "none", "")
    assert led["change_low"] < -4 < led["change_high"] < 0  # 2 − 6, as planted
    assert none["ci_low"] < 6 < none["ci_high"]
    assert led["ci_low"] < 2 < led["ci_high"]
    assert led["delta_change"] == pytest.approx(led["delta"] - none["delta"])  # complete and balanced
    assert pd.isna(none["delta_change"])
    # One comparison: Holm leaves p as it is, and it is the row of the table of all pairs with its sign turned.
    [pair] = table_of(tmp_path / "out", "comparisons").to_dict("records")
    assert (led["family_size"], led["n_narratives"], led["method"]) == (1, 30, "Holm")
    assert led["p_adjusted"] == led["p"] == pytest.approx(pair["p"])
    assert led["delta_change"] == pytest.approx(-pair["delta_change"])


def test_what_else_changed_and_the_cost_stand_beside_it(audit, two, tmp_path):
    assert audit("report", *two, "run_dir=out") == 0
    none, led = rows_of(tmp_path / "out").values()
    means = [RunFolder(tmp_path / name).read_ratings(n_prompts=120)["intensity"].astype(float).mean() for name in two]
    assert [none["mean_rating"], led["mean_rating"]] == pytest.approx(means)
    assert led["mean_change"] == pytest.approx(means[1] - means[0])
    assert [none["mean_number_mass"], led["mean_number_mass"]] == pytest.approx([0.9, 0.8])
    costs = ["n_calls", "n_prompt_tokens", "n_tokens"]
    assert [none[name] for name in costs] == [1, 0, 0]
    assert [led[name] for name in costs] == [3, 100, 30]
    assert none["seconds"] == 0.5  # 12 s over the 24 prompts of the last session, not the 120 of the run
    assert pd.isna(led["seconds"])


@pytest.mark.parametrize("checked", [True, False])
def test_a_gap_that_falls_with_the_response_to_the_story_is_shown_beside_it(audit, tmp_path, checked):
    """Planted: ratings that come closer, so that own minus wrong emotion falls from 30 to 10 points, and δ from 6."""
    for name, gap, response in (("none", 6, 30), ("led", 2, 10)):
        folder = plant(tmp_path / name, gap=gap, strategy=LED if name == "led" else None)
        with RunFolder(folder) as kept:
            kept.table(MANIPULATED).write(
                {"narrative_id": f"n{k}", "kind": kind, "emotion": "joy", "status": "rated", "response": "",
                 "intensity": 40.0 + (response + k % 2 - 0.5) * (kind == "own")}
                for k in range(30 if checked else 0) for kind in ("own", "wrong")
            )  # fmt: skip
    assert audit("report", "none", "led", "run_dir=out") == 0
    shown = re.sub(r"<[^>]*>", " ", page_of(tmp_path / "out"))
    assert ("response to the story, points" in shown) == checked
    for response in ("+30.00", "+10.00"):
        assert (response in shown) == checked


def test_a_stage_that_was_not_asked_is_no_call(audit, two, tmp_path):
    plant(tmp_path / "half", gap=2, strategy=LED | {"name": "half"}, stages=[(40, 10), (0, 0)])
    assert audit("report", "none", "half", "run_dir=out") == 0
    assert rows_of(tmp_path / "out")["half"]["n_calls"] == 2


def test_a_question_that_was_not_asked_is_no_call(audit, two, tmp_path):
    plant(tmp_path / "half", gap=2, strategy=LED | {"name": "half"}, stages=[(40, 10)])
    with RunFolder(tmp_path / "half") as folder:
        rows = folder.read_ratings(n_prompts=120)
        unasked = rows["prompt_index"] >= 90
        rows["n_prompt_tokens"] = [None if each else 50 for each in unasked]
        rows["status"] = rows["status"].astype(object)
        rows.loc[unasked, ["status", "intensity"]] = ["failed", None]
        folder.write_shard(0, rows[list(RATINGS)])
    assert audit("report", "none", "half", "run_dir=out") == 0
    half = rows_of(tmp_path / "out")["half"]
    assert (half["n_calls"], half["n_question_tokens"]) == (1.75, 50)


def test_refusals_have_no_number_where_the_elicitation_sees_none(audit, tmp_path):
    for name, how in (("none", {}), ("led", {"strategy": LED})):
        plant(tmp_path / name, gap=6, elicitation={"method": "expected"}, mass=0.5, **how)
    assert audit("report", "none", "led", "run_dir=out") == 0
    assert table_of(tmp_path / "out", "strategies")["refusal_rate"].isna().all()
    page = page_of(tmp_path / "out")
    assert ">number mass</th>" in page
    assert re.search(r'data-at="strategies:\d:refusal_rate">–<', page)


def test_one_table_to_paste_has_changes_and_costs_as_the_csv(audit, two, tmp_path):
    assert audit("report", *two, "run_dir=out") == 0
    none, led = rows_of(tmp_path / "out").values()
    lines = (tmp_path / "out" / "tables" / "strategies.md").read_text("utf-8").splitlines()
    head, _, first, second = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    change = f"{points(led['delta_change'])} [{points(led['change_low'])}, {points(led['change_high'])}]"
    assert dict(zip(head, second, strict=True)) == {
        "dimension": "religion", "strategy": "ecn",
        "δ for these words only [95% CI]": f"{points(led['delta'])} "
        f"[{points(led['ci_low'])}, {points(led['ci_high'])}]",
        "change of δ [95% CI]": change, "p, corrected": "< .001", "speaks of": "these pairs of words",
        "n narratives": "30",
        "mean rating": unsigned(led["mean_rating"]), "its change": points(led["mean_change"]), "refused": "0%",
        "no rating": "0%", "number mass": "80.0%", "calls": "3", "tokens written": "30", "seconds": "–",
    }  # fmt: skip
    assert (first[1], first[3], first[5], first[-1]) == ("none", "–", "–", unsigned(none["seconds"]))
    assert r"\begin{tabular}" in (tmp_path / "out" / "tables" / "strategies.tex").read_text("utf-8")
    assert "-4." in change.replace("−", "-")
    assert "".join(lines[2].split()) in "".join(page_of(tmp_path / "out").split())


def test_another_engine_than_the_reference_s_is_said(audit, tmp_path):
    plant(tmp_path / "none", gap=6, engine={"name": "vllm", "version": "1"})
    plant(tmp_path / "led", gap=2, strategy=LED, engine={"name": "transformers", "version": "5"})
    assert audit("report", "none", "led", "run_dir=out") == 0
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    assert "was run by transformers 5, and " in page
    assert "a part of the change may be the engine&#39;s" in page


@pytest.mark.parametrize(("about_first", "differ"), [("crime, poverty and slums", True), ("rain and stairs", False)])
def test_what_stages_write_about_groups_stands_beside_what_they_change(audit, tmp_path, about_first, differ):
    def text(row):
        about = about_first if row["experiencer"] == "a Hindu" else "rain and stairs"
        return f"They know {about}{' or bread' * (row['prompt_index'] % 7)}."

    plant(tmp_path / "none", gap=6)
    plant(tmp_path / "led", gap=2, strategy=LED, stages=[(40, 10)], text=text)
    assert audit("report", "none", "led", "run_dir=out") == 0
    none, led = rows_of(tmp_path / "out").values()
    assert (none["n_text_tests"], none["n_text_differences"]) == (0, 0)
    # Stereotype words differ by a test; sentiment by the same amount in all narratives. Two groups are one question.
    assert (led["n_text_tests"], led["n_text_differences"]) == ((2, 2) if differ else (0, 0))
    assert ("not testable" in page_of(tmp_path / "out")) == (not differ)
    page = page_of(tmp_path / "out")
    of_tests = '<data value="2" data-at="strategies:1:n_text_differences">2</data> of <data value="2"'
    assert (of_tests in page) == differ
    assert "no texts" in page


def test_refusals_are_counted_and_shift_no_mean(audit, tmp_path):
    plant(tmp_path / "none", gap=6)
    plant(tmp_path / "led", gap=2, strategy=LED, refused=12)
    assert audit("report", "none", "led", "run_dir=out") == 0
    led = rows_of(tmp_path / "out")["ecn"]
    assert (led["refusal_rate"], led["missing_share"]) == (0.1, 0.1)  # 12 of 30 narratives × 4 pairs
    rated = RunFolder(tmp_path / "led").read_ratings(n_prompts=120).query("status == 'rated'")
    assert led["mean_rating"] == pytest.approx(rated["intensity"].astype(float).mean())
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    assert 'data-at="strategies:1:refusal_rate">10.0%</data>' in page


def test_holm_is_over_the_strategies_and_not_over_all_pairs(audit, two, tmp_path):
    for number, gap in enumerate((5.9, 6.1)):
        plant(tmp_path / f"other-{number}", gap=gap, strategy=LED | {"name": f"other-{number}"})
    assert audit("report", *two, "other-0", "other-1", "run_dir=out") == 0
    table = table_of(tmp_path / "out", "strategies").query("strategy != 'none'")
    assert table["family_size"].tolist() == [3, 3, 3]  # and 6 pairs
    ordered = table.sort_values("p")
    steps = (ordered["p"] * [3, 2, 1]).cummax().clip(upper=1)
    assert ordered["p_adjusted"].tolist() == pytest.approx(steps.tolist())


def test_changes_are_counted_by_their_corrected_p_and_the_undecided_are_not_called_unchanged(audit, tmp_path):
    for name, gap in (("none", 6), ("less", 2), ("more", 9), ("same", 6)):
        plant(tmp_path / name, gap=gap, **({} if name == "none" else {"strategy": LED | {"name": name}}))
    assert audit("report", "none", "less", "more", "same", "run_dir=out") == 0
    table = table_of(tmp_path / "out", "strategies").set_index("strategy")
    found = table["delta_change"].where(table["p_adjusted"] < 0.05)
    assert (found["less"] < 0, found["more"] > 0, pd.isna(found["same"])) == (True, True, True)
    assert table["code"].reindex(["less", "more", "same"]).tolist() == ["lower", "higher", "not_shown"]
    screen = words_of(tmp_path / "out" / "comparison.html").partition("Print this summary")[0]
    assert re.search(r"lower under less \(−[34]\.\d\d\) and higher under more \(\+[23]\.\d\d\), in points", screen)
    assert "Not shown to change it: same." in screen
    assert "that runs are alike where no difference is shown" in screen


def test_where_every_strategy_is_found_to_change_delta_nothing_is_said_of_undecided_ones(audit, two, tmp_path):
    assert audit("report", *two, "run_dir=out") == 0
    screen = words_of(tmp_path / "out" / "comparison.html").partition("Print this summary")[0]
    table = table_of(tmp_path / "out", "strategies").set_index("strategy")
    assert table.loc["ecn", ["code", "claim"]].tolist() == ["lower", "uncontrolled"]
    assert re.search(r"lower under ecn than without −[34]\.\d\d points .* corrected p &lt; \.001", screen)
    assert "Not shown to change it" not in screen


def test_the_page_says_it_with_care_and_its_numbers_are_the_table_s(audit, drawn, two, tmp_path):
    assert audit("report", *two, "run_dir=out") == 0
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    section = page.partition('<h2 id="worth">')[2].partition("</section>")[0]
    assert "A smaller |δ| is no proof of less bias" in section
    assert "leaves out 0" in section
    written = pd.read_csv(tmp_path / "out" / "tables" / "strategies.csv", dtype=str, keep_default_na=False)
    numbers = Numbers(section).found
    assert {place.split(":")[2] for place, _ in numbers} >= {
        "delta", "delta_change", "change_low", "p_adjusted", "mean_rating", "refusal_rate", "mean_number_mass",
        "n_calls", "n_prompt_tokens", "n_tokens", "seconds",
    }  # fmt: skip
    for place, value in numbers:
        name, line, column = place.split(":")
        assert (name, written[column][int(line)]) == ("strategies", value), place
    assert (tmp_path / "out" / "figures" / "strategies-religion.svg").exists()
    once = files_of(tmp_path / "out")
    assert audit("report", *two, "run_dir=out") == 0
    assert files_of(tmp_path / "out") == once


def test_every_number_of_the_committed_page_is_its_table_s():
    tables = {
        path.stem: pd.read_csv(path, dtype=str, keep_default_na=False) for path in (COMMITTED / "tables").glob("*.csv")
    }
    assert sorted(set(tables["strategies"]["strategy"])) == [
        "coe-cbt", "coe-dbt", "coe-pct", "coe-rt", "ecn", "none", "perspective", "two-stage",
    ]  # fmt: skip
    numbers = Numbers((COMMITTED / "comparison.html").read_text("utf-8")).found
    assert len(numbers) > 500
    for place, value in numbers:
        name, line, column = place.split(":")
        assert tables[name][column][int(line)] == value, place


@pytest.mark.parametrize("same", [None, LED])
def test_runs_without_a_difference_in_strategy_have_no_such_section(audit, drawn, tmp_path, same):
    plant(tmp_path / "A", gap=6, strategy=same)
    plant(tmp_path / "B", gap=5, strategy=same, seed=1)
    assert audit("report", "A", "B", "run_dir=out") == 0
    assert not (tmp_path / "out" / "tables" / "strategies.csv").exists()
    assert "Is it worth it?" not in (tmp_path / "out" / "comparison.html").read_text("utf-8")
    assert not list((tmp_path / "out" / "figures").glob("strategies*"))


def test_a_strategy_without_its_reference_keeps_its_row_and_says_why(audit, drawn, two, tmp_path):
    plant(tmp_path / "alone", gap=2, strategy=LED, seed=5)
    plant(tmp_path / "idle", gap=3, seed=6)
    assert audit("report", *two, "alone", "idle", "run_dir=out") == 0
    rows = {(row["strategy"], row["run"]): row for row in rows_of(tmp_path / "out").values()}
    assert len(rows) == 3  # a run of strategy none that nothing is compared with has no place here
    [alone] = [row for row in rows.values() if str(row["note"]).startswith("no run of strategy none has the same")]
    assert (alone["reference"], alone["family_size"], "seed 5" in alone["run"]) == ("", 0, True)
    assert pd.isna(alone["delta_change"])
    assert not pd.isna(alone["delta"])


def test_a_δ_that_can_not_be_estimated_leaves_a_note(audit, drawn, two, tmp_path):
    plant(tmp_path / "mute", gap=2, strategy=LED | {"name": "mute"}, refused=120)
    assert audit("report", *two, "mute", "run_dir=out") == 0
    mute = rows_of(tmp_path / "out")["mute"]
    assert mute["refusal_rate"] == 1
    assert (pd.isna(mute["delta"]), pd.isna(mute["mean_rating"]), pd.isna(mute["p_adjusted"])) == (True, True, True)
    assert "no change, since δ of mute cannot be estimated" in mute["note"]


def test_of_several_dimensions_each_and_their_mean_have_rows(audit, tmp_path):
    plant(tmp_path / "none", gap=6, dimensions=("religion", "age"))
    plant(tmp_path / "led", gap=2, strategy=LED, dimensions=("religion", "age"))
    assert audit("report", "none", "led", "run_dir=out") == 0
    table = table_of(tmp_path / "out", "strategies")
    assert table["dimension"].tolist() == ["religion", "religion", "age", "age", "all", "all"]
    changes = table.query("strategy == 'ecn'").set_index("dimension")
    assert (changes["change_low"] < -4).all()
    assert (changes["change_high"] > -4).all()
    assert changes["mean_change"]["all"] == pytest.approx(changes["mean_change"][["religion", "age"]].mean())


def test_other_scales_beside_it_put_gaps_and_changes_in_one_unit(audit, tmp_path):
    plant(tmp_path / "none", gap=6)
    plant(tmp_path / "led", gap=2, strategy=LED)
    plant(tmp_path / "none-10", gap=0.6, level=5, scale=(0, 200), variant="wide")
    plant(tmp_path / "led-10", gap=0.2, level=5, scale=(0, 200), variant="wide", strategy=LED)
    assert audit("report", "none", "led", "none-10", "led-10", "run_dir=out") == 0
    table = table_of(tmp_path / "out", "strategies")
    assert set(table["unit"]) == {"% of the scale"}
    wide = table.loc[table["run"].str.startswith("wide") & (table["strategy"] == "ecn")].iloc[0]
    own = table.set_index("run")["delta"]
    assert wide["delta_change"] == pytest.approx(wide["delta"] - own[wide["reference"]])
    assert wide["change_low"] < -0.2 < wide["change_high"]  # −0.4 points of 200


@pytest.mark.parametrize(
    ("path", "value"),
    [("model", {"name": "other"}), ("seed", 3), ("scale", {"low": 0, "high": 10}), ("prompt", {"sha256": "x"}),
     ("stimuli", {"source": "csv"}), ("elicitation", {"method": "generate"}), ("identity", {"identities": "x"}),
     ("identity", {"model_files": "x"}), ("identity", {"elicitation": {"max_pruned_points": 9}}),
     ("identity", {"task": {"temperature": 1.0}})],
)  # fmt: skip
def test_a_reference_differs_in_nothing_but_the_strategy(path, value):
    base = {"model": {"name": "m"}, "seed": 0, "scale": {"low": 0, "high": 100}, "elicitation": {"method": "expected"}}
    runs = {"none": base, "led": base | {"strategy": LED}, "other": base | {path: value}}
    choices = {label: choices_of(Manifest.of(manifest), variant="origin") for label, manifest in runs.items()}
    assert reference_runs(choices) == {"led": "none"}
    assert reference_runs({label: choices[label] for label in ("led", "other")}) == {"led": ""}
    assert reference_runs({label: choices[label] for label in ("none", "other")}) == {}


@pytest.mark.parametrize(("method", "unread"), [("expected", "max_tokens"), ("generate", "max_pruned_points")])
def test_a_setting_that_is_not_read_makes_no_other_reference(method, unread):
    base = {"model": {"name": "m"}, "scale": {"low": 0, "high": 100}, "elicitation": {"method": method}}
    runs = {"none": base | {"identity": {"elicitation": {unread: 1}}}}
    runs["led"] = base | {"identity": {"elicitation": {unread: 2}}, "strategy": LED}
    assert reference_runs({name: choices_of(Manifest.of(run), variant="origin") for name, run in runs.items()}) == {
        "led": "none"
    }


def test_of_two_references_the_one_of_the_same_engine_is_taken():
    base = {"model": {"name": "m"}, "scale": {"low": 0, "high": 100}}
    runs = {"A": base | {"engine": {"name": "vllm"}}, "B": base | {"engine": {"name": "transformers"}}}
    runs["led"] = runs["B"] | {"strategy": LED}
    choices = {label: choices_of(Manifest.of(manifest), variant="origin") for label, manifest in runs.items()}
    assert reference_runs(choices) == {"led": "B"}
