"""The study's results with the models' answers in them, planted: refusals, unreadable answers, and raw batches."""

import itertools
import json
import random
import re
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from test_replication import DIMENSIONS, FEW, RELIGION, name, oracle, quick, table_of  # noqa: F401  fixture

from audit.api import empathy_gap
from audit.asking.elicitation.rules import read_by_both
from audit.errors import ConfigError
from audit.extras.replication.released_results import find_released, parse_batch, parse_name, read_released

N = 12
TERMS = [person.term for person in RELIGION]
GROUPS = [person.group for person in RELIGION]
REFUSED = "I cannot rate the emotion of a person by their religion."
OUR_REFUSED = "As an AI language model, I am unable to assign a number to that."
UNREAD = "It depends."
KEY = {
    (0, "a Jew", "a Hindu"): (REFUSED, -1),
    (1, "a Jew", "a Hindu"): (OUR_REFUSED, -1),
    (1, "a Muslim", "a Muslim"): (UNREAD, -1),
    (2, "a person", "a Jew"): ("nan", -1),  # the study's script writes so where a model answered nothing
}
"""By narrative, perceiver and experiencer: an answer without a rating, and what the study writes for it."""


def answers_of(special=KEY, *, seed=0, n=N):
    """Return the answers and the intensities of each pair, as the study has them."""
    rng = random.Random(seed)
    found = {}
    for perceiver, experiencer in itertools.product(RELIGION, repeat=2):
        own = []
        for row in range(n):
            rating = 40 + 3 * row + rng.randrange(5) + (6 if perceiver.group == experiencer.group else 0)
            own.append(special.get((row, perceiver.term, experiencer.term), (str(rating), rating)))
        found[perceiver.term, experiencer.term] = own
    return found


def as_loops(answers, n=N):
    """Lay intensities out as the oracle takes them."""
    return [[[None if (own := answers[p, e][row][1]) == -1 else own for e in TERMS] for p in TERMS] for row in range(n)]


