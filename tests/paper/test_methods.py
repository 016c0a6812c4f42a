"""Every sentence of a section on methods is true of the run: it is there where its fact is planted, and else not."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import planted as cases
import pytest
from gated import two_terms
from runs import outside_run

sys.path.insert(0, str(Path(__file__).parent))
from studies import REPORTS, planted, said, study_of, within

from audit.extras.exchange.base import Collected
from audit.extras.exchange.paper.export import _study
from audit.extras.exchange.paper.gaps import paper_gap_table
from audit.extras.exchange.paper.methods import methods
from audit.extras.exchange.paper.references import bibliography
from audit.extras.exchange.paper.text import Cite, as_plain, works_in
from audit.statistics.verdict import Verdict
from audit.tasks.registry import task_of

EXAMPLE = json.loads((REPORTS / "example" / "manifest.json").read_text(encoding="utf-8"))
N, DAY = EXAMPLE["n_prompts"], EXAMPLE["started"][:10]
CAUTION = "Ratings that do not follow what is told say nothing of empathy"


@pytest.fixture(scope="module")
def run():
    return study_of()


@pytest.fixture(scope="module")
def replies():
    return study_of("example-replies")


def check(run, **values):
    return planted(run, tables={"manipulation": run.tables["manipulation"].assign(**values)})


def gaps(run, **values):
    """Change the headline's rows about any such narratives."""
    gap = run.tables["gap"].copy()
    headline = gap["headline"].astype(bool) & (gap["scope"] == "narratives")
    for name, value in values.items():
        gap[name] = gap[name].astype(object)
        gap.loc[headline, name] = value
    return planted(run, tables={"gap": gap})


def without_interval(run):
    return gaps(run, se=math.nan, ci_low=math.nan, ci_high=math.nan, p=math.nan, note="one narrative says nothing")


def with_margin(run, **values):
    """Set a margin, and what came of holding the headline against it."""
    content = run.manifest.content["config"]
    margin = {"config": {**content, "statistics": {**content["statistics"], "margin": 2.0}}}
    return planted(run, tables={"equivalence": run.tables["equivalence"].assign(margin=2.0, **values)}, **margin)


def both_dimensions(run):
    """Add a mean over dimensions."""
    gap = run.tables["gap"]
    return planted(run, tables={"gap": pd.concat([gap, gap.assign(dimension="all")], ignore_index=True)})


def with_status(run, **n):
    rows = run.rows.copy()
    rows["status"] = rows["status"].astype(object)
    at = 0
    for status, many in n.items():
        rows.iloc[at : at + many, rows.columns.get_loc("status")] = status
        at += many
    return planted(run, rows=rows)


def with_groups(run, side, group):
    rows = run.rows.copy()
    rows[f"{side}_group"] = rows[f"{side}_group"].astype(str).mask(np.arange(len(rows)) < 10, group)
    return planted(run, rows=rows)


