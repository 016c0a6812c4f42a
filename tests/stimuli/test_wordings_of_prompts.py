"""Paraphrases of the packaged prompts, and the grid that crosses them with narratives."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from test_prompts import CONF, HINDU, LATINA, NARRATIVE, TEMPLATES, VARIANT, configure, dimension, narratives

from audit.asking.plan import make_plan
from audit.asking.run_identity import default_run_dir
from audit.errors import ConfigError
from audit.runs.prompts import PromptsAsked
from stimuli.errors import StimulusError
from stimuli.prompts import PromptGrid

PARTS = ("persona", "system", "user")
SMALL = (
    "stimuli.placebo=0", "dimensions=religion", "stimuli.situations_per_emotion=1", "stimuli.identities=geneva",
    "stimuli.pairs=all",
)  # fmt: skip
OTHERS = [replace(VARIANT, persona=f"Number {k}: be {{perceiver}}.") for k in (1, 2)]


def fields(template):
    return Counter(name for _, name, _, _ in string.Formatter().parse(template) if name is not None)


def lists_of(name):
    return {part: texts for part, texts in configure(f"prompt={name}").prompt.paraphrases.parts.items()}


# --- The packaged paraphrases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_packaged_prompt_has_eight_paraphrases_of_each_part(name):
    lists = lists_of(name)
    assert list(lists) == list(PARTS)
    original = configure(f"prompt={name}").prompt_variant()
    for part, texts in lists.items():
        assert len({text.casefold() for text in (*texts, getattr(original, part))}) == 9
        for text in texts:
            assert fields(text) == fields(getattr(original, part))


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_paraphrase_names_the_experiencer_once_before_the_narrative_and_asks_on_the_same_scale(name):
    variants = configure(f"prompt={name}", "wordings=9").prompt_wordings()
    assert len({variant.sha256 for variant in variants}) == 9
    for variant in variants:
        prompt = variant.fill(LATINA, HINDU, NARRATIVE)
        text = prompt.user.lower()
        assert text.count("a hindu") == 1
        assert text.index("a hindu") < text.index("left")  # of the narrative
        assert "a latina" not in text
        high = str(variant.scale.high)
        assert re.search(rf"\b0 \(not at all\).*\b{high} \(extremely\)", prompt.system, re.DOTALL)
        assert re.search(rf"\b0\b.*\b{high}\b", prompt.user.splitlines()[-1])
        assert ("angry" if name == "adjective" else "anger") in text
        assert (variant.name, variant.scale, variant.narrative) == (
            variants[0].name, variants[0].scale, variants[0].narrative,
        )  # fmt: skip


def test_a_variant_s_file_paraphrases_what_it_changes_and_inherits_the_rest():
    base = yaml.safe_load((CONF / "prompt" / "base.yaml").read_text())["paraphrases"]
    for name in TEMPLATES:
        own = yaml.safe_load((CONF / "prompt" / f"{name}.yaml").read_text())
        changed = {part for part in PARTS if part in own}
        assert {part for part in PARTS if part in own.get("paraphrases", {})} == changed
        for part in set(PARTS) - changed:
            assert list(lists_of(name)[part]) == base[part]


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_reply_has_eight_paraphrases_of_each_part_that_ask_for_the_same(name):
    variants = configure("task=reply", f"prompt={name}", "wordings=9").prompt_wordings()
    for part in PARTS:
        assert len({getattr(variant, part).casefold() for variant in variants}) == 9
    assert [variant.persona for variant in variants[1:]] == list(lists_of(name)["persona"])
    for variant in variants:
        prompt = variant.fill(LATINA, HINDU, NARRATIVE)
        text = prompt.user.lower()
        assert (text.count("a hindu"), "a latina" in text) == (1, False)
        assert text.index("a hindu") < text.index('"')
        asked = prompt.system.lower()
        assert "as yourself" in asked
        assert "plain words" in asked
        assert re.search("two to four sentences|no fewer than two and no more than four sentences", asked)
        assert variant.scale is None


# --- The configuration -----------------------------------------------------------------------------------------------


def test_the_original_comes_first_and_paraphrases_follow_in_order():
    config = configure("prompt=persona-1", "wordings=3")
    original, *others = config.prompt_wordings()
    assert original == config.prompt_variant()
    lists = lists_of("persona-1")
    for k, variant in enumerate(others):
        assert (variant.persona, variant.system, variant.user) == tuple(lists[part][k] for part in PARTS)
    assert len(others) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("wordings=10",), r"wordings=10: prompt origin has 8 paraphrases, so wordings can be at most 9"),
        (("wordings=0",), r"wordings"),
        (("prompt=published", "prompt.path=const.py", "wordings=2"), r"prompt=published has one wording|const\.py"),
        (
            ('prompt.user="{Experiencer}: {narrative} {emotion_noun}"', "wordings=2"),
            r"prompt\.user is not the wording that prompt\.paraphrases\.user paraphrases; give your own "
        r"paraphrases",
        ),
        (
            (*(f"prompt.paraphrases.{part}=[]" for part in PARTS), "wordings=2"),
            r"prompt origin has no paraphrases, so wordings can be at most 1",
        ),
        (("task=emotion", "wordings=2"), r"task=emotion has one wording"),
        (("task=reply", "wordings=10"), r"prompt origin has 8 paraphrases.* and task\.paraphrases"),
        (
            ('task.user="{Experiencer}: {narrative}"', "task=reply", "wordings=2"),
            r"task\.user is not the wording that task\.paraphrases\.user paraphrases; give your own paraphrases with "
            r"task\.paraphrases\.originals\.user=null",
        ),
        (("prompt=deployed", "task=reply", "wordings=2"), r"prompt=deployed has one wording"),
    ],
)  # fmt: skip
def test_more_wordings_than_there_are_end_in_one_line(words, said):
    with pytest.raises((ConfigError, StimulusError), match=said):
        configure(*words).prompt_wordings()


def test_the_study_s_wording_has_no_paraphrases(tmp_path):
    from test_prompts import INVENTED

    path = tmp_path / "const.py"
    path.write_text(INVENTED)
    words = "prompt=published", f"prompt.path={path}"
    assert len(configure(*words).prompt_wordings()) == 1
    with pytest.raises(
        ConfigError, match=r"wordings=2: prompt=published has one wording, the study's; leave wordings=1"
    ):
        configure(*words, "wordings=2").prompt_wordings()


def test_paraphrases_of_one_s_own_are_taken_and_parts_without_any_stay():
    words = (
        'prompt.persona="Be {perceiver}."', "prompt.paraphrases.originals.persona=null",
        'prompt.paraphrases.persona=["You are {perceiver}."]', "prompt.paraphrases.system=[]",
        "prompt.paraphrases.user=[]",
    )  # fmt: skip
    first, second = configure(*words, "wordings=2").prompt_wordings()
    assert (first.persona, second.persona) == ("Be {perceiver}.", "You are {perceiver}.")
    assert (first.system, first.user) == (second.system, second.user)
    with pytest.raises(ConfigError, match="has 1 paraphrases, so wordings can be at most 2"):
        configure(*words, "wordings=3").prompt_wordings()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"persona": "Be someone."}, "paraphrase 4 of persona lacks the placeholder {perceiver}"),
        ({"user": "{narrative} {emotion_noun} {experiencer} {low}"}, "paraphrase 4 of user shows {low}, which"),
        ({"system": "{persona} {low} {low_label} {high}"}, "paraphrase 4 of system lacks the placeholder {high_label}"),
        ({"user": "{Experiencer} {narrative} {emotion_noun} {x}"}, "paraphrase 4 of user: unknown placeholder {x}"),
    ],
)  # fmt: skip
def test_a_paraphrase_that_shows_something_else_is_refused(changes, said):
    with pytest.raises(StimulusError, match=re.escape(said)):
        VARIANT.reworded(4, **changes)


def test_the_experiencer_may_begin_a_sentence_or_not():
    assert VARIANT.reworded(1, user="{narrative} says {experiencer}. {emotion_noun}?").user.startswith("{narrative}")


def test_paraphrases_of_a_reply_may_be_one_s_own_and_a_run_in_one_wording_is_the_same_run():
    own = (
        'task.paraphrases.system=["{persona} Answer."]',
        "task.paraphrases.user=[]",
        'prompt.paraphrases.persona=["P {perceiver}"]',
    )
    first, second = configure("task=reply", *own, "wordings=2").prompt_wordings()
    assert (second.persona, second.system, second.user) == ("P {perceiver}", "{persona} Answer.", first.user)
    plans = [make_plan(configure("task=reply", *SMALL, *words)) for words in ((), own, (*own, "wordings=2"))]
    assert plans[0].identity() == plans[1].identity() != plans[2].identity()
    assert "paraphrases" not in plans[2].described()["task"]


def test_stages_before_the_question_are_asked_in_one_wording_alone():
    with pytest.raises(ConfigError, match=r"wordings=2: strategy two-stage has stages"):
        make_plan(configure(*SMALL, "strategy=two-stage", "wordings=2"))
    assert len(make_plan(configure(*SMALL, "strategy=basic-empathy", "wordings=2")).grid.wordings) == 2


# --- The grid --------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=3), st.integers(1, 5))
def test_wordings_vary_slowest_within_a_dimension(sizes, n_narratives):
    dimensions = [dimension(f"d{k}", p, e) for k, (p, e) in enumerate(sizes)]
    source = narratives(n_narratives)
    grid = PromptGrid(dimensions, source, VARIANT, OTHERS)
    single = list(PromptGrid(dimensions, source, VARIANT))
    expected = [
        (cell.dimension, wording, cell.perceiver, cell.experiencer, cell.narrative)
        for d in dimensions
        for wording in range(3)
        for cell in single
        if cell.dimension is d
    ]
    cells = list(grid)
    assert [(c.dimension, c.wording, c.perceiver, c.experiencer, c.narrative) for c in cells] == expected
    assert [cell.index for cell in cells] == list(range(3 * len(single)))


def test_a_prompt_is_in_its_own_wording():
    grid = PromptGrid([dimension("d", 2, 2)], narratives(3), VARIANT, OTHERS)
    assert [grid.prompt(grid[k]).system.split("\n")[0] for k in (0, 12, 24)] == [
        "You are a p0.", "Number 1: be a p0.", "Number 2: be a p0.",
    ]  # fmt: skip


def test_narratives_must_have_what_every_wording_shows():
    other = replace(VARIANT, user="{experiencer} {narrative} {emotion_adjective}")
    source = narratives(3)
    lacking = tuple(replace(n, words=replace(n.words, adjective="")) for n in source.narratives)
    with pytest.raises(StimulusError, match="has no adjective"):
        PromptGrid([dimension("d", 2, 2)], replace(source, narratives=lacking), VARIANT, [other])


# --- One wording is what there was before ----------------------------------------------------------------------------


def test_the_hash_of_a_variant_is_the_one_of_earlier_versions():
    # Computed by the version before there were several wordings.
    assert VARIANT.sha256 == "98cfca7388c44c7accfb606aeacee054135ccd41d645bcd0796af019a92f31b4"


def test_one_wording_leaves_no_trace_in_what_a_run_is():
    plan = make_plan(configure(*SMALL))
    identity = plan.identity()
    assert identity["prompt"] == {"variant": "origin", "sha256": plan.grid.variant.sha256}
    assert "wordings" not in identity
    assert not any("paraphrase" in key for key in identity)
    assert len({cell.wording for cell in plan.grid}) == 1
    assert re.fullmatch(r"smollm2-religion-[0-9a-f]{8}", default_run_dir(plan).name)


def test_paraphrases_that_are_not_asked_do_not_make_another_run():
    plain = make_plan(configure(*SMALL))
    other = make_plan(configure(*SMALL, "prompt.paraphrases.user=[]"))
    assert plain.identity() == other.identity()


def test_other_paraphrases_make_another_run():
    other = 'prompt.paraphrases.persona=["As {perceiver}."]'
    identities = [
        make_plan(configure(*SMALL, *words)).identity()
        for words in ((), ("wordings=2",), ("wordings=3",), ("wordings=2", other))
    ]
    assert [identity.get("wordings") for identity in identities] == [None, 2, 3, 2]
    assert len({identity["prompt"]["sha256"] for identity in identities}) == 4
    two = make_plan(configure(*SMALL, "wordings=2"))
    assert "-religion-2-wordings-" in default_run_dir(two).name


def test_a_run_keeps_every_wording_of_its_prompts():
    plan = make_plan(configure(*SMALL, "wordings=3"))
    kept = PromptsAsked.of(json.loads(json.dumps(PromptsAsked(plan.grid, plan.strategy).content())))
    assert [each.user for each in kept.grid.wordings] == [each.user for each in plan.grid.wordings]
    assert [kept.grid.prompt(cell) for cell in kept.grid] == [plan.grid.prompt(cell) for cell in plan.grid]
