"""The packaged narratives: their numbers, and what none of their wordings may give away."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from audit.statistics.ratings import FloatArray
from stimuli.errors import StimulusError
from stimuli.identities import IDENTITIES_FILE, UNSPECIFIED, load_dimensions, load_placebos
from stimuli.narratives import INTENSITIES, WORDINGS, emotion_words, geneva20_versions, load_narratives
from stimuli.prompts import PromptGrid, PromptVariant, Scale
from stimuli.yaml_files import read_yaml

FORBIDDEN = read_yaml(Path(__file__).with_name("forbidden_words.yaml"))
NOT_SHOWN = [(part, family) for part in ("emotion", "identity") for family in FORBIDDEN[part]]
GENEVA = load_narratives("geneva").narratives
WHEEL = geneva20_versions()
PACKAGED = [*GENEVA, *WHEEL]
FAMILIES = [
    "interest", "amusement", "pride", "joy", "pleasure", "contentment", "love", "admiration", "relief", "compassion",
    "sadness", "guilt", "regret", "shame", "disappointment", "fear", "disgust", "contempt", "hate", "anger",
]  # fmt: skip
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
    return [found[0] for family in families for found in pattern(part, family).finditer(text)]


def shares_of_words(texts: Sequence[str]) -> FloatArray:
    """Return for every two texts how much of the shorter one's words the other one has too."""
    place: dict[tuple[str, int], int] = {}  # a word, and the how manyth of its text it is: a text has each once
    rows = []
    for text in texts:
        counts = Counter(text.removeprefix("The person ").casefold().split())
        words = [(word, k) for word, n in counts.items() for k in range(n)]
        rows.append([place.setdefault(word, len(place)) for word in words])
    has = np.zeros((len(texts), len(place)), dtype=np.float32)
    for i, row in enumerate(rows):
        has[i, row] = 1
    n_words = has.sum(axis=1)
    shares: FloatArray = (has @ has.T) / np.minimum.outer(n_words, n_words)
    return shares


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
    events = np.array([n.situation or n.narrative_id for n in PACKAGED])
    shares = shares_of_words([n.third_person for n in PACKAGED])
    alike = np.triu((shares >= 0.65) & (events[:, None] != events), k=1)
    assert [
        f"{PACKAGED[i].narrative_id} and {PACKAGED[j].narrative_id} share {shares[i, j]:.0%} of their words"
        for i, j in np.argwhere(alike)
    ] == []


def test_words_are_shared_as_often_as_both_texts_have_them():
    # "a b a" and "a a a c": a twice, of the 3 words of the shorter one; "d" has none of them
    shares = shares_of_words(["The person a b a", "A a a c", "d"])
    expected = [[1, 2 / 3, 0], [2 / 3, 1, 0], [0, 0, 1]]
    assert np.allclose(shares, expected)


def test_the_wheel_has_20_situations_for_each_of_20_families_in_three_intensities():
    expected = [
        (family, f"{family}-{number:02}", level)
        for family in FAMILIES
        for number in range(1, 21)
        for level in INTENSITIES
    ]
    assert [(n.emotion, n.situation, n.intensity) for n in WHEEL] == expected
    assert [n.narrative_id for n in WHEEL] == [f"{situation}-{level}" for _, situation, level in expected]
    assert len({n.first_person.casefold() for n in WHEEL}) == len({n.third_person.casefold() for n in WHEEL}) == 1_200


def test_intensities_of_a_situation_do_not_differ_much_in_length():
    lengths: dict[str, list[int]] = {}
    for n in WHEEL:
        lengths.setdefault(n.situation, []).append(len(n.first_person.split()))
    assert {situation: found for situation, found in lengths.items() if max(found) - min(found) > 8} == {}


def test_a_run_has_each_situation_in_one_intensity():
    rotated = load_narratives("geneva20").narratives
    assert len(rotated) == len({n.situation for n in rotated}) == 400
    assert [n.intensity for n in rotated if n.emotion == "joy"][:6] == [*INTENSITIES, *INTENSITIES]
    assert {n.intensity for n in load_narratives("geneva20", intensity="strong").narratives} == {"strong"}
    with pytest.raises(StimulusError, match="did you mean 'mild'"):
        load_narratives("geneva20", intensity="mlid")


def test_a_reworded_copy_counts_as_nearly_the_same():
    text = GENEVA[0].third_person
    copy = text.replace("parrot", "budgie").replace("four times", "twice")
    assert copy != text
    assert shares_of_words([text, copy])[0, 1] > 0.65