PLANTED = {
    "failed check": (lambda run: check(run, answer="does_not_follow", difference=0.2, ci_low=-0.1, ci_high=0.5, se=0.15,
                                       n_pairs=60, least_response=1.0),
                     ["was not rated higher by as much as the least response (mean difference 0.20 points, 95% CI "
                      "[−0.10, 0.50], 60 pairs, least response 1.00): the check failed", CAUTION]),
    "check that shows nothing": (lambda run: check(run, answer="not_shown", n_pairs=12),
                                 ["the check decides nothing."]),
    "passed check": (lambda run: check(run, answer="follows", difference=5.0, ci_low=4.0, ci_high=6.0, n_pairs=12,
                                       least_response=1.0),
                     ["The former was rated higher (mean difference 5.00 points, 95% CI [4.00, 6.00], 12 pairs, least "
                      "response 1.00): the check was passed."]),
    "check without interval": (lambda run: check(run, answer="follows", ci_low=math.nan, ci_high=math.nan, se=math.nan,
                                                 difference=5.0),
                               ["The former was rated higher (mean difference 5.00 points, without an interval"]),
    "check of nobody": (lambda run: check(run, answer="not_shown", n_pairs=0),
                        ["Too few were rated to tell one from the other."]),
    "no check": (lambda run: planted(run, tables={"manipulation": run.tables["manipulation"].iloc[:0]}),
                 ["No manipulation check was made."]),
    "no interval": (without_interval, ["δ of religion had an estimate and no interval; the table says why."]),
    "no estimate": (lambda run: gaps(without_interval(run), delta=math.nan),
                    ["δ of religion could not be estimated; the table says why."]),
    "within noise": (lambda run: gaps(run, delta=1e-5),
                     ["δ is below twice what it would vary by if the same prompts were asked again"]),
    "thinking": (lambda run: planted(run, **within(run, "config", thinking={"mode": "on", "max_tokens": 1024,
                                                                           "temperature": 0.6, "top_p": 0.95})),
                 ["The model thought before each answer, in 1,024 tokens at most, drawn at temperature 0.6 and top-p "
                  "0.95. Where a thought had not ended by then, there is no answer."]),
    "thinking in a budget": (lambda run: planted(run, **within(run, "config", thinking={
        "mode": "budget", "max_tokens": 64, "temperature": 0})),
        ["in 64 tokens at most, at temperature 0. A thought that had not ended by then was closed for the model."]),
    "strategy": (lambda run: planted(run, **within(run, "strategy", name="ecn", source="ECN, arXiv:2511.18696",
                                                   deviates="wording ours", stages=["a", "b"])),
                 ["the model was led by the strategy ecn (ECN, arXiv:2511.18696), in 2 stages (a, b) (Xin, 2025).",
                  "What of it is not the source's: wording ours."]),
    "refusals": (lambda run: with_status(run, refused=100, unparseable=7, failed=1),
                 [f"Of {N} prompts, {N - 108} gave a rating, 100 were refused, 7 gave no rating that could be read and "
                  "1 gave no answer."]),
    "own narratives": (lambda run: planted(run, **within(run, "stimuli", source="csv", n_narratives=9, n_available=9)),
                       ["It was asked about 9 narratives of our own, about 12 emotions"]),
    "the study's narratives": (lambda run: planted(run, **within(run, "stimuli", source="hou2025")),
                               ["of crowd-enVENT (Troiano et al., 2023), as they were rewritten for such prompts"]),
    "conversations": (lambda run: planted(run, **within(run, "stimuli", source="conversations")),
                      ["read the last utterance of a conversation, said by a person",
                       "12 of 408 utterances of a corpus of conversations of our own"]),
    "served": (lambda run: planted(run, model={"name": "big", "path": "maker/big", "files": {}},
                                   engine={"name": "openai", "version": "", "device": "server", "dtype": ""}),
               ["The model was big (maker/big), asked at a server. A server does not tell which revision of the "
                "weights answers."]),
    "no revision": (lambda run: planted(run, **within(run, "model", revision=None)),
                    [", of no recorded revision; the run's manifest has the SHA-256 of its files."]),
    "accepted": (lambda run: planted(run, accepted=["ratings.parquet"]),
                 ["1 file of the run had changed after it was stored, and was accepted so (ratings.parquet). Whether "
                  "the answers are the model's is not known."]),
    "not checked": (lambda run: planted(run, **within(run, "model", not_checked="the server was away")),
                    ["was not checked (the server was away)"]),
    "unfinished": (lambda run: replace(planted(run, status="running", n_prompts=N + 24), n_missing=24),
                   [f"Caution: the run is not finished. 24 of {N + 24} prompts had not been asked.",
                    f"Of {N} prompts of the {N + 24} that the run has, {N} gave a rating.", f"Asking began on {DAY}."]),
    "several gaps": (lambda run: gaps(run, family_size=3.0),
                     ["p values were corrected over the run's 3 gaps by Holm's method (Holm, 1979)."]),
    "margin": (lambda run: with_margin(run, p_equivalence=0.012),
               ["A gap of less than 2.00 points counted as too small to matter. Whether a gap lies within that margin "
                "was tested by two one-sided tests (Schuirmann, 1987), each at an error rate of .05."]),
    "margin and no interval": (lambda run: with_margin(run, p_equivalence=math.nan),
                               ["A gap of less than 2.00 points counted as too small to matter; no gap could be "
                                "compared with that."]),
    "German": (lambda run: planted(run, language={"code": "de", "name": "German", "sha256": "d" * 64,
                                                  "reviewed": "no native speaker has read it yet"}),
               ["Prompts, identities and narratives were in German, by the language pack de of empathy-audit, SHA-256 "
                "dddddddddddd…. Of these texts the pack says: no native speaker has read it yet. A translation differs "
                "from the English in more than the language, and stands for no culture."]),
    "a server's probabilities": (lambda run: planted(run, engine={"name": "openai"}),
                                 ["The server told the probabilities of the likeliest tokens alone, and a rating is of "
                                  "what they tell."]),
    "utterances of few conversations": (lambda run: gaps(
        planted(run, **within(run, "stimuli", source="conversations")),
        note="over 5 conversations: utterances of one are not independent"),
        ["standard errors are by a jackknife that leaves out conversations (MacKinnon et al., 2023)."]),
    "two dimensions": (lambda run: both_dimensions(run), ["In the mean over dimensions, each dimension counts alike."]),
    "in words": (lambda run: planted(run, **within(run, "elicitation", method="generate", prefill="", max_tokens=24)),
                 ["The model was asked to write its answer at temperature 0, in 24 tokens at most. A parser read the "
                  "rating from what was written."]),
    "published parser": (lambda run: planted(run, **within(run, "elicitation", method="generate", parser="hou2025")),
                         ["The published parser (Hou et al., 2025) read the rating"]),
    "elsewhere": (lambda run: planted(run, **within(run, "model", elsewhere={"by": "ask.py"}),
                                      **within(run, "elicitation", method="generate")),
                  ["The model is said to be smollm2. It was asked elsewhere by ask.py", "was not checked.",
                   "Answers were written in words.", "The answers were read by empathy-audit"]),
    "quantized": (lambda run: planted(run, config={**run.manifest.content["config"], "model": {
        **run.manifest.content["config"]["model"], "quantization": "awq"}}), ["Its weights were quantized (awq)."]),
    "left open": (lambda run: with_groups(run, "experiencer", "unspecified"),
                  ["Beside these, a person whose identity is left open stood as a baseline, outside of δ."]),
    "no persona": (lambda run: with_groups(run, "perceiver", "no persona"),
                   ["Beside these, a perceiver who is given no identity at all stood as a baseline, outside of δ."]),
    "wordings": (lambda run: planted(run, rows=run.rows.assign(wording=np.arange(len(run.rows)) % 8)),
                 ["asked in 8 wordings, the original among them; the mean of its ratings counts once."]),
    "no control": (lambda run: planted(run, tables={"controls": run.tables["controls"].iloc[:0]}),
                   ["Caution, of religion: repeated words are not controlled: in-group pairs repeat the "
                    "perceiver's words, out-group pairs do not."]),
    "mixed model": (lambda run: gaps(run, estimator="mixed"),
                    ["Where no narrative's own ratings tell its gap, δ is that of a mixed model"]),
    "these identities alone": (lambda run: planted(run, tables={
        "gap": run.tables["gap"].assign(
            ci_low=run.tables["gap"]["ci_low"].where(run.tables["gap"]["scope"] == "narratives")),
        "verdicts": run.tables["verdicts"].assign(scope="pairs")}),
        ["Nothing is claimed about other identities than those that were asked."]),
}  # fmt: skip


