import numpy as np
import pandas as pd
import pytest
from judging import draw, opened, shown

from audit.comparing.preference.statistics import preference_table
from audit.engines.chat import ChatTokenizer
from audit.errors import ModelError
from audit.tasks.measures.base import Reply
from audit.tasks.reply.judge.pairwise import PAIRS, answer_tokens, judge_pairs
from stimuli.errors import StimulusError
from stimuli.rubrics import load_rubric

NAN = float("nan")


def pair(first, second, narrative_id="n1"):
    return tuple(
        Reply(text, f"Story {narrative_id}.", narrative_id, "joy", "religion", writer, "a Jew")
        for text, writer in ((first, "a Hindu"), (second, "a Sikh"))
    )


def compare(answer, pairs, method="expected", *, engine=None):
    judge = opened(answer, **(engine or {}))
    table = judge_pairs(pairs, opened=judge, rubric=load_rubric("empathy"), criterion="empathy", method=method)
    return table, judge.engine


def summary(table, confidence=0.95):
    """The row of all pairs in the table of preferences."""
    pairs = table.assign(in_group=pd.array([pd.NA] * len(table), dtype="boolean"), same_text=False)
    return preference_table(pairs, confidence=confidence).set_index("pairs").loc["all"]


def says(given, swapped):
    """A judge of the replies "one" and "two" that answers so when "one" stands first, and when "two" does."""
    return lambda text: given if shown(text)[1][1] == "one" else swapped


def test_each_pair_is_asked_in_both_orders_and_no_prompt_names_a_writer():
    table, engine = compare(lambda text: "A", [pair("one", "two"), pair("one", "three", "n2")])
    read = [shown(text) for text in dict.fromkeys(engine.texts)]
    assert read == [
        ("A Jew", ["Story n1.", "one", "two"]),
        ("A Jew", ["Story n1.", "two", "one"]),
        ("A Jew", ["Story n2.", "one", "three"]),
        ("A Jew", ["Story n2.", "three", "one"]),
    ]
    assert not any(writer in text for text in engine.texts for writer in ("Hindu", "Sikh"))
    assert list(table.columns) == list(PAIRS)
    assert table["narrative_id"].tolist() == ["n1", "n2"]


def test_expected_preference_is_the_hand_worked_mean_over_both_orders():
    # "one" first: A .6, B .2 → .75. "two" first: A .3 (.1 of it after a space), B .1 → .75 for "two", .25 for "one".
    # preference (.75 + .25) / 2 = .5; the first place was chosen .75 both times
    said = says({"A": 0.6, "B": 0.2, "Well": 0.2}, {"A": 0.2, " A": 0.1, " B": 0.1, "Neither": 0.6})
    row = compare(said, [pair("one", "two")])[0].iloc[0]
    assert row[["preference", "first_place", "given_chose_first", "swapped_chose_first"]].tolist() == pytest.approx(
        [0.5, 0.75, 0.75, 0.75]
    )
    assert row[["given_mass", "swapped_mass"]].tolist() == pytest.approx([0.8, 0.4])
    assert not row["consistent"]


@pytest.mark.parametrize(
    ("given", "swapped", "preference", "first_place", "consistent"),
    [
        ("A", "B", 1.0, 0.5, True),
        ("B", "A", 0.0, 0.5, True),
        ("A", "A", 0.5, 1.0, False),  # the orders contradict each other: no preference
        ("B", "B", 0.5, 0.0, False),
        ("tie", "tie", 0.5, 0.5, True),
        ("A", "tie", 0.75, 0.75, False),
        ("**a**.", "(B)", 1.0, 0.5, True),
        ("<think>B or A?</think>A", " Tie!", 0.75, 0.75, False),
    ],
)
def test_generated_answers_make_a_preference(given, swapped, preference, first_place, consistent, monkeypatch):
    monkeypatch.setattr("audit.tasks.reply.judge.pairwise.MAX_TOKENS", 99)  # this judge's tokens are letters
    row = compare(says(given, swapped), [pair("one", "two")], "generate")[0].iloc[0]
    assert (row["preference"], row["first_place"], row["consistent"]) == (preference, first_place, consistent)
    assert (row["given_response"], row["swapped_response"]) == (given, swapped)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("A is better", "unparseable"),
        ("A or B", "unparseable"),
        ("C", "unparseable"),
        ("", "unparseable"),
        ("I cannot compare these.", "refused"),
        (None, "failed"),
    ],
)
def test_an_answer_that_is_none_of_the_three_is_missing_in_its_pair_and_never_a_tie(said, status):
    table, _ = compare(says("A", said), [pair("one", "two"), pair("one", "two", "n2")], "generate")
    assert table["swapped_status"].tolist() == [status] * 2
    assert table["given_chose_first"].tolist() == [1.0, 1.0]
    assert table[["preference", "first_place", "consistent", "swapped_chose_first"]].isna().all(axis=None)
    row = summary(table)
    assert row[["n_pairs", "n_read", "n_narratives", f"n_{status}"]].tolist() == [2, 0, 0, 2]
    assert row[["n_unparseable", "n_refused", "n_failed"]].sum() == 2
    assert row[["preference", "position_bias", "inconsistent"]].isna().all()