def test_27_experiencers_as_subjects_make_11016_sentences():
    # 34 situations x 12 emotions x (4 groups of 2 terms + 1 unspecified) x 3 dimensions = 408 x 27 = 11,016
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
    assert len(sentences) == 11_016
    assert len(set(sentences)) == 11_016
    # "a person" is one of the nine in each of the three dimensions
    assert len({sentence for _, sentence in sentences}) == 11_016 - 2 * 408
    assert Counter(dimension for dimension, _ in sentences) == {
        "race_ethnicity": 3_672,
        "nationality": 3_672,
        "religion": 3_672,
    }


# --- Form ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wording", WORDINGS)
def test_every_text_is_one_or_two_plain_sentences_of_8_to_45_words(wording):
    for n in PACKAGED:
        text = n.wording(wording)
        assert 8 <= len(text.split()) <= 45, text
        assert re.fullmatch(r"[A-Z][A-Za-z0-9 ,.;:'\-]+[.]", text), text
        assert len(re.findall(r"[.](?:\s|$)", text)) <= 2, text
        assert "  " not in text, text


def test_first_person_speaks_of_itself():
    silent = [n.first_person for n in PACKAGED if not re.search(r"\b(?:I|[Mm]y|[Mm]e)\b", n.first_person)]
    assert silent == []


def test_third_person_begins_with_the_person_and_never_names_them_again():
    for n in PACKAGED:
        assert n.third_person.startswith("The person "), n.third_person
        assert len(re.findall(r"\bpersons?\b", n.third_person, re.IGNORECASE)) == 1, n.third_person


def test_third_person_has_no_first_person_left_over():
    assert [
        (n.narrative_id, found) for n in PACKAGED if (found := offences("pronoun", ["first person"], n.third_person))
    ] == []


def test_neutral_is_what_the_writer_tells():
    assert [n.narrative_id for n in PACKAGED if n.neutral != n.first_person] == []


# --- Nothing given away ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("part", "family"), NOT_SHOWN, ids=[family for _, family in NOT_SHOWN])
def test_no_wording_contains_a_word_of(part, family):
    assert [
        (n.narrative_id, wording, found)
        for n in PACKAGED
        for wording in WORDINGS[1:]
        if (found := offences(part, [family], n.wording(wording)))
    ] == []


@pytest.mark.parametrize("wording", WORDINGS)
def test_no_wording_contains_a_proper_name(wording):
    for n in PACKAGED:
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


@pytest.mark.parametrize("study", ["geneva", "hou2025", "wide"])
def test_the_words_of_every_packaged_identity_are_forbidden(study):
    # First names are told by test_no_wording_contains_a_proper_name; what members of a group do is no word.
    families = list(FORBIDDEN["identity"])
    labels = {
        identity.term
        for dimension in load_dimensions(study, unspecified=False, cues=["label"])
        for identity in dimension.perceivers
    }
    forms = {
        group[key]
        for dimension in read_yaml(IDENTITIES_FILE)[study].values()
        for group in dimension["groups"].values()
        for key in ("adjective", "noun", "place")
        if key in group
    }
    assert len(labels) >= 24
    assert len(forms) >= 12
    assert [text for text in sorted(labels | forms) if not offences("identity", families, f"It was {text}.")] == []


def test_invented_groups_have_no_forbidden_word():
    # What they are called says nothing of any emotion, or of a real identity.
    words = {
        identity.term
        for dimension in load_placebos(["invented_1", "invented_2", "invented_3"], n_terms=4, seed=0)
        for identity in dimension.perceivers
    }
    assert len(words) == 12 * 4
    said = [(part, list(FORBIDDEN[part])) for part in ("emotion", "identity")]
    assert [(text, found) for text in sorted(words) for each in said if (found := offences(*each, text))] == []


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
        ("pronoun", "In May I'd left the gate open.", "I"),
        ("pronoun", "A gate left open by them.", "them"),
        ("pronoun", "The person left it open.", "person"),
    ],
)
def test_a_planted_word_is_found_as_it_stands(part, planted, found):
    assert found in offences(part, list(FORBIDDEN[part]), planted)


@pytest.mark.parametrize("part", list(FORBIDDEN))
def test_every_forbidden_word_is_found_when_planted_in_a_narrative(part):
    start, end = GENEVA[0].neutral.split(" copied ")
    for family, words in FORBIDDEN[part].items():
        for word in words:
            planted = f"{start} {word.removesuffix('*').upper()} {end}"
            assert offences(part, [family], planted), f"{family}: {word}"


@pytest.mark.parametrize(
    "innocent", ["the saddle of a bicycle", "a theme and an item", "out in the countryside, with blackbirds"]
)
def test_a_forbidden_word_inside_another_is_not_counted(innocent):
    assert [found for part in FORBIDDEN if (found := offences(part, list(FORBIDDEN[part]), innocent))] == []