def plant(folder, answers, *, response=True, variant="origin", model="mistral", pairs=None):
    """Write result files with the columns that the study's script writes."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, ((perceiver, experiencer), own) in enumerate(answers.items()):
        table = pd.DataFrame(
            {
                "idx": range(place * len(own), (place + 1) * len(own)),
                "emotion": ["joy", "fear"] * (len(own) // 2),
                "system_prompt": f"Be {perceiver}.\nGrade.",
                "user_input": [f"So {experiencer} told: <text {row}> Grade: " for row in range(len(own))],
                **({"response": [text for text, _ in own]} if response else {}),
                "intensity": [intensity for _, intensity in own],
            }
        )
        if pairs is None or (perceiver, experiencer) in pairs:
            table.to_csv(folder / name(variant, model, perceiver, experiencer), sep="\t", index=False)


def ratings_in(run):
    return pq.read_table(run / "ratings.parquet").to_pandas().set_index(["narrative_id", "perceiver", "experiencer"])


def replicated(audit, tmp_path, folder="files", *words):
    assert audit("replicate", folder, "run_dir=out", *words, *FEW) == 0
    return tmp_path / "out" / "mistral-origin"


def outcomes_of(run):
    return table_of(run, "outcomes").set_index("pairs")


def refusals_of(run):
    return table_of(run, "missing").set_index("outcome")


# --- Refusals and unreadable answers ----------------------------------------------------------------------------------


@pytest.fixture
def run(audit, tmp_path, quick, capsys):  # noqa: F811
    plant(tmp_path / "files", answers_of())
    return replicated(audit, tmp_path)


def test_refusals_are_told_from_answers_without_a_number(run):
    ratings = ratings_in(run)
    wanted = {
        ("1", "a Jew", "a Hindu"): "refused",
        ("2", "a Jew", "a Hindu"): "refused",
        ("2", "a Muslim", "a Muslim"): "unparseable",
        ("3", "a person", "a Jew"): "unparseable",
    }
    for place, status in wanted.items():
        assert (ratings.loc[place, "status"], pd.isna(ratings.loc[place, "intensity"])) == (status, True)
    assert (ratings["status"] == "rated").sum() == 36 * N - 4
    assert ratings.loc[("1", "a Jew", "a Hindu"), "response"] == REFUSED
    everything = outcomes_of(run).loc["all"]
    assert everything[["n_refused", "n_unparseable", "n_failed"]].tolist() == [2, 2, 0]
    assert everything["refusal_rate"] == pytest.approx(2 / (36 * N))
    # Two of the 20 × 12 out-group prompts and none of the 5 × 12 in-group ones.
    refused = refusals_of(run).loc["refused"]
    assert (refused["rate_in_group"], refused["rate_out_group"]) == (0, pytest.approx(2 / 240))
    assert refused["gap_pp"] < 0
    assert json.loads((run / "manifest.json").read_text())["counts"] == {
        "rated": 36 * N - 4, "refused": 2, "unparseable": 2, "failed": 0, "total": 36 * N
    }  # fmt: skip


def test_the_published_numbers_are_those_of_the_intensities(run):
    answers = as_loops(answers_of())
    gap = table_of(run, "gap")
    found = gap.loc[gap["estimator"] == "published", "delta_z"].iloc[0]
    assert found == pytest.approx(oracle.delta_z(answers, GROUPS), abs=1e-12)


def test_the_study_s_rule_and_ours_stand_beside_each_other(run):
    table = table_of(run, "reading_rules").set_index(["study", "ours"])
    assert table["n_prompts"].to_dict() == {
        ("rated", "rated"): 36 * N - 4,
        ("refused", "refused"): 1,
        ("unparseable", "refused"): 1,
        ("unparseable", "unparseable"): 2,
    }
    assert table["n_disagreeing"].sum() == table["n_other_number"].sum() == 0
    assert "reading_rules" in set(table_of(run, "dictionary")["table"])
    page = re.sub("<[^>]+>", "", (run / "report.html").read_text("utf-8"))  # a term is explained where it first stands
    assert "the study&#39;s rule takes 1 for refused and finds no number in 3 others; ours takes 2" in page
    assert "not what the study" not in page
    assert "does not say why" not in page


DIFFERING = {
    (4, "a Jew", "a Hindu"): ("85", 58),
    (5, "a Jew", "a Hindu"): ("80", -1),
    (6, "a Jew", "a Hindu"): (UNREAD, 50),
}


def test_an_intensity_that_is_not_its_answer_s_is_counted_shown_and_kept(audit, tmp_path, quick, capsys):  # noqa: F811
    answers = answers_of(DIFFERING)
    plant(tmp_path / "files", answers)
    run = replicated(audit, tmp_path)
    assert "3 of 432 released intensities are not what" in capsys.readouterr().err
    assert table_of(run, "reading_rules")["n_disagreeing"].sum() == 3
    page = re.sub(r"\s+", " ", (run / "report.html").read_text("utf-8"))
    assert "3 of 432 released intensities are not what" in page
    assert "narrative 5 has 58, and its answer gives 85" in page
    own = ratings_in(run).xs(("a Jew", "a Hindu"), level=("perceiver", "experiencer"))["intensity"]
    assert (own["5"], pd.isna(own["6"]), own["7"]) == (58, True, 50)
    gap = table_of(run, "gap")
    found = gap.loc[gap["estimator"] == "published", "delta_z"].iloc[0]
    assert found == pytest.approx(oracle.delta_z(as_loops(answers), GROUPS), abs=1e-12)


def test_report_and_verify_give_the_same_of_a_released_run(run, audit, capsys):
    before = (run / "tables" / "reading_rules.csv").read_bytes()
    assert audit("report", str(run)) == 0
    assert (run / "tables" / "reading_rules.csv").read_bytes() == before
    assert audit("verify", str(run)) == 0


def test_answers_that_are_numbers_with_decimals_are_read_by_each_rule_as_it_reads():
    read = read_by_both(pd.Series(["7.5", "85", "85", "", "I cannot say."]), low=0, high=100)
    assert read["study_intensity"].tolist()[:3] == [7, 85, 85]
    assert read["our_intensity"].tolist()[:3] == [7.5, 85, 85]
    assert read["study"].tolist()[3:] == ["unparseable", "refused"]


# --- Where nobody tells why -------------------------------------------------------------------------------------------


def test_without_answers_how_many_were_refused_is_missing_and_never_0(audit, tmp_path, quick, capsys):  # noqa: F811
    plant(tmp_path / "files", answers_of(), response=False)
    plant(tmp_path / "files", answers_of({}, seed=1), response=False, variant="persona-1")
    run = replicated(audit, tmp_path)
    assert "no column response: how many of the missing ratings were refused is not known" in capsys.readouterr().err
    everything = outcomes_of(run).loc["all"]
    assert everything["n_rated"] == 36 * N - 4
    names = ["n_refused", "n_unparseable", "n_failed", "refusal_rate", "unparseable_rate"]
    assert everything[names].isna().all()
    missing = refusals_of(run)
    numbers = ["rate_in_group", "rate_out_group", "gap_pp", "ci_low", "ci_high", "p", "n_with_outcome"]
    for outcome in ("refused", "unparseable", "failed"):
        assert missing.loc[outcome, numbers].isna().all()
        assert missing.loc[outcome, "note"]
    assert missing.loc["missing", "n_with_outcome"] == 3  # between identities
    cells = table_of(run, "cells").set_index(["perceiver", "experiencer"])
    assert cells.loc[("a Jew", "a Hindu"), names].isna().all()
    assert cells.loc[("a Jew", "a Jew"), ["n_refused", "refusal_rate"]].tolist() == [0, 0]  # all rated: none refused
    assert "refused" not in json.loads((run / "manifest.json").read_text())["counts"]
    assert not (run / "tables" / "reading_rules.csv").exists()
    assert "does not say why 4 ratings are missing" in (run / "report.html").read_text("utf-8")
    # A run in which nothing is missing has no refusals; side by side the two say so.
    whole = outcomes_of(tmp_path / "out" / "mistral-persona-1").loc["all"]
    assert whole[["n_refused", "refusal_rate"]].tolist() == [0, 0]
    runs = table_of(tmp_path / "out" / "comparison", "runs").set_index("run")["n_refused"]
    assert (runs.isna().sum(), runs.dropna().tolist()) == (1, [0])


def test_a_table_of_ratings_without_a_status_says_no_refusal_rate_either(audit, tmp_path, quick):  # noqa: F811
    terms = ("a Muslim", "a Jew", "a Hindu")
    rows = [
        {"perceiver": p, "experiencer": e, "narrative_id": f"n{k}", "rating": 50 + k + (k * len(p) + len(e)) % 4}
        for p, e, k in itertools.product(terms, terms, range(6))
    ]
    rows[6]["rating"] = ""  # the first that a Muslim gave a Jew
    pd.DataFrame(rows).to_csv(tmp_path / "ratings.csv", index=False)
    pd.DataFrame({"term": terms, "group": terms}).to_csv(tmp_path / "groups.csv", index=False)
    words = ("report", "ratings=ratings.csv", "groups=groups.csv", "low=0", "high=100", "run_dir=out")
    assert audit(*words, *FEW) == 0
    assert outcomes_of(tmp_path / "out").loc["all", ["n_refused", "refusal_rate"]].isna().all()
    assert refusals_of(tmp_path / "out").loc["refused", ["rate_out_group", "gap_pp"]].isna().all()
    found = empathy_gap(pd.read_csv(tmp_path / "ratings.csv"), {term: term for term in terms}, low=0, high=100)
    assert found.tables["outcomes"].set_index("pairs").loc["all", ["n_refused", "refusal_rate"]].isna().all()
    of_eee = ("every-eval-ever", "*.json", "organization=us", "relationship=other", "model_id=our/model")
    for form, file, *words in (("card", "AUDIT_CARD.md"), of_eee):
        assert audit("export", "out", f"form={form}", f"to={form}", *words) == 0
        [told] = [path.read_text() for path in (tmp_path / form).rglob(file)]
        assert "without a rating for a reason that nobody told" in told
        assert "were refused" not in told


# --- Raw batches ------------------------------------------------------------------------------------------------------


COLUMNS = ("idx", "system_prompt", "user_input", "response")


def plant_batches(folder, answers, *, n_batches=2, columns=COLUMNS, change=None):
    """Write the answers of all pairs as the study's script left them, split where a pair is not at its end."""
    rows = pd.DataFrame(
        [
            {
                "persona": perceiver,
                "experiencer": experiencer,
                "emotion": ("joy", "fear")[row % 2],
                "system_prompt": f"Be {perceiver}.\nGrade.",
                "user_input": f"So {experiencer} told: <text {row} of a person and a Jew>\nGrade: ",
                "response": "" if text == "nan" else text,
            }
            for (perceiver, experiencer), own in answers.items()
            for row, (text, _) in enumerate(own)
        ]
    )
    rows.insert(0, "idx", range(len(rows)))
    if change is not None:
        rows = change(rows)
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(rows) // n_batches)
    for number in range(n_batches):
        part = rows.iloc[number * size : (number + 1) * size]
        part[list(columns)].to_csv(folder / f"religion_origin_batch-{number}.tsv", sep="\t", index=False)


