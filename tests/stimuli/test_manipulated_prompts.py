from stimuli.identities import load_dimensions
from stimuli.manipulation import manipulated
from stimuli.narratives import emotion_valence, load_narratives
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
    asked = list(manipulated(grid(), size=24, seed=3))
    assert [each.kind for each in asked] == ["own", "wrong"] * 24
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
    asked = list(manipulated(grid("geneva20"), size=5, seed=0))
    assert [each.kind for each in asked] == ["own", "wrong", "mild", "strong"] * 5
    for mild, strong in zip(asked[2::4], asked[3::4], strict=True):
        assert (mild.cell.narrative.intensity, strong.cell.narrative.intensity) == ("mild", "strong")
        assert mild.cell.narrative.situation == strong.cell.narrative.situation


def test_narratives_are_drawn_by_the_seed_and_a_run_of_one_emotion_has_no_wrong_one():
    drawn = [[each.narrative_id for each in manipulated(grid(), size=6, seed=seed)] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    alone = grid(emotions=["sad"], situations_per_emotion=3)
    assert [each.kind for each in manipulated(alone, size=24, seed=0)] == ["own"] * 3