def test_no_mass_on_either_letter_and_too_long_a_prompt_are_missing():
    pairs = [pair("one", "two"), pair("one", "long " * 400, "n2")]
    table, _ = compare(says({"Neither": 1.0}, "B"), pairs, engine={"max_model_len": 2200})
    assert table["given_status"].tolist() == ["unparseable", "failed"]
    assert table["swapped_status"].tolist() == ["rated", "failed"]
    assert table["given_mass"].tolist() == pytest.approx([0, NAN], nan_ok=True)
    assert table["preference"].isna().all()


def test_the_summary_is_over_narratives_and_the_shares_over_pairs():
    # n1: "one" wins twice, 1 and 1; n2: the first place is chosen both times, 0.5; n3 is not read.
    # preference (1 + .5) / 2 = .75; position (.5 + 1) / 2 - .5 = .25; one of three pairs inconsistent
    said = {"n1": says("A", "B"), "n2": says("A", "A"), "n3": says("A", "no")}
    pairs = [pair("one", "two", narrative) for narrative in ("n1", "n2", "n1", "n3")]
    table, _ = compare(lambda text: said[shown(text)[1][0][6:-1]](text), pairs, "generate")
    row = summary(table)
    assert row[["preference", "position_bias", "inconsistent"]].tolist() == pytest.approx([0.75, 0.25, 1 / 3])
    assert row[["n_pairs", "n_read", "n_narratives", "n_unparseable"]].tolist() == [4, 3, 2, 1]


@pytest.mark.parametrize("method", ["expected", "generate"])
def test_a_planted_position_bias_and_preference_are_both_recovered_within_their_intervals(method):
    # P(the first place is chosen) = .5 + .15 + .2 where it holds the better system's reply, - .2 where it does not, and
    # noise of each prompt: position bias .15, preference .5 + .2. For generate the same as the chance of an answer.
    def answer(text):
        better_first = shown(text)[1][1].startswith("good")
        p = 0.5 + 0.15 + (0.2 if better_first else -0.2)
        if method == "generate":
            return "A" if draw(1, "u", text) < {0.85: 1.0364, 0.45: -0.1257}[round(p, 2)] else "B"  # normal quantiles
        p += float(np.clip(draw(0.05, text), -0.1, 0.1))
        return {"A": 0.9 * p, "B": 0.9 * (1 - p), "C": 0.1}

    pairs = [pair(f"good {n}", f"plain {n}", f"n{n}") for n in range(200)]
    table, _ = compare(answer, pairs, method)
    row = summary(table, confidence=0.99)
    for low, planted, high, none in (("ci_low", 0.7, "ci_high", 0.5), ("bias_low", 0.15, "bias_high", 0)):
        assert none < row[low] < planted < row[high] < row[low] + 0.2


def test_replies_that_can_not_be_paired_are_refused():
    first, second = pair("one", "two")
    with pytest.raises(ValueError, match="pair 1: the replies answer different narratives"):
        compare(None, [(first, second), (first, pair("one", "two", "n2")[1])])
    with pytest.raises(ValueError, match="pair 0: a reply is blank"):
        compare(None, [pair("one", " \n")])
    with pytest.raises(StimulusError, match="no criterion 'warmth'"):
        judge_pairs(
            [(first, second)], opened=opened("A"), rubric=load_rubric("empathy"), criterion="warmth", method="expected"
        )


def test_no_pairs_make_an_empty_table():
    for method in ("expected", "generate"):
        table, engine = compare(None, [], method)
        assert (list(table.columns), len(table), engine.texts) == (list(PAIRS), 0, [])


@pytest.mark.parametrize("same", [lambda text: (7,), lambda text: None, lambda text: (7,) if text == "A" else (7, 8)])
def test_a_tokenizer_that_does_not_tell_the_letters_apart_is_refused(same):
    class Tokenizer(ChatTokenizer):
        def __init__(self):
            self.name = "blind"

        def continuation(self, text, continuation):
            return same(continuation)

    with pytest.raises(
        ModelError, match=r"judge blind: its tokenizer does not tell the answers A and B apart.*generate"
    ):
        answer_tokens(Tokenizer(), ("A", "B"), before="Answer:")
