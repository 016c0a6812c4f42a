"""Pools of examples: the packaged one and a user's own, that none is a narrative of the run, and which are chosen."""

from __future__ import annotations

import csv
import io
import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stimuli.errors import StimulusError
from stimuli.examples import Example, ExamplePool, check_unseen, choose_random, choose_similar, load_pool
from stimuli.narratives import WORDINGS, EmotionWords, Narrative, Narratives, load_narratives
from stimuli.yaml_files import read_yaml

COLUMNS = {"example_id": "id", "text": "said", "answer": "reply", "emotion": None}
PACKAGED = load_pool(None, {})
GENEVA = load_narratives("geneva")
FORBIDDEN = read_yaml(Path(__file__).with_name("forbidden_words.yaml"))


def table(rows, header=("id", "said", "reply"), delimiter=","):
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter).writerows([header, *rows])
    return stream.getvalue()


@pytest.fixture
def write(tmp_path):
    """Write a pool and return the file."""

    def to_file(content, name="pool.csv"):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8", newline="")
        return path

    return to_file


def error_of(path, columns=COLUMNS):
    with pytest.raises(StimulusError) as caught:
        load_pool(path, columns)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def pool_of(*texts):
    return ExamplePool("pool.csv", tuple(Example(f"e{k}", text, "I see.") for k, text in enumerate(texts)), "")


def narratives_of(*texts, wording="first_person"):
    """Make a run's narratives, n0, n1, ..., each in one wording."""
    none = dict.fromkeys(WORDINGS, "")
    made = (Narrative(f"n{k}", "joy", EmotionWords("", ""), **{**none, wording: t}) for k, t in enumerate(texts))
    return Narratives("csv", tuple(made), len(texts), "")


# --- The packaged pool -----------------------------------------------------------------------------------------------


def test_the_packaged_pool_has_five_examples_for_each_emotion_of_the_packaged_narratives():
    assert (PACKAGED.source, len(PACKAGED.examples)) == ("packaged", 60)
    assert Counter(e.emotion for e in PACKAGED.examples) == dict.fromkeys(GENEVA.emotions, 5)
    expected = [f"example-{emotion}-{k}" for emotion in GENEVA.emotions for k in range(1, 6)]
    assert [e.example_id for e in PACKAGED.examples] == expected


def test_the_packaged_examples_are_of_one_form_and_none_says_what_another_says():
    for example in PACKAGED.examples:
        assert 15 <= len(example.text.split()) <= 40, example
        assert 20 <= len(example.answer.split()) <= 50, example
        assert re.search(r"\b(I|my|me|we|our)\b", example.text, re.IGNORECASE), example
        assert 1 <= len(re.findall(r"[.!?](?:\s|$)", example.text)) <= 2, example
        assert 1 <= len(re.findall(r"[.!?](?:\s|$)", example.answer)) <= 3, example
    assert len({e.text for e in PACKAGED.examples}) == len({e.answer for e in PACKAGED.examples}) == 60
    assert len({tuple(e.answer.split()[:3]) for e in PACKAGED.examples}) == 60


@pytest.mark.parametrize("part", ["text", "answer"])
def test_no_packaged_example_has_a_digit_a_name_or_a_word_of_an_identity(part):
    words = [word for family in FORBIDDEN["identity"].values() for word in family]
    # A situation does not name its emotion either; the answer may.
    words += [word for family in FORBIDDEN["emotion"].values() for word in family] if part == "text" else []
    pattern = "|".join(re.escape(word).replace(r"\*", r"\w*") for word in words)
    for example in PACKAGED.examples:
        text = getattr(example, part)
        assert not (found := re.findall(rf"(?<!\w)(?:{pattern})(?!\w)", text, re.IGNORECASE)), (found, text)
        assert re.fullmatch(r"[A-Za-z ,.;'!?\-]+", text), text
        assert not re.search(r"(?<=[\w,;'] )[A-Z]\w+", text), text