@pytest.mark.parametrize("kind", PLANTED)
def test_what_is_planted_is_said_and_of_no_other_run(run, kind):
    plant, sentences = PLANTED[kind]
    text = said(plant(run))
    plain = said(run)
    for sentence in sentences:
        assert sentence in text
        assert kind == "failed check" or sentence not in plain, "a sentence that every run says shows nothing"
    assert re.search(r"\b(nan|None|inf|NaN)\b", text) is None


# What is no longer true where something is planted.
@pytest.mark.parametrize(
    ("kind", "gone"),
    [
        ("passed check", CAUTION),
        ("no check", CAUTION),
        ("check of nobody", "the check failed"),
        ("no interval", "Intervals (95%)"),
        ("served", "SHA-256 of its files"),
        ("served", "It was run by"),
        ("own narratives", "which comes with empathy-audit"),
        ("in words", "weighted by the probability"),
        ("in words", "Number: "),
        ("elsewhere", "It was run by"),
        ("no control", "no word in common"),
        ("mixed model", "regressed by least squares"),
        ("these identities alone", "Intervals for any such identities are by a jackknife over groups."),
        ("unfinished", f"It was asked on {DAY}"),
        ("utterances of few conversations", "Hartung"),
    ],
)
def test_what_is_planted_takes_back_what_would_be_false(run, kind, gone):
    assert gone in said(run)
    assert gone not in said(PLANTED[kind][0](run))


