"""Oracles: counts by hand, `score_labels` of answers repeated, and simulated corpora whose true scores are known."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from scipy import stats

from audit.statistics.agreement import resamples
from audit.statistics.classification import score_labels
from audit.tasks.recognition.statistics import (
    MIN_CONVERSATIONS,
    RECOGNITION,
    RECOGNITION_CAUSES,
    RECOGNITION_CONFUSION,
    RECOGNITION_LABELS,
    _LabelledAnswers,
    cause_table,
    entailment_table,
    recognition_tables,
)

LABELS = np.array(["anger", "fear", "joy", "neutral", "sadness", "surprise"])
SHARES = ("accuracy", "macro_f1", "weighted_f1", "unreadable")


def answers_of(rows, **columns):
    """Make answers of (narrative_id, gold, predicted); other columns are one value or a list."""
    table = pd.DataFrame(rows, columns=["narrative_id", "gold", "predicted"])
    constant = {"dimension": "religion", "variant": "own", "perceiver": "a Jain", "experiencer": "a Jain"}
    for name, value in (constant | {"in_group": True, "identity": ""} | columns).items():
        table[name] = value
    return table


def tables_of(answers, *, n_draws=0, **options):
    return recognition_tables(answers, seed=7, n_draws=n_draws, **options)


def row_of(table, by="all", level="all", **others):
    (row,) = (
        each
        for _, each in table.iterrows()
        if all(each[k] == v for k, v in {"by": by, "level": level, **others}.items())
    )
    return row


# Joy: given to 2, right for 1, right one of 3; fear: given to 2, right for 1, right one of 2; one joy is unreadable.
WORKED = [
    ("a:1", "joy", "joy"),
    ("a:3", "joy", "fear"),
    ("b:1", "joy", None),
    ("b:2", "fear", "joy"),
    ("c:1", "fear", "fear"),
]


def test_scores_worked_by_hand():
    tables = tables_of(answers_of(WORKED))
    row = row_of(tables["recognition"])
    joy, fear = 2 / 5, 1 / 2  # F1: 2 · 1 / (3 + 2) and 2 · 1 / (2 + 2)
    assert row[list(SHARES)].tolist() == pytest.approx([2 / 5, (joy + fear) / 2, (3 * joy + 2 * fear) / 5, 1 / 5])
    assert row[["n", "n_narratives", "n_conversations", "n_labels"]].tolist() == [5, 5, 3, 2]
    assert row["note"] == "3 conversations are too few for an interval, which takes 20"
    assert row[[f"{name}_{end}" for name in SHARES for end in ("low", "high")]].isna().all()

    of_joy = row_of(tables["recognition_labels"], label="joy")
    assert of_joy[["precision", "recall", "f1", "support", "n_predicted", "n_correct"]].tolist() == [
        *(1 / 2, 1 / 3, pytest.approx(2 / 5)),
        *(3, 2, 1),
    ]
    confusion = tables["recognition_confusion"].query("by == 'all'")
    assert confusion[["gold", "predicted", "n", "share"]].to_numpy().tolist() == [
        ["fear", "fear", 1, 1 / 2],
        ["fear", "joy", 1, 1 / 2],
        ["joy", "fear", 1, 1 / 3],
        ["joy", "joy", 1, 1 / 3],
        ["joy", "", 1, 1 / 3],
    ]


def test_answers_are_divided_by_speaker_experiencer_perceiver_and_pairs():
    who = {
        "identity": ["Welsh", "Welsh", "", "Greek", "Greek"],
        "experiencer": ["a Jain", "a Sikh", "a person", "a Jain", "a Jain"],
        "perceiver": ["a Jain", "a Jain", "a Jain", "a Sikh", "a Jain"],
        "in_group": [True, False, None, False, True],
    }
    tables = tables_of(answers_of(WORKED, **who))
    found = tables["recognition"]
    assert {
        (by, level): (n, accuracy) for by, level, n, accuracy in found[["by", "level", "n", "accuracy"]].to_numpy()
    } == {
        ("all", "all"): (5, 2 / 5),
        ("speaker", "Greek"): (2, 1 / 2),
        ("speaker", "Welsh"): (2, 1 / 2),
        ("experiencer", "a Jain"): (3, 2 / 3),
        ("experiencer", "a Sikh"): (1, 0),
        ("experiencer", "a person"): (1, 0),
        ("perceiver", "a Jain"): (4, 1 / 2),
        ("perceiver", "a Sikh"): (1, 0),
        ("pairs", "in_group"): (2, 1),
        ("pairs", "out_group"): (2, 0),
        ("pairs", "baseline"): (1, 0),
    }
    assert row_of(found, "pairs", "baseline")["unreadable"] == 1
    # Every level knows every label, also those that it lacks.
    assert (tables["recognition_labels"].groupby(["by", "level"]).size() == 2).all()
    baseline = row_of(tables["recognition_labels"], "pairs", "baseline", label="fear")
    assert baseline[["precision", "recall", "f1"]].isna().all()


def test_dimensions_and_variants_are_scored_apart_and_nothing_is_modified():
    answers = pd.concat(
        answers_of(WORKED[:n], dimension=dimension, variant=variant)
        for n, dimension, variant in ((5, "religion", "own"), (3, "religion", "other"), (2, "nationality", "own"))
    ).reset_index(drop=True)
    before = answers.copy(deep=True)
    found = tables_of(answers, n_draws=20)["recognition"].query("by == 'all'")
    assert found[["dimension", "variant", "n"]].to_numpy().tolist() == [
        ["religion", "own", 5],
        ["religion", "other", 3],
        ["nationality", "own", 2],
    ]
    assert_frame_equal(answers, before)


def test_the_columns_are_those_that_are_described():
    for answers in (answers_of(WORKED), answers_of([])):
        tables = tables_of(answers)
        columns = {name: list(table.columns) for name, table in tables.items()}
        assert {name: sorted(names) for name, names in columns.items()} == {
            "recognition": sorted(RECOGNITION),
            "recognition_labels": sorted(RECOGNITION_LABELS),
            "recognition_confusion": sorted(RECOGNITION_CONFUSION),
        }
    assert all(table.empty for table in tables.values())


def test_labels_are_the_user_s_in_their_order():
    found = tables_of(answers_of(WORKED), labels=["joy", "trust", "fear"])["recognition_labels"]
    assert found.query("by == 'all'")["label"].tolist() == ["joy", "trust", "fear"]
    with pytest.raises(ValueError, match="'fear' is a gold label, but the labels are 'joy', 'trust'"):
        tables_of(answers_of(WORKED), labels=["joy", "trust"])


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (answers_of(WORKED).drop(columns="identity"), "no column 'identity'"),
        (answers_of([*WORKED, ("d:1", None, "joy")]), "no gold label"),
    ],
)
def test_answers_that_can_not_be_scored_are_refused(answers, said):
    with pytest.raises(ValueError, match=said):
        tables_of(answers)


@settings(deadline=None, max_examples=50)
@given(
    cases=st.lists(
        st.tuples(
            st.sampled_from(["x:1", "x:2", "y:1", "z:1", "z"]),
            st.sampled_from("abc"),
            st.sampled_from(["a", "b", "c", None]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_a_resample_has_the_scores_of_its_conversations_repeated(cases):
    answers = answers_of(cases)
    sample = _LabelledAnswers.of(answers, "abcd")
    everything = np.ones(len(cases), dtype=bool)
    of = answers["narrative_id"].str.split(":").str[0]  # "z" is a conversation of its own turn, the same as z:1's
    names = list(dict.fromkeys(of))
    (draws,) = sample.draw([everything], rng=np.random.default_rng(3), n_draws=8)
    (weights,) = resamples(len(names), n_draws=8, rng=np.random.default_rng(3), width=12)
    for place, weight in enumerate(weights):
        times = of.map(dict(zip(names, weight.astype(int), strict=True)))
        _, gold, predicted = zip(*np.repeat(np.array(cases, dtype=object), times, axis=0), strict=True)
        score = score_labels(gold, predicted, labels="abcd")
        f1 = [each.f1 for each in score.by_label]
        assert draws.f1[place] == pytest.approx(f1, nan_ok=True)
        assert draws.accuracy[place] == pytest.approx(score.accuracy)
        assert draws.macro_f1[place] == pytest.approx(score.macro_f1)
        assert draws.unreadable[place] == pytest.approx(score.n_unlabelled / score.n)
        weighted = sum(each.f1 * each.support for each in score.by_label if each.support) / score.n
        assert draws.weighted_f1[place] == pytest.approx(weighted)


# --- Intervals -------------------------------------------------------------------------------------------------------


def simulated(n_conversations, seed, *, n_pairs=4):
    """Draw answers about eight utterances a conversation, some conversations and utterances easier than others."""
    rng = np.random.default_rng([n_conversations, seed])
    conversation = np.repeat(np.arange(n_conversations), 8)
    tilt = rng.dirichlet(8 * np.array([0.10, 0.05, 0.20, 0.45, 0.12, 0.08]), size=n_conversations)
    gold = (rng.random(conversation.size)[:, None] > tilt.cumsum(axis=1)[conversation]).sum(axis=1).clip(max=5)
    ease = rng.normal(0, 0.8, n_conversations)[conversation] + rng.normal(0, 1.2, conversation.size)
    ease += np.array([0.2, -0.6, 1.0, 1.2, 0.1, -0.3])[gold]
    of = np.repeat(np.arange(conversation.size), n_pairs)
    right = rng.random(of.size) < 1 / (1 + np.exp(-ease[of]))
    wrong = np.where(rng.random(of.size) < 0.6, 3, rng.integers(6, size=of.size))
    predicted = np.where(rng.random(of.size) < 0.03, None, LABELS[np.where(right, gold[of], wrong)])
    names = [f"c{c}:{u}" for u, c in enumerate(conversation)]
    return answers_of(list(zip(np.array(names)[of], LABELS[gold[of]], predicted, strict=True)))


def test_draws_depend_on_the_seed_and_the_place_alone():
    answers = simulated(30, 1)
    first = tables_of(answers, n_draws=50)
    for name, table in tables_of(answers, n_draws=50).items():
        assert_frame_equal(table, first[name])
    elsewhere = pd.concat([answers.assign(dimension="nationality"), answers], ignore_index=True)
    again = tables_of(elsewhere, n_draws=50)["recognition"].query("dimension == 'religion'").reset_index(drop=True)
    assert_frame_equal(again, first["recognition"])
    assert row_of(recognition_tables(answers, seed=8, n_draws=50)["recognition"])["macro_f1_low"] != pytest.approx(
        row_of(first["recognition"])["macro_f1_low"]
    )


def test_asking_again_makes_an_interval_no_narrower():
    # The same answers thrice over are no more evidence; an interval over answers would be √3 times narrower.
    answers = simulated(40, 2)
    once, thrice = (
        row_of(tables_of(pd.concat([answers] * times, ignore_index=True), n_draws=200)["recognition"])
        for times in (1, 3)
    )
    assert thrice["n"] == 3 * once["n"]
    for name in SHARES:
        assert thrice[[name, f"{name}_low", f"{name}_high"]].tolist() == pytest.approx(
            once[[name, f"{name}_low", f"{name}_high"]].tolist()
        )


def test_accuracy_has_the_t_interval_of_conversations_of_one_size():
    # Oracle: t of the conversations' shares, whose bootstrap SE is √((n − 1) / n) of the usual one.
    answers = simulated(60, 3)
    shares = (answers["gold"] == answers["predicted"]).groupby(answers["narrative_id"].str.split(":").str[0]).mean()
    half = 2.00099537704821 * shares.std(ddof=1) / 60**0.5  # t of 59 degrees of freedom at .975
    row = row_of(tables_of(answers, n_draws=4_000)["recognition"])
    assert (row["accuracy_high"] - row["accuracy_low"]) / 2 == pytest.approx(half, rel=0.05)
    assert row["accuracy"] == pytest.approx(shares.mean())


def test_an_interval_ends_at_0_and_1_and_without_spread_there_is_none():
    rows = [(f"c{k}:1", "joy" if k % 2 else "fear", "joy" if k % 2 else "fear") for k in range(MIN_CONVERSATIONS)]
    perfect = row_of(tables_of(answers_of(rows), n_draws=50)["recognition"])
    assert perfect["note"] == "all 50 resamples give the same value, so their spread is 0"
    assert perfect[["accuracy", "macro_f1", "unreadable"]].tolist() == [1, 1, 0]
    one_wrong = row_of(tables_of(answers_of([*rows[1:], ("c0:1", "fear", None)]), n_draws=50)["recognition"])
    assert one_wrong["accuracy_high"] == 1
    assert one_wrong["unreadable_low"] == 0
    assert one_wrong["note"] == ""


def test_a_level_of_few_conversations_has_no_interval_though_others_have():
    answers = simulated(30, 4)
    answers["identity"] = np.where(answers["narrative_id"].str.match("c[0-4]:"), "Welsh", "Greek")
    found = tables_of(answers, n_draws=50)["recognition"]
    assert row_of(found, "speaker", "Welsh")["note"].startswith("5 conversations are too few")
    assert row_of(found, "speaker", "Greek")["note"] == ""
    assert np.isfinite(row_of(found, "speaker", "Greek")[["macro_f1_low", "macro_f1_high"]].astype(float)).all()


@pytest.mark.simulation
@pytest.mark.parametrize("n_conversations", [20, 50, 100])
def test_the_interval_covers_as_often_as_the_docstring_says(n_conversations):
    true = row_of(tables_of(simulated(10_000, 0, n_pairs=2))["recognition"])
    held = dict.fromkeys(SHARES, 0)
    for seed in range(400):
        row = row_of(tables_of(simulated(n_conversations, seed, n_pairs=2), n_draws=200)["recognition"])
        for name in SHARES:
            held[name] += row[f"{name}_low"] <= true[name] <= row[f"{name}_high"]
    print(n_conversations, held)
    assert min(held.values()) / 400 >= 0.90


def test_a_planted_difference_between_experiencers_is_found():
    # Of the answers about b, every second one is made unreadable; of those about a, none.
    answers = simulated(60, 5, n_pairs=2)
    b = np.arange(len(answers)) % 2 == 1
    spoilt = b & (np.arange(len(answers)) % 4 == 1)
    answers = answers.assign(experiencer=np.where(b, "b", "a"), predicted=answers["predicted"].where(~spoilt, None))
    found = tables_of(answers, n_draws=200)["recognition"]
    a_row, b_row = (row_of(found, "experiencer", name) for name in "ab")
    assert b_row["macro_f1_high"] < a_row["macro_f1_low"]
    assert b_row["unreadable_low"] > 0.4 > a_row["unreadable_high"]


# --- Causes ----------------------------------------------------------------------------------------------------------


def causes_of(rows, **columns):
    """Make answers of (narrative_id, marked, exact, f1); other columns are one value or a list."""
    answers = answers_of([(name, None, None) for name, *_ in rows], **columns).drop(columns=["gold", "predicted"])
    marked, exact, f1 = zip(*(own for _, *own in rows), strict=True)
    return answers.assign(marked=marked, exact=np.array(exact, dtype=float), f1=np.array(f1, dtype=float))


# Marked: exact of 1 of 3, F1 (1 + 1/2 + 0)/3; without: 1 of 2 says so; one answer has no word.
CAUSES = [
    ("a:1", True, 1, 1),
    ("a:3", True, 0, 1 / 2),
    ("b:1", False, 1, 1),
    ("b:1", False, 0, 0),
    ("b:2", True, 0, 0),
    ("c:1", True, np.nan, np.nan),
]
CAUSE_NUMBERS = ["exact", "f1", "exact_marked", "f1_marked", "told_unmarked"]


def test_causes_worked_by_hand():
    found = cause_table(causes_of(CAUSES), seed=7)
    assert sorted(found) == sorted(RECOGNITION_CAUSES)
    row = row_of(found)
    assert row[CAUSE_NUMBERS].tolist() == pytest.approx([2 / 5, 2.5 / 5, 1 / 3, 1.5 / 3, 1 / 2])
    counts = ["n", "n_marked", "n_unmarked", "n_wordless", "n_narratives", "n_conversations"]
    assert row[counts].tolist() == [5, 3, 2, 1, 4, 2]
    assert row[[f"{name}_{end}" for name in CAUSE_NUMBERS for end in ("low", "high")]].isna().all()
    assert row["note"] == "2 conversations are too few for an interval, which takes 20"


def test_causes_are_divided_as_emotions_are():
    who = {
        "identity": ["Welsh", "Welsh", "", "Greek", "Greek", "Greek"],
        "experiencer": ["a Jain", "a Sikh", "a person", "a Jain", "a Jain", "a Jain"],
        "perceiver": ["a Jain", "a Jain", "a Jain", "a Sikh", "a Jain", "a Jain"],
        "in_group": [True, False, None, False, True, True],
    }
    found = cause_table(causes_of(CAUSES, **who), seed=7)
    of = {(by, level): (n, f1) for by, level, n, f1 in found[["by", "level", "n", "f1"]].to_numpy()}
    assert of == {
        ("all", "all"): (5, 1 / 2),
        ("speaker", "Greek"): (2, 0),
        ("speaker", "Welsh"): (2, 3 / 4),
        ("experiencer", "a Jain"): (3, pytest.approx(1 / 3)),
        ("experiencer", "a Sikh"): (1, 1 / 2),
        ("experiencer", "a person"): (1, 1),
        ("perceiver", "a Jain"): (4, pytest.approx(2.5 / 4)),
        ("perceiver", "a Sikh"): (1, 0),
        ("pairs", "in_group"): (2, 1 / 2),
        ("pairs", "out_group"): (2, 1 / 4),
        ("pairs", "baseline"): (1, 1),
    }
    greek = row_of(found, "speaker", "Greek")
    assert greek[["exact_marked", "told_unmarked", "n_marked", "n_unmarked", "n_wordless"]].tolist() == [0, 0, 1, 1, 1]
    assert np.isnan(row_of(found, "speaker", "Welsh")["told_unmarked"])


def test_the_interval_of_causes_is_the_t_interval_of_conversations_of_one_size():
    """Oracle: t of the conversations' means, whose bootstrap SE is √((n − 1) / n) of the usual one."""
    rng = np.random.default_rng(3)
    f1 = np.clip(rng.normal(0.5, 0.2, 60)[:, None] + rng.normal(0, 0.1, (60, 4)), 0, 1)
    rows = [(f"c{c}:{u}", True, float(value > 0.6), value) for c, own in enumerate(f1) for u, value in enumerate(own)]
    half = 2.00099537704821 * f1.mean(axis=1).std(ddof=1) / 60**0.5  # t of 59 degrees of freedom at .975
    row = row_of(cause_table(causes_of(rows), seed=7, n_draws=4_000))
    assert (row["f1_high"] - row["f1_low"]) / 2 == pytest.approx(half, rel=0.05)
    assert (row["f1"], row["f1_marked"], row["note"]) == (pytest.approx(f1.mean()), row["f1"], "")
    assert row[["told_unmarked", "told_unmarked_low"]].isna().all()
    again = row_of(cause_table(causes_of(rows * 3), seed=7, n_draws=4_000))
    assert again[["f1_low", "f1_high"]].tolist() == pytest.approx(row[["f1_low", "f1_high"]].tolist())


