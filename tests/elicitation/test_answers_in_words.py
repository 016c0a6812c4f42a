"""Answers in words against what a careful reader takes from them, and the law that decoration changes no number.

``answers.jsonl`` has answers written for the purpose: the scale is 0 to 100, and the question how much anxiety a person
felt who waits for a message. ``right`` lists what may be read. A row may be in German (``language``), or of a text that
was cut. The sets *unseen* were written, in the style of small and large models, before the phrases that read them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.asking.elicitation.parsing import parse_response
from audit.asking.elicitation.phrases import read_in_language
from audit.tables.ratings import Status
from stimuli.emotion_names import emotion_words
from stimuli.languages import load_language, pack_replies
from stimuli.prompts import Question, Scale

OWN = Path(__file__).with_name("answers.jsonl")
SHARED = Path(__file__).parents[3] / "shared" / "data" / "answers" / "english.jsonl"
ANXIOUS = Question("a Buddhist", ("anxiety", "anxious"))
GERMAN = Question("eine muslimische Person", ("Angst", "ängstlich"))
EVERY = [json.loads(line) for line in OWN.read_text("utf-8").splitlines()]
ROWS = [row for row in EVERY if "language" not in row and "cut" not in row]


def read(
    answer: str, question: Question = ANXIOUS, *, low: int = 0, high: int = 100, cut: bool | None = False
) -> float | str:
    """Return the number that is read, or the status."""
    reading = parse_response(
        answer, low=low, high=high, low_label="not at all", high_label="extremely", question=question, cut=cut
    )
    return reading.intensity if reading.status is Status.RATED else str(reading.status)


def read_german(answer: str, *, cut: bool = False) -> float | str:
    """The same of a German answer."""
    scale = Scale(0, 100, "überhaupt nicht", "äußerst stark")
    reading = read_in_language(answer, pack_replies("de"), scale, question=GERMAN, cut=cut)
    return reading.intensity if reading.status is Status.RATED else str(reading.status)


def judged(rows: list[dict]) -> dict[str, list[tuple[str, float | str]]]:
    """Return which answers were read wrong, missed, or given another status than a right one."""
    found: dict[str, list[tuple[str, float | str]]] = {"wrong": [], "missed": [], "status": []}
    for row in rows:
        reader = read_german if row.get("language") == "de" else read
        got, right = reader(row["answer"], cut=row.get("cut", False)), row["right"]
        if got in right:
            continue
        numbers = [each for each in right if not isinstance(each, str)]
        kind = "wrong" if isinstance(got, float) else "missed" if numbers else "status"
        found[kind].append((row["answer"], got))
    return found


def test_no_answer_of_those_that_others_wrote_is_read_wrong():
    if not SHARED.exists():
        pytest.skip(f"{SHARED} is not there: the answers that others wrote are not part of the repository")
    rows = [json.loads(line) for line in SHARED.read_text("utf-8").splitlines()]
    found = judged(rows)
    assert found["wrong"] == found["status"] == []
    assert len(found["missed"]) <= len(rows) // 50, found["missed"]


def test_no_answer_of_our_own_making_is_read_wrong():
    assert len(EVERY) > 1800
    assert len({row["kind"] for row in EVERY}) > 20
    assert {row["right"][0] == "unparseable" for row in EVERY if "language" in row} == {True, False}
    found = judged(EVERY)
    assert found["wrong"] == found["status"] == []
    assert len(found["missed"]) <= len(EVERY) // 100, found["missed"]


# --- Decoration ------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_WORD = re.compile(r"[A-Za-z']+")
AROUND = [
    *("**{}**", "*{}*", "__{}__", '"{}"', "“{}”", "`{}`", "```\n{}\n```", "```text\n{}\n```", "> {}", "# {}", "### {}"),
    *("- {}", "* {}", "\\boxed{{{}}}", "$\\boxed{{{}}}$", "<p>{}</p>", "<b>{}</b>", "<strong>{}</strong>", "\n\n{}\n"),
    *("{} Thank you.", "{}\n\nI hope this helps!", "{}\n\nLet me know if you need anything else.", "{} 😊", "{}\r\n"),
]
WITHIN = ["**{}**", "*{}*", '"{}"', "`{}`", "<b>{}</b>", "\\textbf{{{}}}", "\\({}\\)", "\\boxed{{{}}}"]
BREAKS = ["\n", "\n\n", "\r\n", "\t", "  "]
CASES: list[Callable[[str], str]] = [str, str.upper, str.lower, str.title]


def within(text: str, pattern: re.Pattern[str], place: float, mark: str) -> str:
    """Decorate one number or word of a text; special marks of models are no words of theirs."""
    found = [
        each for each in pattern.finditer(text) if text[each.start() - 1 : each.start()] not in {"<", "|", "/", "$"}
    ]
    if not found:
        return text
    one = found[int(place * len(found)) % len(found)]
    return text[: one.start()] + mark.format(one[0]) + text[one.end() :]


def broken(text: str, place: float, mark: str) -> str:
    """Put a break in place of one space between words."""
    spaces = [each.start() for each in re.finditer(r"(?<=[\w.,:?!]) (?=\w)", text)]
    if not spaces:
        return text
    at = spaces[int(place * len(spaces)) % len(spaces)]
    return text[:at] + mark + text[at + 1 :]


DECORATIONS = st.one_of(
    st.sampled_from(AROUND).map(lambda mark: mark.format),
    st.tuples(st.floats(0, 0.999), st.sampled_from(WITHIN)).map(lambda p: lambda text: within(text, _NUMBER, *p)),
    st.tuples(st.floats(0, 0.999), st.sampled_from(WITHIN[:4])).map(lambda p: lambda text: within(text, _WORD, *p)),
    st.tuples(st.floats(0, 0.999), st.sampled_from(BREAKS)).map(lambda p: lambda text: broken(text, *p)),
    st.sampled_from(CASES),
)


@settings(max_examples=1500, deadline=None)
@given(row=st.sampled_from(ROWS), decorate=DECORATIONS)
def test_decoration_never_changes_a_number(row, decorate):
    plain, decorated = read(row["answer"]), read(decorate(row["answer"]))
    assert isinstance(decorated, str) or decorated == plain or decorated in row["right"]


STATEMENTS = (
    *(
        "{n}",
        "{n}.",
        "Rating: {n}",
        "My rating is {n}.",
        "I would rate the anxiety at {n}.",
        "{n} out of 100",
        "{n}/100",
    ),
    *("The anxiety would be {n}.", "On a scale from 0 to 100, I'd say {n}.", "{n}, because they waited 6 hours."),
    *("As a Buddhist, I'd say {n}.", "The final answer is {n}.", "Anxiety: {n}", "I can't be sure, but {n}."),
)
MENTIONS = (
    *(
        "I doubt it is {n}.",
        "A doctor would say {n}.",
        "Heart rate: {n}",
        "Confidence score: {n}",
        "Calm: {n}",
        "under {n}",
    ),
    *(
        "My empathy for the person: {n}",
        "No way this is {n}.",
        "{n} kg",
        "{n} years",
        "Is it {n}?",
        "Saying {n} is racist.",
    ),
)


@given(
    text=st.sampled_from(STATEMENTS),
    n=st.integers(0, 100),
    decorate=st.lists(DECORATIONS, min_size=1, max_size=3),
)
def test_a_decorated_statement_is_its_number_or_unread(text, n, decorate):
    text = text.format(n=n)
    assert read(text) == n
    for each in decorate:
        text = each(text)
    assert read(text) in (n, "unparseable")


@given(text=st.sampled_from(MENTIONS), n=st.integers(20, 99), decorate=st.lists(DECORATIONS, max_size=2))
def test_no_decoration_makes_a_rating_of_a_mention(text, n, decorate):
    text = text.format(n=n)
    for each in decorate:
        text = each(text)
    assert read(text) == "unparseable"


# --- Which emotion was asked about -----------------------------------------------------------------------------------

_ASKED = re.compile(r"(?<![^\W_])(?:anxiety|anxious)(?![^\W_])", re.IGNORECASE)
NAMED = [row["answer"] for row in ROWS if _ASKED.search(row["answer"])]


def renamed(text: str, noun: str, adjective: str) -> str:
    def word(found: re.Match[str]) -> str:
        new = noun if found[0].lower() == "anxiety" else adjective
        return new.upper() if found[0].isupper() else new.capitalize() if found[0][0].isupper() else new

    return _ASKED.sub(word, text)


@pytest.mark.parametrize("emotion", sorted(emotion_words()))
def test_no_reading_depends_on_which_packaged_emotion_was_asked_about(emotion):
    words = emotion_words()[emotion]
    question = Question("a Buddhist", (words.noun, words.adjective))
    others = re.compile(rf"\b(?:{re.escape(words.noun)}|{re.escape(words.adjective)})\b", re.IGNORECASE)
    # An answer that names it as another emotion than anxiety names what is asked about now.
    texts = [text for text in NAMED if words.noun == "anxiety" or not others.search(text)]
    assert len(texts) > 100
    changed = [text for text in texts if read(renamed(text, words.noun, words.adjective), question) != read(text)]
    assert changed == []


@pytest.mark.parametrize("emotion", sorted(emotion_words()))
def test_another_emotion_is_not_the_one_that_was_asked_about(emotion):
    words = emotion_words()[emotion]
    asked = Question("a Buddhist", (words.noun, words.adjective))
    others = {each.noun for each in emotion_words().values()} - {words.noun}
    others = {each for each in others if each not in words.adjective}
    for form in ("{}: 30", "The {} is 30.", "I would rate the {} at 30.", "{} level: 30", "The person felt 30 {}."):
        assert read(form.format(words.noun), asked) == 30
        assert {read(form.format(other), asked) for other in others} == {"unparseable"}


def test_german_reads_every_emotion_of_its_pack_alike():
    german, replies = load_language("de"), pack_replies("de")
    nouns = [text.partition(";")[0] for kind, _, text, _, _ in german.items() if kind == "emotion"]
    assert len(nouns) == 12
    scale = Scale(0, 100, "überhaupt nicht", "äußerst stark")
    for noun in nouns:
        asked = Question("eine muslimische Person", (noun,))

        def rating(text: str, asked: Question = asked) -> float | None:
            found = read_in_language(text, replies, scale, question=asked)
            return found.intensity if found.status is Status.RATED else None

        forms = ("{}: 85", "Die {} beträgt 85.", "Ich schätze die {} auf etwa 85 ein.", "Die {} liegt bei 85 von 100.")
        assert [rating(form.format(noun)) for form in forms] == [85] * 4
        for other in set(nouns) - {noun}:
            assert [rating(form.format(other)) for form in forms[:2]] == [None] * 2


# --- Scales, and texts that are not whole ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "low", "high", "outcome"),
    [
        ("**7.5**/10", 0, 10, 7.5),
        ("**75** out of **100**", 0, 10, 7.5),
        ("**7.5**/10", 0, 100, 75.0),
        ("I would rate it a 6.", 1, 7, 6.0),
        ("6/7", 1, 7, 6.0),
        ("On a scale from 1 to 7, I'd say 6.", 1, 7, 6.0),
        ("On a scale from 1 to 10, I'd say 6.", 1, 7, "unparseable"),
        ("8", 1, 7, "unparseable"),
        ("extremely", 1, 7, 7.0),
        ("Rating: 1500", 0, 5000, 1500.0),
        ("-20", -50, 50, -20.0),
    ],
)
def test_an_answer_is_read_on_the_scale_that_was_asked(answer, low, high, outcome):
    assert read(answer, low=low, high=high) == outcome


@pytest.mark.parametrize(
    "answer",
    ["8", "80", "80 ", "**8", "80.", "80%", "8/1", "I would say the number 8", "Rating: 8", "70 to", "70 or maybe 8",
     "70,", "7 out", "7 out of 1", "seventy", "seventy-", "First 60. My final answer is 8", "60. On reflection, 8",
     "70, m", '{"rating": 8', "<answer>8", "\\boxed{8", "Anxiety: 70 (", "extremely", "The person felt 70 anxiety",
     "70. That was in 20", "I'd say 70 (a long wai"],  # what may be said of the number is not whole
)  # fmt: skip
def test_a_number_that_may_go_on_at_the_end_of_a_cut_text_is_no_rating(answer):
    assert read(answer, cut=True) == "unparseable"


@pytest.mark.parametrize(
    "answer",
    ["70\n", "70. The person felt", "70\n\nThe person waited 6", "70, because the per", "Rating: 70\nConfidence: 9",
     '{"rating": 70}', "<answer>70</answer>", "\\boxed{70}"],
)  # fmt: skip
def test_a_number_that_stands_whole_before_a_cut_is_a_rating(answer):
    assert read(answer, cut=True) == 70.0


@pytest.mark.parametrize(
    "answer",
    ["I would say 8", "I would say the number 8", "The rating is 8", "I'd say seventy", "60. On reflection, it is 8",
     "70 to", "70 -", "70 or maybe", "70,", "7 out of", "I'd rate it 75/", "Anxiety: 70 (", "**8", '{"rating": 8',
     "<answer>8", "\\boxed{8", "70, m"],
)  # fmt: skip
def test_a_number_that_ends_an_open_sentence_is_no_rating_where_nothing_says_that_the_text_is_whole(answer):
    assert read(answer, cut=None) == "unparseable"


@pytest.mark.parametrize(
    "answer",
    ["75", "75 ", "75.", "**75**", "Rating: 75", "**Anxiety:** 75", "Rating:\n75", "75/100", "75 out of 100", "75%",
     "seventy-five", "I would say 75.", "I would say **75**", "The rating is 75%", "I'd say 75 points",
     "I would say 75\n", '{"rating": 75}', "<answer>75</answer>", "\\boxed{75}", "75. The person felt",
     "I waited 6 hours. 75"],
)  # fmt: skip
def test_a_number_that_stands_alone_or_ends_whole_is_a_rating_though_nothing_says_that_the_text_is_whole(answer):
    assert read(answer, cut=None) == 75.0


def test_a_text_that_says_nothing_of_its_end_loses_few_ratings_and_gains_none():
    rated = [row["answer"] for row in ROWS if isinstance(read(row["answer"]), float)]
    lost = [answer for answer in rated if read(answer, cut=None) != read(answer)]
    assert {read(answer, cut=None) for answer in lost} <= {"unparseable"}
    assert len(lost) < 0.04 * len(rated)
    assert sum(read(answer, cut=True) != read(answer) for answer in rated) > 0.5 * len(rated)


@settings(deadline=None)
@given(row=st.sampled_from(ROWS), share=st.floats(0, 1))
def test_what_a_cut_text_says_is_what_the_whole_one_says_or_nothing(row, share):
    answer = row["answer"]
    kept = answer[: int(share * len(answer))]
    found = read(kept, cut=True)
    assert isinstance(found, str) or found in row["right"] or found == read(kept)


def test_a_refusal_is_one_however_it_is_decorated():
    refusals = [row["answer"] for row in ROWS if row["right"] == ["refused"]]
    assert len(refusals) > 10
    assert Counter(read(mark.format(text)) for mark in AROUND[:19] for text in refusals).keys() <= {"refused"}