def test_the_example_says_its_own_numbers(run):
    """Held against the manifest and the tables, which say the same."""
    text, rows = said(run), run.rows
    assert f"Of {len(rows)} prompts, {(rows['status'] == 'rated').sum()} gave a rating." in text
    own = rows[rows["dimension"] == "religion"]
    assert (
        f"of religion, {own['perceiver'].nunique()} perceivers and {own['experiencer'].nunique()} experiencers of "
        f"{own['perceiver_group'].nunique()} groups" in text
    )
    assert f"revision {run.manifest.model.revision}" in text
    assert f"NumPy {run.manifest.analysed_by['numpy']}" in text
    assert f"on a scale from {run.manifest.scale.low} (not at all) to {run.manifest.scale.high} (extremely)" in text
    assert f"with seed {run.manifest.seed}." in text
    assert "As a control, 1 set of invented groups was asked in the same way." in text
    assert "invented_2" not in re.search(r"The identities that were asked:.*?\.", text)[0]
    assert "Of religion, δ is of in-group pairs that have no word in common" in text
    assert "p values were corrected" not in text
    assert "16 prompts were asked again" in text


def test_nothing_is_said_of_how_a_model_was_asked_elsewhere(run):
    assert "temperature" not in said(PLANTED["elsewhere"][0](run))


def test_the_number_of_a_noise_is_not_told_where_there_is_none(run):
    assert "asked again" not in said(planted(run, noise={}))


def test_replies_are_told_of_as_texts_and_no_rating_is_named(replies):
    text = said(replies)
    assert "and was asked to write back to that person (Hou et al., 2025)." in text
    assert "The model was asked to write at temperature 0, in 200 tokens at most." in text
    assert (
        "Of 384 prompts, 2 were refused, 197 gave a text and 185 gave a text that was cut at the limit of tokens"
        in text
    )
    assert "Length (words, by lexical)" in text
    assert "p values were corrected over the measures of a dimension by Holm's method" in text
    assert "As a control, 1 set of invented groups was asked in the same way." in text
    without = (
        "“Names a crisis line”, “Names the narrative's emotion” and “Names the narrative's emotion, of replies that"
    )
    assert f"Caution, of {without} name one”: repeated words are not controlled" in text
    assert f"δ of {without} name one” had an estimate and no interval" in text
    assert " characters)" not in text, "no list is cut"
    assert "in the narrative that it answers and in others of its kind" in text
    assert re.search(r"\brating|\bscale\b|weighted", text) is None
    assert re.search(r"\b(nan|None|inf)\b", text) is None


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("emotion", "asked to name the emotion of that utterance (Hou"),
        ("cause", "asked to copy the words that brought on the emotion (Hou"),
        ("entailment", "asked to say of one line whether it brought on the emotion (Hou"),
    ],
)
def test_a_task_on_conversations_says_what_it_asks(replies, kind, asked):
    talk = planted(replies, **within(replies, "stimuli", source="conversations"), **within(replies, "task", kind=kind))
    text = said(replace(talk, asked_to=task_of(talk.manifest).asked_to))
    assert "read the last utterance of a conversation, said by a person of an identity" in text
    assert asked in text
    assert "write back" not in text


def test_every_work_that_is_cited_is_in_the_list_once_and_no_other_is(run, replies):
    for study in (run, replies, *(plant(run) for plant, _ in PLANTED.values())):
        sections = methods(study)
        works = works_in(section.text() for section in sections)
        keys = [work.key for work in works]
        assert len(keys) == len(set(keys))
        cited = {w.key for s in sections for p in s.text() if isinstance(p, Cite) for w in p.works}
        assert cited == set(keys)
        entries = re.findall(r"^@\w+\{(.+),$", bibliography(works), flags=re.MULTILINE)
        assert entries == keys


def test_the_choice_of_the_elicitation_is_told_where_trials_made_it(run):
    tried = [{"method": "expected", "begun": begun, "chosen": not begun, "n_asked": 12} for begun in ("", "Number: ")]
    text = said(planted(run, **within(run, "elicitation", trials={"source": "geneva20", "tried": tried})))
    assert "Of 2 ways to obtain a rating" in text
    assert "on 12 other stories" in text
    assert "ways to obtain a rating" not in said(run)
    assert "ways to obtain a rating" not in said(
        planted(run, **within(run, "elicitation", trials={"left_out": "a reason"}))
    )


def test_a_work_that_is_not_known_here_is_left_for_a_person_to_fill_in(run):
    text = said(planted(run, **within(run, "strategy", name="mine", source="arXiv:2999.12345")))
    assert "(arXiv:2999.12345, n.d.)" in text