FORMS = {
    "prompts alone": COLUMNS,
    "identities in columns": ("idx", "persona", "experiencer", "response"),
    "no idx": ("system_prompt", "user_input", "response"),
    "emotions": ("idx", "emotion", "system_prompt", "user_input", "response"),
}


@pytest.mark.parametrize("form", FORMS)
def test_raw_batches_give_what_the_result_files_give(form, tmp_path):
    plant(tmp_path / "files", answers_of())
    plant_batches(tmp_path / "study" / "results" / "exp_mistral", answers_of(), n_batches=3, columns=FORMS[form])
    [processed], [raw] = (find_released(tmp_path / place) for place in ("files", "study"))
    assert (raw.model, raw.variant, raw.dimensions) == ("mistral", "origin", ("religion",))
    one, other = (read_released(each).tables["religion"] for each in (processed, raw))
    for column in ("perceiver", "experiencer", "narrative_id", "status"):
        assert one[column].tolist() == other[column].tolist()
    pd.testing.assert_series_equal(one["intensity"], other["intensity"])
    assert (other["emotion"].astype(str) == "joy").any() == (form == "emotions")


def test_rows_of_a_batch_may_stand_in_any_order_where_they_have_an_idx(tmp_path):
    plant_batches(tmp_path / "exp", answers_of())
    plant_batches(tmp_path / "exp_other", answers_of(), change=lambda rows: rows.sample(frac=1, random_state=0))
    first, other = (read_released(each).tables["religion"] for each in find_released(tmp_path))
    pd.testing.assert_series_equal(first["intensity"], other["intensity"])