def test_causes_without_what_is_needed_are_refused():
    with pytest.raises(ValueError, match="no column 'marked'"):
        cause_table(causes_of(CAUSES).drop(columns="marked"), seed=7)
    assert list(cause_table(causes_of(CAUSES).iloc[:0], seed=7)) == list(RECOGNITION_CAUSES)


# --- Causes as utterances --------------------------------------------------------------------------------------------


def entailed(rows, **columns):
    """Make answers of (narrative_id, is_cause, said)."""
    table = answers_of([(name, None, None) for name, _, _ in rows], **columns).drop(columns=["gold", "predicted"])
    return table.assign(is_cause=[own for _, own, _ in rows], said=pd.array([said for *_, said in rows], "boolean"))


ENTAILED = ("precision", "recall", "f1", "f1_negative", "macro_f1", "unreadable")
# Of 3 causes, 2 are said to be, 1 is unreadable; of 4 others, 1 is said to be a cause, 2 are not, 1 is unreadable.
PAIRS = [
    ("a:2.1", True, True), ("a:2.2", False, True), ("a:3.1", True, True), ("a:3.2", False, False),
    ("b:1.1", True, None), ("b:2.1", False, False), ("b:2.2", False, None),
]  # fmt: skip


def test_entailment_worked_by_hand_leaves_unreadable_answers_out():
    row = row_of(entailment_table(entailed(PAIRS), seed=7, n_draws=0))
    f1, negative = 4 / 5, 4 / 5  # 2 · 2 / (2 · 2 + 1 + 0), and of the others the same
    assert row[list(ENTAILED)].tolist() == pytest.approx([2 / 3, 1, f1, negative, (f1 + negative) / 2, 2 / 7])
    names = ["n", "n_causes", "n_said", "n_unreadable", "n_narratives", "n_conversations"]
    assert row[names].tolist() == [5, 2, 3, 2, 7, 2]
    assert row["note"] == "2 conversations are too few for an interval, which takes 20"