def test_a_failed_check_and_changed_files_stand_beneath_the_table_too(run):
    notes = " ".join(
        as_plain(note)
        for note in paper_gap_table(planted(check(run, answer="does_not_follow"), accepted=["a"])).all_notes()
    )
    assert "Caution: the manipulation check failed." in notes
    assert "Caution: 1 file of the run had changed" in notes
    passed = " ".join(as_plain(note) for note in paper_gap_table(check(run, answer="follows")).all_notes())
    assert "manipulation" not in passed
    assert "had changed" not in passed


def test_the_mean_over_dimensions_is_named_so(run):
    both = both_dimensions(run)
    assert [as_plain(row.cells[0]) for row in paper_gap_table(both).rows if not row.depth] == [
        "religion",
        "mean over dimensions",
    ]
    assert "Of religion, δ is of in-group pairs" in said(both)


def test_a_row_of_any_such_wordings_speaks_of_more_than_narratives():
    table = paper_gap_table(study_of("example-wordings"))
    assert "any such wordings" in [as_plain(row.cells[0]) for row in table.rows]
    general = as_plain(table.all_notes()[0])
    assert "of any such narratives, but for the rows of any such identities or wordings." in general
    assert "(Judd et al., 2012)" in said(study_of("example-wordings"))
    assert "any such wordings" not in as_plain(paper_gap_table(study_of()).all_notes()[0])


# --- What limits a gap, beneath its table ----------------------------------------------------------------------------


def note_of(study):
    return as_plain(paper_gap_table(study).all_notes()[0])


CONTROLLED = {
    "odd-group": lambda: with_margin_4(gap=lambda _, group: 36.0 * (group == "Dolva"), n=40, sd=4.0),
    "within": lambda: with_margin_4(n=200),
    "fewer-alike": lambda: with_margin_4(n=60),
}
"""Of six groups, each with two terms that share no word: one that gives its own 36 points more, and nothing."""