def test_the_packaged_examples_are_nowhere_near_the_packaged_narratives():
    check_unseen(PACKAGED, GENEVA)
    for example in PACKAGED.examples:
        ours = Counter(example.text.casefold().split())
        for narrative in GENEVA.narratives:
            theirs = Counter(narrative.first_person.casefold().split())
            shared = (ours & theirs).total() / min(ours.total(), theirs.total())
            assert shared < 0.6, f"{example.example_id} and {narrative.narrative_id} share {shared:.0%} of their words"


# --- A user's own pool -----------------------------------------------------------------------------------------------


def test_a_pool_is_read_by_the_columns_that_are_named(write):
    path = write(
        table([["7", "A {day}.", "Good.", "joy", "x"]], ("id", "said", "reply", "felt", "egal"), "\t"), "p.tsv"
    )
    assert load_pool(path, {**COLUMNS, "emotion": "felt"}).examples == (Example("7", "A {day}.", "Good.", "joy"),)
    pool = load_pool(path, COLUMNS)
    assert pool.examples == (Example("7", "A {day}.", "Good.", ""),)
    assert pool.source == str(path)


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        pytest.param("id,aside,reply\n1,A.,B.\n", ": no column 'said' (for text); did you mean ", id="column"),
        pytest.param("id,said,reply\n", ": has a header but no examples", id="no rows"),
        pytest.param("id,said,reply\n1,A.,B.\n2,C.,\n", ": line 3: the cell in column 'reply' is empty;", id="empty"),
        pytest.param("id,said,reply\n1,A.,B.,C.\n", ": line 2: has more cells", id="too many cells"),
        pytest.param('id,said,reply\n1,A.,"B\n', ": the row that begins on line 2: ", id="open quote"),
        pytest.param(
            "id,said,reply\n1,A.,B.\n1,C.,D.\n", ": the example identifier '1' occurs twice", id="identifier twice"
        ),
        pytest.param(
            "id,said,reply\n1,A dáy out!,B.\n2,C.,D.\n3,a  DA\u0301Y; out,E.\n",
            ": line 4: example '3' has the text of '1'; keep one of them",
            id="text twice",
        ),
    ],
)
def test_a_faulty_pool_is_named_with_the_place(write, content, fragment):
    path = write(content)
    assert f"{path}{fragment}" in error_of(path)


def test_texts_without_any_word_are_told_apart_by_their_signs(write):
    assert len(load_pool(write(table([["1", ":-)", "B."], ["2", ":-(", "D."]])), COLUMNS).examples) == 2


def test_a_pool_that_is_missing_or_whose_column_is_not_named_is_an_error(write, tmp_path):
    absent = tmp_path / "absent.csv"
    assert error_of(absent) == (f"strategy.examples.pool={absent} is not a file; use null for the packaged pool")
    path = write(table([["1", "A.", "B."]]))
    message = f"strategy.examples.columns.answer must name a column of {path}"
    assert error_of(path, {**COLUMNS, "answer": None}) == message


def test_the_hash_is_of_what_is_read_and_of_all_of_it(write):
    rows = [["1", "A day.", "Good."], ["2", "A night.", "Well."]]
    first = load_pool(write(table(rows)), COLUMNS)
    assert load_pool(write(table(rows, delimiter="\t"), "other.tsv"), COLUMNS).sha256 == first.sha256
    others = [rows[:1], rows[::-1], [["3", *rows[0][1:]], rows[1]], [["1", "A day.", "Bad."], rows[1]]]
    hashes = {load_pool(write(table(each)), COLUMNS).sha256 for each in others}
    assert len(hashes | {first.sha256}) == 5
    assert load_pool(write(table(rows)), {**COLUMNS, "emotion": "reply"}).sha256 not in hashes | {first.sha256}


# --- No example is a narrative ---------------------------------------------------------------------------------------

STORY = "I missed the last bus home, and it rained."