def test_entailment_agrees_with_the_scores_of_labels():
    rng = np.random.default_rng(3)
    rows = [(f"c{rng.integers(30)}:1.{k}", bool(rng.random() < 0.3), bool(rng.random() < 0.4)) for k in range(400)]
    row = row_of(entailment_table(entailed(rows), seed=7, n_draws=50))
    other, cause = (score := score_labels([str(own) for _, own, _ in rows], [str(said) for *_, said in rows])).by_label
    assert row[list(ENTAILED)].tolist() == pytest.approx(
        [cause.precision, cause.recall, cause.f1, other.f1, score.macro_f1, 0]
    )


def test_a_planted_gap_in_the_recall_of_causes_is_found_and_precision_is_silent():
    rng = np.random.default_rng(4)
    made = []
    for inside, finds in ((True, 0.9), (False, 0.6)):
        rows = [
            (f"c{c}:2.{turn}", turn == 1, bool(rng.random() < (finds if turn == 1 else 0.0)))
            for c in range(60) for turn in (1, 2) for _ in range(3)
        ]  # fmt: skip
        made.append(entailed(rows, in_group=inside))
    table = entailment_table(pd.concat(made), seed=7)
    gap, inside, outside = (row_of(table, "pairs", level) for level in ("gap", "in_group", "out_group"))
    for name in ENTAILED:
        assert gap[name] == pytest.approx(inside[name] - outside[name])
    assert gap["recall"] == pytest.approx(0.3, abs=0.1)
    assert gap["recall_low"] > 0.15
    assert gap["f1_low"] > 0
    assert gap["precision"] == 0
    assert np.isnan(gap["precision_low"])
    assert gap["note"] == "precision: all 2000 resamples give the same value, so their spread is 0"
    # the jackknife's rule for a mean of clusters of one size, of both sides together: t over the conversations' gaps
    found = pd.concat(made).query("is_cause").assign(unit=lambda own: own["narrative_id"].str.split(":").str[0])
    shares = found.astype({"said": float}).groupby(["unit", "in_group"], observed=True)["said"].mean().unstack()
    gaps = shares[True] - shares[False]
    half = stats.t.ppf(0.975, 59) * gaps.std(ddof=1) / 60**0.5
    assert (gap["recall_high"] - gap["recall_low"]) / 2 == pytest.approx(half, rel=0.06)


