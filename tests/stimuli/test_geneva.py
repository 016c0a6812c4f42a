"""The packaged narratives: their numbers, and what none of their wordings may give away."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

from stimuli.identities import UNSPECIFIED, load_dimensions
from stimuli.narratives import WORDINGS, emotion_words, load_narratives
from stimuli.prompts import PromptGrid, PromptVariant, Scale
from stimuli.yaml_files import read_yaml

FORBIDDEN = read_yaml(Path(__file__).with_name("forbidden_words.yaml"))
NOT_SHOWN = [(part, family) for part in ("emotion", "identity") for family in FORBIDDEN[part]]
GENEVA = load_narratives("geneva").narratives
EMOTIONS = {
    "amused", "anxious", "cheerful", "disappointed", "happy", "nervous",
    "relaxed", "sad", "scared", "surprised", "tense", "worried",
}  # fmt: skip


@cache
def pattern(part: str, family: str) -> re.Pattern[str]:
    """Compile a family of forbidden words; ``*`` is any ending, a space any white space."""
    words = (r"\s+".join(map(re.escape, entry.split())).replace(r"\*", r"\w*") for entry in FORBIDDEN[part][family])
    return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.IGNORECASE)


def offences(part: str, families: Sequence[str], text: str) -> list[str]:
    """Return the forbidden words in a text, as they stand there."""
    straight = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return [found[0] for family in families for found in pattern(part, family).finditer(straight)]


# --- Numbers ---------------------------------------------------------------------------------------------------------


def test_there_are_34_situations_for_each_of_twelve_emotions():
    assert Counter(n.emotion for n in GENEVA) == dict.fromkeys(EMOTIONS, 34)


def test_identifiers_number_the_situations_of_each_emotion():
    expected = [f"{emotion}-{number:02}" for emotion in sorted(EMOTIONS) for number in range(1, 35)]
    assert [n.narrative_id for n in GENEVA] == expected


@pytest.mark.parametrize("wording", WORDINGS)
def test_every_wording_has_408_different_texts(wording):
    assert len({n.wording(wording).casefold() for n in GENEVA}) == 408


def test_no_two_situations_are_nearly_the_same():
    bags = [(n.narrative_id, Counter(n.third_person.casefold().split()[2:])) for n in GENEVA]
    for (one, first), (other, second) in combinations(bags, 2):
        shared = (first & second).total() / min(first.total(), second.total())
        assert shared < 0.6, f"{one} and {other} share {shared:.0%} of their words"


def test_the_near_duplicate_threshold_is_one_that_a_copy_would_cross():
    text = GENEVA[0].third_person
    copy = text.replace("parrot", "budgie").replace("four times", "twice")
    first, second = (Counter(t.casefold().split()[2:]) for t in (text, copy))
    assert difflib.SequenceMatcher(None, text, copy).ratio() > 0.9
    assert (first & second).total() / min(first.total(), second.total()) > 0.6


def test_fifteen_experiencers_as_subjects_make_6120_sentences():
    # 34 situations x 12 emotions x (4 identities + 1 unspecified) x 3 dimensions = 408 x 15 = 6,120
    named = PromptVariant(
        name="sentence",
        persona="{perceiver}",
        system="{persona} {emotion}",
        user="{Narrative}",
        narrative="third_person",
        scale=Scale(0, 100),
    )
    grid = PromptGrid(load_dimensions("geneva"), load_narratives("geneva"), named)
    sentences = []
    for cell in grid:
        if cell.perceiver.group != UNSPECIFIED:
            continue
        sentence = grid.prompt(cell).user
        subject, predicate = cell.experiencer.term, cell.narrative.third_person.removeprefix("The person")
        assert sentence == subject[0].upper() + subject[1:] + predicate
        assert "the person" not in sentence.casefold(), sentence
        sentences.append((cell.dimension.name, sentence))
    assert len(sentences) == 6_120
    assert len(set(sentences)) == 6_120
    assert Counter(dimension for dimension, _ in sentences) == {
        "race_ethnicity": 2_040,
        "nationality": 2_040,
        "religion": 2_040,
    }


# --- Form ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wording", WORDINGS)
def test_every_text_is_one_or_two_plain_sentences_of_8_to_45_words(wording):
    for n in GENEVA:
        text = n.wording(wording)
        assert 8 <= len(text.split()) <= 45, text
        assert re.fullmatch(r"[A-Z][A-Za-z0-9 ,.;:'\-]+[.]", text), text
        assert len(re.findall(r"[.](?:\s|$)", text)) <= 2, text
        assert "  " not in text, text


def test_first_person_speaks_of_itself():
    silent = [n.first_person for n in GENEVA if not re.search(r"\b(?:I|[Mm]y|[Mm]e)\b", n.first_person)]
    assert silent == []


def test_third_person_begins_with_the_person_and_never_names_them_again():
    for n in GENEVA:
        assert n.third_person.startswith("The person "), n.third_person
        assert len(re.findall(r"\bpersons?\b", n.third_person, re.IGNORECASE)) == 1, n.third_person


def test_third_person_has_no_first_person_left_over():
    assert [
        (n.narrative_id, found) for n in GENEVA if (found := offences("pronoun", ["first person"], n.third_person))
    ] == []


def test_neutral_has_no_personal_pronoun_and_no_person():
    families = list(FORBIDDEN["pronoun"])
    assert [(n.narrative_id, found) for n in GENEVA if (found := offences("pronoun", families, n.neutral))] == []


# --- Nothing given away ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("part", "family"), NOT_SHOWN, ids=[family for _, family in NOT_SHOWN])
def test_no_wording_contains_a_word_of(part, family):
    assert [
        (n.narrative_id, wording, found)
        for n in GENEVA
        for wording in WORDINGS
        if (found := offences(part, [family], n.wording(wording)))
    ] == []


@pytest.mark.parametrize("wording", WORDINGS)
def test_no_wording_contains_a_proper_name(wording):
    for n in GENEVA:
        inside = re.findall(r"(?<=[\w,;:'] )[A-Z][a-z]\w*", n.wording(wording))
        assert inside == [], n.wording(wording)


# --- The matcher itself ----------------------------------------------------------------------------------------------


def test_forbidden_words_are_words():
    for families in FORBIDDEN.values():
        for family, words in families.items():
            # YAML reads a bare `no` or `on` as a truth value.
            assert all(isinstance(word, str) and word.strip("* ") for word in words), family
            assert len(words) == len(set(words)), family


@pytest.mark.parametrize("name", sorted(emotion_words()))
def test_the_words_of_every_packaged_emotion_are_forbidden(name):
    words = emotion_words()[name]
    for word in (name, words.noun, words.adjective):
        assert offences("emotion", list(FORBIDDEN["emotion"]), f"It was {word}.") == [word]


@pytest.mark.parametrize("study", ["geneva", "hou2025"])
def test_the_words_of_every_packaged_identity_are_forbidden(study):
    families = list(FORBIDDEN["identity"])
    shown = {
        text
        for dimension in read_yaml(Path(load_dimensions.__code__.co_filename).parent / "data" / "identities.yaml")[
            study
        ].values()
        for group in dimension["groups"].values()
        for text in [*group["terms"], *(group[key] for key in ("adjective", "noun", "place") if key in group)]
    }
    assert len(shown) >= 12
    assert [text for text in sorted(shown) if not offences("identity", families, f"It was {text}.")] == []


@pytest.mark.parametrize(
    ("part", "planted", "found"),
    [
        ("emotion", "The person was Happy to find the gate open.", "Happy"),
        ("emotion", "The person burst into tears at the gate.", "tears"),
        ("emotion", "It set the neighbours laughing, loudly.", "laughing"),
        ("emotion", "They were on  edge all day.", "on  edge"),
        ("emotion", "'worried' was the word on the note.", "worried"),
        ("identity", "The person lent her ladder out.", "her"),
        ("identity", "The person lent the neighbour's wife a ladder.", "wife"),
        ("identity", "A stall with Chinese lanterns.", "Chinese"),
        ("identity", "The train to the United States border.", "United States"),
        ("identity", "A cart beside the mosque's gate.", "mosque"),
        ("identity", "The note cost five dollars.", "dollars"),
        ("pronoun", "I\N{RIGHT SINGLE QUOTATION MARK}d left the gate open.", "I'd"),
        ("pronoun", "A gate left open by them.", "them"),
        ("pronoun", "The person left it open.", "person"),
    ],
)
def test_a_planted_word_is_found(part, planted, found):
    assert found in offences(part, list(FORBIDDEN[part]), planted)


@pytest.mark.parametrize(
    ("part", "innocent"),
    [
        ("emotion", "The contents of the sadly-sold saddle room."),
        ("emotion", "In sight of the tensioner, a nervure on the leaf."),
        ("identity", "The manager theorised in the countryside, then heard the blackbird."),
        ("pronoun", "A theme, an item, a mine shaft."),
    ],
)
def test_a_forbidden_word_inside_another_is_not_counted(part, innocent):
    allowed = {"sadly", "tensioner", "mine"}
    assert set(offences(part, list(FORBIDDEN[part]), innocent)) <= allowed