@pytest.mark.parametrize("wording", WORDINGS)
@pytest.mark.parametrize(
    ("text", "how"),
    [
        pytest.param(STORY, "is", id="equal"),
        pytest.param("i MISSED the last bus home \u2014 and it rained!", "is", id="case and punctuation"),
        pytest.param("I missed the last bus\u00a0home,\nand it \uff52ained", "is", id="space and width"),
        pytest.param("I missed the last bus", "is part of", id="opening"),
        pytest.param("Home and it rained; the last.", None, id="the same words in another order"),
        pytest.param("bus home, and it rained", "is part of", id="end"),
        pytest.param("The last bus home", None, id="four words of it"),
        pytest.param("Yesterday I missed the last bus home, and it rained. So what?", "holds", id="more around it"),
        pytest.param("I missed the last bus home, and it rains.", None, id="another word"),
        pytest.param("I missed the last bus home, and it rainedx", None, id="part of a word"),
    ],
)
def test_an_example_that_is_holds_or_is_part_of_a_narrative_is_refused(wording, text, how):
    pool, narratives = pool_of("A fine day.", text, text + " "), narratives_of("Else.", STORY, wording=wording)
    if how is None:
        check_unseen(pool, narratives)
        return
    with pytest.raises(StimulusError) as caught:
        check_unseen(pool, narratives)
    assert str(caught.value) == (
        f"pool.csv: 2 of 3 examples have the text of narratives of this run (first: example 'e1' {how} "
        "narrative 'n1'); remove them from the pool (strategy.examples.pool): an example must never "
        "be a narrative of the run"
    )


def test_a_short_narrative_is_refused_when_it_is_equal_but_not_inside_another_text():
    with pytest.raises(StimulusError, match="example 'e0' is narrative 'n0'"):
        check_unseen(pool_of("It rained!"), narratives_of("It rained."))
    check_unseen(pool_of("It rained all day long."), narratives_of("It rained."))


def test_a_wording_that_a_narrative_lacks_is_no_text():
    check_unseen(pool_of("!!!"), narratives_of("A day at the lake."))


def test_a_narrative_put_into_the_packaged_pool_is_found():
    theirs = GENEVA.narratives[200]
    pool = replace(PACKAGED, examples=(*PACKAGED.examples, Example("x", theirs.third_person.upper(), "Oh.")))
    with pytest.raises(
        StimulusError, match=rf"^the packaged pool: 1 of 61 .*'x' is narrative '{theirs.narrative_id}'\)"
    ):
        check_unseen(pool, GENEVA)


SHORT = st.lists(st.sampled_from("ab"), min_size=1, max_size=9).map(" ".join)


@given(st.lists(SHORT, max_size=4), st.lists(SHORT, max_size=4), st.randoms())
def test_the_check_finds_what_comparing_each_with_each_finds_in_whatever_order(texts, stories, random):
    def near(one, other):
        short, long = sorted((one, other), key=len)
        return one == other or (len(short) >= 9 and f" {short} " in f" {long} ")  # 9: five letters and four spaces

    expected = sum(any(near(text, story) for story in stories) for text in texts)
    for _ in range(2):
        if expected:
            with pytest.raises(StimulusError, match=f": {expected} of {len(texts)} examples have"):
                check_unseen(pool_of(*texts), narratives_of(*stories))
        else:
            check_unseen(pool_of(*texts), narratives_of(*stories))
        random.shuffle(texts)


def test_a_large_pool_is_checked_against_a_large_run_in_seconds():
    rng = np.random.default_rng(0)
    words = np.array([f"w{k}" for k in range(2_000)])

    def texts(n):
        # All begin alike, as texts about "the person" do.
        return ["the person was on their " + " ".join(row) for row in words[rng.integers(0, 2_000, (n, 20))]]

    narratives = narratives_of(*texts(18_150))
    pool = pool_of(*texts(19_999), narratives.narratives[-1].first_person.removeprefix("the "))
    start = time.process_time()
    with pytest.raises(StimulusError, match=r"1 of 20000 examples .*'e19999' is part of narrative 'n18149'"):
        check_unseen(pool, narratives)
    assert time.process_time() - start < 10  # each with each would be 363 million comparisons


# --- Random examples -------------------------------------------------------------------------------------------------