def test_a_replication_of_raw_batches_ends_in_a_report(audit, tmp_path, quick, capsys):  # noqa: F811
    plant_batches(tmp_path / "study" / "results" / "exp_mistral", answers_of())
    run = replicated(audit, tmp_path, "study")
    assert "raw batches: intensities are what the study's own rule reads" in capsys.readouterr().err
    assert outcomes_of(run).loc["all", ["n_refused", "n_unparseable"]].tolist() == [2, 2]
    gap = table_of(run, "gap")
    found = gap.loc[gap["estimator"] == "published", "delta_z"].iloc[0]
    assert found == pytest.approx(oracle.delta_z(as_loops(answers_of()), GROUPS), abs=1e-12)
    assert audit("replicate", "study", "run_dir=out", *FEW) == 0  # the same run


def test_names_of_batches_and_their_folders_are_read():
    for path, model in (
        ("exp/religion_origin_batch-0.tsv", "llama-8b"),
        ("exp_llama-70b/religion_origin_batch-0.tsv", "llama-70b"),
        ("any/religion_origin_qwen_batch-0.tsv", "qwen"),
        ("religion_origin_qwen/batch-0.tsv", "qwen"),
        ("of mistral/religion_origin_batch-0.tsv", "of mistral"),
    ):
        assert parse_batch(Path(path)) == ("religion", "origin", model, 0), path
    assert parse_batch(Path("exp/ethnicity_10-scale_batch-7.tsv")) == ("race_ethnicity", "10-scale", "llama-8b", 7)


