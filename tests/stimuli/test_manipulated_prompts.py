from collections import Counter
from dataclasses import replace

import pytest

from stimuli.emotion_names import emotion_words
from stimuli.identities import load_dimensions
from stimuli.languages import load_language
from stimuli.manipulation import leaning, manipulated
from stimuli.narratives import Narrative, emotion_valence, load_narratives
from stimuli.prompts import PromptGrid, PromptVariant, Scale

VARIANT = PromptVariant(
    name="own",
    persona="You are {perceiver}.",
    system="{persona} Rate.",
    user="{Experiencer}: {narrative} How much {emotion_noun}?",
    narrative="first_person",
    scale=Scale(0, 100),
)


def grid(source="geneva", **options):
    return PromptGrid(load_dimensions("geneva", names=["religion"]), load_narratives(source, **options), VARIANT)


def test_prompts_have_no_identity_and_a_wrong_emotion_is_of_the_opposite_valence():
    asked = list(manipulated(grid(situations_per_emotion=2), size=24, seed=3))
    assert [each.kind for each in asked] == [
        "own",
        "wrong",
    ] * 27  # eight told are pleasant: three more make eleven of 22
    valence = emotion_valence()
    for own, wrong in zip(asked[::2], asked[1::2], strict=True):
        prompts = [
            VARIANT.fill(each.cell.perceiver, each.cell.experiencer, each.cell.narrative) for each in (own, wrong)
        ]
        assert [prompt.system for prompt in prompts] == ["Rate.", "Rate."]
        assert prompts[0].user.startswith("A person: ")
        assert own.cell.narrative.first_person == wrong.cell.narrative.first_person
        assert own.narrative_id == wrong.narrative_id
        pair = {valence[own.cell.narrative.emotion], valence[wrong.cell.narrative.emotion]}
        assert pair == {"positive", "negative"} or valence[own.cell.narrative.emotion] == "neutral"
        assert own.cell.narrative.emotion != wrong.cell.narrative.emotion


def test_the_wheel_is_asked_mild_and_strong_too():
    told = grid("geneva20", emotions=["anger"], situations_per_emotion=2)
    asked = list(manipulated(told, size=5, seed=0))
    assert [each.kind for each in asked] == ["own", "wrong", "mild", "strong"] * 5
    for mild, strong in zip(asked[2::4], asked[3::4], strict=True):
        assert (mild.cell.narrative.intensity, strong.cell.narrative.intensity) == ("mild", "strong")
        assert mild.cell.narrative.situation == strong.cell.narrative.situation


def ids(asked):
    return list(dict.fromkeys(each.narrative_id for each in asked))


def test_a_small_run_is_checked_on_others_of_its_source_and_a_large_one_on_all_of_its_own():
    small, whole = grid(situations_per_emotion=1), grid()
    own = [each.narrative_id for each in small.narratives.narratives]
    asked = ids(manipulated(small, size=60, seed=0))
    assert (len(own), len(asked), len(set(asked))) == (12, 60, 60)
    assert set(own) <= set(asked) <= {each.narrative_id for each in whole.narratives.narratives}
    assert len(ids(manipulated(whole, size=60, seed=0))) == 408
    assert len(ids(manipulated(small, size=1000, seed=0))) == 408


def test_others_are_drawn_by_the_seed_and_a_larger_check_holds_all_prompts_of_a_smaller_one():
    told = grid(situations_per_emotion=1)
    drawn = [list(manipulated(told, size=40, seed=seed)) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1]
    assert ids(drawn[0]) != ids(drawn[2])
    assert list(manipulated(told, size=100, seed=0))[: len(drawn[0])] == drawn[0]


def test_others_are_of_the_runs_emotions_as_long_as_there_are_such():
    told = grid(emotions=["sad", "happy"], situations_per_emotion=2)
    asked = list(manipulated(told, size=60, seed=0))
    assert {each.cell.narrative.emotion for each in asked} == {"sad", "happy"}
    alone = list(manipulated(grid(emotions=["sad"], situations_per_emotion=3), size=60, seed=0))
    unpleasant = [each.cell.narrative.emotion for each in alone if each.kind == "own"]
    assert {each for each in unpleasant if leaning(each, {}) < 0} == {"sad"}


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"situations_per_emotion": 1}, 60),
        ({"emotions": ["sad"], "situations_per_emotion": 3}, 60),
        ({"emotions": ["sad", "tense", "worried"]}, 60),  # 102 told, all of them unpleasant: the others are pleasant
        ({"source": "geneva20", "emotions": ["joy"]}, 24),
    ],
)
def test_as_many_pleasant_as_unpleasant_emotions_are_asked_where_the_run_has_few_of_one_kind(options, size):
    asked = [each for each in manipulated(grid(**options), size=size, seed=0) if each.kind == "own"]
    counts = Counter(leaning(each.cell.narrative.emotion, {}) for each in asked)
    assert min(counts[1], counts[-1]) >= (size - counts[0]) // 2
    assert len({each.narrative_id for each in asked}) == len(asked)