def test_a_group_for_which_the_model_does_not_answer_has_no_lower_recall():
    rows = [(f"c{c}:2.{turn}", turn == 1, turn == 1) for c in range(30) for turn in (1, 2)]
    silent = [(name, own, None if k % 2 else said) for k, (name, own, said) in enumerate(rows[:30])] + rows[30:]
    table = entailment_table(pd.concat([entailed(rows), entailed(silent, in_group=False)]), seed=7)
    gap = row_of(table, "pairs", "gap")
    assert (gap["recall"], gap["macro_f1"]) == (0, 0)
    assert gap["unreadable"] == pytest.approx(-1 / 4)
    assert gap["unreadable_high"] < 0


def pairs_simulated(n_conversations, seed):
    """Draw answers about three targets a conversation, of a model that finds fewer causes for the other group.

    The last of a target's lines is most often a cause; conversations, utterances and both together differ in ease.
    """
    rng = np.random.default_rng([n_conversations, seed])
    unit, turn, candidate = np.array(
        [(c, 2 * k + 2, line) for c in range(n_conversations) for k in range(3) for line in range(1, 2 * k + 3)]
    ).T
    is_cause = rng.random(unit.size) < np.where(turn == candidate, 0.7, 0.12)
    ease = rng.normal(0, 0.8, n_conversations)[unit] + rng.normal(0, 1, unit.size)
    eager = rng.normal(0, 0.5, n_conversations)[unit]
    names = [f"c{c}:{t}.{k}" for c, t, k in zip(unit, turn, candidate, strict=True)]
    made = []
    for inside, finds in ((True, 0.6), (False, 0.1)):
        own = finds + rng.normal(0, 0.5, n_conversations)[unit]
        yes = rng.random(unit.size) < 1 / (1 + np.exp(-np.where(is_cause, ease + own, eager - 1.5)))
        said = np.where(rng.random(unit.size) < 0.03, None, yes)
        made.append(entailed(list(zip(names, is_cause.tolist(), said, strict=True)), in_group=inside))
    return pd.concat(made, ignore_index=True)


@pytest.mark.simulation
@pytest.mark.parametrize("n_conversations", [20, 50, 100])
def test_entailment_covers_as_often_as_the_docstring_says(n_conversations):
    where = [("all", "all"), ("pairs", "in_group"), ("pairs", "gap")]
    large = entailment_table(pairs_simulated(5_000, 0), seed=7, n_draws=0)
    true = {at: row_of(large, *at) for at in where}
    held = {(at[1], name): 0 for at in where for name in ENTAILED}
    for seed in range(1, 401):
        table = entailment_table(pairs_simulated(n_conversations, seed), seed=7, n_draws=200)
        for at in where:
            row = row_of(table, *at)
            for name in ENTAILED:
                held[at[1], name] += row[f"{name}_low"] <= true[at][name] <= row[f"{name}_high"]
    print(n_conversations, held)
    assert min(held.values()) / 400 >= 0.90
    assert max(held.values()) / 400 <= 0.985