@given(st.integers(0, 12), st.integers(0, 2**32), st.lists(st.text(max_size=5), unique=True, max_size=6))
def test_a_draw_has_n_different_places_and_depends_on_seed_and_narrative_alone(n, seed, others):
    pool = pool_of(*map(str, range(12)))
    one = narratives_of("A.").narratives
    more = tuple(replace(one[0], narrative_id=f"other {name}") for name in others)
    alone = choose_random(pool, Narratives("csv", one, 1, ""), n=n, seed=seed)
    together = choose_random(pool, Narratives("csv", (*more, *one), 1, ""), n=n, seed=seed)
    assert together["n0"] == alone["n0"]
    assert list(together) == [each.narrative_id for each in (*more, *one)]
    for places in together.values():
        assert len(places) == len(set(places)) == n
        assert set(places) <= set(range(12))


def test_narratives_and_seeds_differ_in_their_draws():
    draws = [choose_random(PACKAGED, GENEVA, n=5, seed=seed) for seed in (3, 3, 4)]
    assert draws[0] == draws[1] != draws[2]
    assert len(set(draws[0].values())) > 400


def test_every_example_is_drawn_as_often_as_any_other():
    counts = np.bincount([p for places in choose_random(PACKAGED, GENEVA, n=5, seed=0).values() for p in places])
    # 408 x 5 / 60 = 34 expected of each; SD = sqrt(408 x 1/12 x 11/12) = 5.6; 25 are 4.5 of them.
    assert (len(counts), counts.sum()) == (60, 2_040)
    assert np.abs(counts - 34).max() < 25


def test_a_pool_that_is_too_small_is_named():
    with pytest.raises(StimulusError) as caught:
        choose_random(pool_of("A.", "B."), GENEVA, n=3, seed=0)
    assert str(caught.value) == (
        "strategy.examples.n=3, but pool.csv has 2 examples; ask for at most 2, or give a "
        "larger pool in strategy.examples.pool"
    )
    with pytest.raises(ValueError, match="3 of 2 examples cannot be chosen"):
        choose_similar(np.zeros((1, 2)), n=3)


# --- Similar examples ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "n", "chosen"),
    [
        ([0.1, 0.9, -0.5, 0.4], 2, (3, 1)),  # 0.4, then 0.9 next to the question
        ([0.1, 0.9, -0.5, 0.4], 4, (2, 0, 3, 1)),
        ([0.5, 0.5, 0.9, 0.5], 3, (1, 0, 2)),  # of three equals the first two, the first of them nearer
        ([0.5, 0.5, 0.5], 1, (0,)),
        ([-0.0, 0.0], 1, (0,)),
        ([0.1, 0.9], 0, ()),
    ],
)
def test_the_most_similar_stand_next_to_the_question_and_ties_go_by_place(row, n, chosen):
    assert choose_similar(np.array([row, row[::-1]]), n=n)[0] == chosen


@given(
    st.lists(st.lists(st.sampled_from([-1.0, 0.0, 0.25, 1.0]), min_size=7, max_size=7), max_size=4), st.integers(0, 7)
)
def test_similar_examples_are_the_first_of_a_sort_by_similarity_and_place(rows, n):
    expected = [tuple(sorted(range(7), key=lambda k: (-row[k], k))[:n][::-1]) for row in rows]
    assert choose_similar(np.array(rows).reshape(-1, 7), n=n) == expected


@given(st.permutations(range(8)), st.integers(1, 8))
def test_a_shuffled_pool_gives_the_same_examples(order, n):
    similarity = np.array([[0.3, 0.8, -0.1, 0.5, 0.9, 0.0, 0.2, 0.7]])
    (places,) = choose_similar(similarity[:, order], n=n)
    assert [tuple(order[place] for place in places)] == choose_similar(similarity, n=n)


def test_a_similarity_that_is_not_a_number_is_an_error():
    with pytest.raises(ValueError, match="NaN"):
        choose_similar(np.array([[0.1, np.nan], [0.1, 0.2]]), n=1)