def test_an_empty_model_in_a_name_is_the_study_s_first():
    read = parse_name(Path("nationality_persona-2__a person from China_a person.tsv"))
    assert (read.model, read.perceiver, read.experiencer) == ("llama-8b", "a person from China", "a person")
    with pytest.raises(ConfigError, match="no model and perceiver"):
        parse_name(Path("religion_origin_a Jew_a Hindu.tsv"))


def without_batch(folder):
    (folder / "religion_origin_batch-1.tsv").rename(folder / "religion_origin_batch-2.tsv")


def without_first(folder):
    (folder / "religion_origin_batch-0.tsv").unlink()


def without_last(folder):
    (folder / "religion_origin_batch-1.tsv").unlink()


def beside_files(folder):
    plant(folder, answers_of(), pairs={("a Jew", "a Jew")})


def edited(old, new, count=-1):
    def change(folder):
        for path in folder.iterdir():
            path.write_text(path.read_text().replace(old, new, count))

    return change


def twice(folder):
    content = (folder / "religion_origin_batch-0.tsv").read_text()
    (folder / "religion_origin_batch-2.tsv").write_text(content)


BROKEN = {
    "a batch between two": (without_batch, "batch 1 is missing; add it"),
    "the first batch": (without_first, "have no answers for "),
    "the last batch": (without_last, "have no answers for "),
    "a batch twice": (twice, "have the idx 0 twice"),
    "other files": (beside_files, "has raw batches, religion_origin_batch-0.tsv, and other files, religion_origin_mi"),
    "no answers": (edited("response", "answer", 1), "no column 'response'"),
    "no prompts": (edited("system_prompt", "prompt", 1), "has neither a column 'persona' nor 'system_prompt'"),
    "identities of nobody": (edited("Be a Jew.", "Be a Sikh."), "no perceiver of religion can be read in its system"),
    "an experiencer of nobody": (edited("So a Jew told", "So a Sikh told"), "no experiencer of religion can be read"),
    "other narratives": (edited("a Jew told: <text 3", "a Jew told: <text 4"), "its prompts have other narratives"),
    "an idx in words": (edited("\n7\t", "\nseven\t"), "the idx 'seven' is not a whole number"),
}  # fmt: skip


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_batch_ends_in_one_line(how, audit, tmp_path, capsys):
    change, fault = BROKEN[how]
    plant_batches(tmp_path / "exp", answers_of())
    change(tmp_path / "exp")
    assert audit("replicate", "exp", "run_dir=out") == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("audit")]
    assert fault in line
    assert not (tmp_path / "out").exists()


# --- Result files that do not go together -----------------------------------------------------------------------------


def test_answers_are_in_all_files_or_in_none_and_rows_in_one_order(audit, tmp_path, capsys):
    plant(tmp_path / "files", answers_of())
    plant(tmp_path / "files", answers_of(), response=False, pairs={("a Jew", "a Hindu")})
    assert audit("replicate", "files", "run_dir=out") == 2
    assert "has no column for the answer, and " in capsys.readouterr().err
    plant(tmp_path / "files", answers_of())
    path = tmp_path / "files" / name("origin", "mistral", "a Jew", "a Hindu")
    rows = pd.read_csv(path, sep="\t", keep_default_na=False)
    rows.iloc[[2, 1, 0, *range(3, N)]].to_csv(path, sep="\t", index=False)  # of one emotion
    assert audit("replicate", "files", "run_dir=out") == 2
    assert "bring the rows into one order" in capsys.readouterr().err