def test_a_file_s_valence_keeps_a_near_emotion_from_being_the_wrong_one(tmp_path):
    # grief and dejection are no packaged labels, elation neither
    rows = [
        (f"{emotion}-{k}", emotion, f"I told of my {emotion}, no. {k}.")
        for emotion in ("grief", "sad", "dejection")
        for k in range(6)
    ]
    rows += [("elation-0", "elation", "I told of my elation."), ("awe-0", "awe", "I told of my awe.")]
    valence = {"grief": "negative", "dejection": "negative", "elation": "positive"}

    def wrong_of(header, *, given):
        path = tmp_path / "own.csv"
        lines = [",".join([*row[:2], f'"{row[2]}"', *([valence.get(row[1], "")] if given else [])]) for row in rows]
        path.write_text("\n".join([header, *lines]), "utf-8")
        columns = {"narrative_id": "narrative_id", "emotion": "emotion", "first_person": "text"}
        asked = list(manipulated(grid("csv", path=path, columns=columns), size=60, seed=0))
        return {
            (own.cell.narrative.emotion, wrong.cell.narrative.emotion)
            for own, wrong in zip(asked[::2], asked[1::2], strict=True)
        }

    assert wrong_of("narrative_id,emotion,text,valence", given=True) >= {
        ("grief", "elation"), ("dejection", "elation"), ("sad", "elation"),
    }  # fmt: skip
    assert not {("grief", "sad"), ("grief", "dejection"), ("sad", "grief")} & wrong_of(
        "narrative_id,emotion,text,valence", given=True
    )
    assert {("grief", "sad"), ("grief", "dejection")} & wrong_of("narrative_id,emotion,text", given=False)


def test_narratives_that_the_prompt_cannot_show_are_no_others():
    told = grid(situations_per_emotion=1)
    lacking = [replace(each, first_person="") for each in told.narratives.others[:-3]]
    narratives = replace(told.narratives, others=(*lacking, *told.narratives.others[-3:]))
    asked = ids(manipulated(PromptGrid(told.dimensions, narratives, VARIANT), size=60, seed=0))
    assert len(asked) == 12 + 3


def test_others_of_a_language_are_told_in_it():
    told = load_narratives("geneva", situations_per_emotion=1)
    german = load_language("de").narratives(told)
    english = {each.narrative_id: each.first_person for each in told.others}
    assert len(german.others) > 60
    assert all(each.first_person != english[each.narrative_id] for each in german.others)


def test_a_source_of_one_emotion_has_no_wrong_one():
    sad = load_narratives("geneva", emotions=["sad"], situations_per_emotion=3)
    others = tuple(each for each in sad.others if each.emotion == "sad")
    alone = PromptGrid(load_dimensions("geneva", names=["religion"]), replace(sad, others=others), VARIANT)
    assert [each.kind for each in manipulated(alone, size=60, seed=0)] == ["own"] * 34


def wrong_emotions(narratives):
    told = load_narratives("geneva", situations_per_emotion=1)
    own = replace(told, narratives=tuple(narratives), others=())
    asked = manipulated(PromptGrid(load_dimensions("geneva", names=["religion"]), own, VARIANT), size=4, seed=0)
    return {
        (each.narrative_id, each.cell.narrative.emotion) for each in asked if each.kind == "wrong"
    }  # fmt: skip


def narrative(narrative_id, emotion, text):
    return Narrative(narrative_id, emotion, emotion_words()[emotion], "", text, "")


def test_an_emotion_that_the_same_text_is_also_told_as_is_not_a_wrong_one():
    # A writer said anger and a reader guilt: to rate both alike is to follow the story, and was taken for not doing so.
    both = [
        narrative("a", "anger", "I hit my brother."),
        narrative("b", "guilt", "I hit my brother. "),
        narrative("c", "guilt", "I broke a vase."),
    ]
    assert wrong_emotions(both) == {("c", "anger")}
    shame = narrative("d", "shame", "I fell on the stage.")
    assert wrong_emotions([*both, shame]) >= {("a", "shame"), ("b", "shame")}


def test_an_emotion_that_is_asked_about_in_the_same_words_is_not_a_wrong_one():
    # "How sad" is asked of both, and "how much fear": the wrong prompt was the own one once more.
    words = {"sad": "sad", "sadness": "sad", "scared": "fear", "fear": "fear"}
    told = [narrative(f"{emotion} {k}", emotion, f"{emotion} {k}") for emotion in words for k in range(5)]
    found = wrong_emotions(told)
    assert len(found) == 20
    assert [each for each in found if words[each[0].split()[0]] == words[each[1]]] == []