def with_margin_4(**values):
    return replace(two_terms(**values), settings={"margin": 4})


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """Returns the study of a planted case, made by the project's own command."""

    def study(name):
        case = (cases.CASES | CONTROLLED)[name]()
        folder = tmp_path_factory.mktemp(name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
            run = outside_run(folder, case.ratings, case.groups, **case.settings)
        return _study(Collected.read(run, unfinished=False, texts=False))

    return study


@pytest.mark.parametrize(
    ("name", "said", "not_said"),
    [
        ("alike", ["Verdict on identity: No average gap larger than 4.00 points in these pairs of words, "
                   "including repeated words. "],
         ["Beneath the average", "refusals", "many missing", "few narratives;"]),
        ("fewer-alike",
         ["Verdict on identity: Undecided at a margin of 4.00 points: a large gap in a few narratives may have been"],
         ["No average gap", "Beneath the average"]),
        # Each identity is one term, which in-group pairs alone repeat: what is found says so, and is no group's own.
        ("b1-emotions", ["Beneath the average of identity: Different from the other emotions: anger −7.42 (rest "
                         "+1.88) and fear",
                         "Beyond the margin of 4.00 points, which repeated words alone could cause: anger −7.42, fear"],
         ["Beyond the margin of 4.00 points:"]),
        ("b1-group", ["Verdict on identity: Undecided at a margin of 4.00 points.",
                      "Beyond the margin of 4.00 points, which repeated words alone could cause: group 03 +35.31."],
         ["Beyond the margin of 4.00 points:"]),
        ("odd-group", ["Beneath the average of identity: Beyond the margin of 4.00 points: Dolva +3"],
         ["of identity: repeated words are not controlled"]),
        ("within", ["Verdict on identity: No average gap larger than 4.00 points."],
         ["Beneath the average"]),
        ("refused-when-high", ["Caution, of identity: refusals that differ between in-group and out-group;",
                               "Caution, of identity: many missing ratings;", "Verdict on identity: Undecided"],
         ["few narratives"]),
        ("few-narratives", ["Caution, of identity: few narratives; the interval rests on how a few narratives differ.",
                            "Verdict on identity: Undecided at a margin of 4.00 points: too few narratives."], []),
        ("constant", ["Verdict on identity: No verdict: all identities were rated alike."],
         ["No average gap", "few narratives"]),
    ],
)  # fmt: skip
def test_the_note_says_what_an_average_hides_and_what_limits_it(outside, name, said, not_said):
    """What is planted is the oracle: opposite gaps, one odd group, refusals of what is rated high; and nothing."""
    note = note_of(outside(name))
    assert [words for words in said if words not in note] == []
    assert [words for words in not_said if words in note] == []


def test_a_model_that_would_write_no_number_is_told_of(run):
    outcomes = run.tables["outcomes"]
    words = "Caution, of religion: low number mass; the model would often write something other than a number"
    assert words not in note_of(run)
    assert words in note_of(planted(run, tables={"outcomes": outcomes.assign(mean_number_mass=0.1)}))


@pytest.mark.parametrize("code", ["undecided", "within"])
def test_a_gap_that_is_not_shown_to_lie_within_the_margin_is_not_said_to(run, code):
    reasons = ("rare_gaps",) if code == "undecided" else ()
    found = Verdict(code=code, dimension="religion", variant="origin", margin=2.0, reasons=reasons)
    note = note_of(planted(run, tables={"verdicts": pd.DataFrame([found.row()])}))
    assert ("Verdict on religion: No average gap larger than 2.00 points" in note) == (code == "within")
    assert ("Verdict on religion: Undecided at a margin of 2.00 points" in note) == (code == "undecided")


def decided(study, *, outcome="intensity", **values):
    """Have the verdict on one outcome say something else."""
    verdicts = study.tables["verdicts"].copy()
    for name, value in values.items():
        verdicts[name] = verdicts[name].astype(object)
        verdicts.loc[verdicts["outcome"] == outcome, name] = value
    return planted(study, tables={"verdicts": verdicts})


FOUND = {
    "code": "gap", "claim": "pairs", "reasons": "", "direction": 1, "size": "", "control": "placebo", "scope": "pairs",
    "delta": 1.0, "ci_low": 0.5, "ci_high": 1.5, "p": 0.01, "p_adjusted": 0.01,
}  # fmt: skip


def test_the_estimate_that_a_verdict_rests_on_stands_beside_it(run):
    """No row of the table need have it."""
    said = (
        "δ = +1.00 points beyond that of invented groups (95% interval +0.50 to +1.50, for narratives like these, but"
    )
    assert f"{said} only these words for these groups; p = .010)." in note_of(decided(run, **FOUND))
    assert "for narratives and groups like these; p = .010)." in note_of(decided(run, **FOUND | {"scope": "groups"}))
    assert "% interval" not in note_of(run).partition("Verdict on religion: No verdict")[2]


def test_the_verdict_on_a_measure_has_its_number_and_is_not_taken_back(replies):
    found = decided(replies, outcome="n_words", **FOUND | {"claim": "groups", "scope": "groups"})
    said = (
        "Of “Length”: δ = +1.00 words beyond that of invented groups (95% interval +0.50 to +1.50, for narratives and"
    )
    assert said in note_of(found)
    assert "δ = " not in note_of(replies)
    nothing = "Nothing is claimed about other identities"
    assert nothing in "".join(as_plain(each.text()) for each in methods(replies))
    text = "".join(as_plain(each.text()) for each in methods(found))
    assert nothing not in text
    assert "Intervals of verdicts count how much δ differs between groups, too." in text


def test_a_table_of_a_planted_model_says_that_it_is_one(run):
    note = note_of(planted(run, **within(run, "model", planted={"gap": 5})))
    assert "Caution: no language model was asked: these are the answers of a planted model" in note
    assert "language model was asked" not in note_of(run)


def test_of_two_variants_a_limit_names_its_own(run):
    """The gap of the second variant is within the noise, and only that."""
    gap, controls = run.tables["gap"], run.tables["controls"]
    both = planted(
        run,
        tables={
            "gap": pd.concat([gap, gap.assign(variant="persona-1", delta=1e-6)]),
            "controls": pd.concat([controls, controls.assign(variant="persona-1")]),
        },
    )
    note = note_of(both)
    assert "Caution, of religion (persona-1): δ is below twice what it would vary by" in note
    assert "Caution, of religion (origin): δ is below" not in note


def test_of_utterances_the_note_speaks_of_conversations(run):
    study = PLANTED["utterances of few conversations"][0](run)
    assert "and of any such conversations" in note_of(study)
    assert "conversations" not in note_of(run)


def test_what_a_table_of_measures_does_not_show_is_not_said(replies):
    """Its rows are of any such narratives alone, though the run has intervals for any such identities, too."""
    made = replies.tables["gap"]
    wider = planted(replies, tables={"gap": made.assign(ci_low=made["ci_low"].fillna(-1.0),
                                                                ci_high=made["ci_high"].fillna(1.0))})  # fmt: skip
    assert wider.wider
    assert "jackknife over groups" not in said(wider)
    assert "Nothing is claimed about other identities" in said(wider)
