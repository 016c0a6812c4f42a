"""Prompt variants, packaged, own and published; and the grid that crosses them with identities and narratives."""

from __future__ import annotations

import sys
import time
import tracemalloc
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from audit.configuration.composition import conf_folder
from audit.configuration.schema import load_config
from audit.errors import ConfigError
from stimuli.errors import StimulusError
from stimuli.identities import NO_PERSONA, UNSPECIFIED, Dimension, Identity, load_dimensions
from stimuli.narratives import EmotionWords, Narrative, Narratives, load_narratives
from stimuli.prompts import (
    PUBLISHED_VARIANTS,
    VALUE_NAMES,
    Prompt,
    PromptGrid,
    PromptVariant,
    Scale,
    read_published_variant,
)

CONF = conf_folder()
TEMPLATES = sorted(p.stem for p in (CONF / "prompt").glob("*.yaml") if p.stem not in ("base", "published", "deployed"))

LATINA = Identity("a Latina", "Hispanic/Latino", ("Hispanic/Latino",))
HINDU = Identity("a Hindu", "Hindu", ("Hindu",))
NOBODY = Identity(NO_PERSONA, NO_PERSONA, ())
NARRATIVE = Narrative(
    narrative_id="gate-01",
    emotion="angry",
    words=EmotionWords("anger", "angry"),
    neutral="A gate left open.",
    first_person="I left a gate open.",
    third_person="The person left a gate open.",
)
VARIANT = PromptVariant(
    name="plain",
    persona="You are {perceiver}.",
    system="{persona}\nRate from {low} ({low_label}) to {high} ({high_label}).",
    user="{Experiencer} says: {narrative} How much {emotion_noun} has {experiencer}?",
    narrative="neutral",
    scale=Scale(0, 100),
)


def variant(**changes):
    return replace(VARIANT, **changes)


def configure(*overrides):
    """Compose a configuration as ``python -m audit`` does."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        values = OmegaConf.to_container(compose("audit", list(overrides)), resolve=True, throw_on_missing=True)
    values.pop("experiment", None)
    return load_config(values)


@cache
def packaged(name):
    return configure(f"prompt={name}").prompt_variant()


# --- The packaged variants -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_packaged_variant_composes_and_fills(name):
    chosen = packaged(name)
    assert chosen.name == name
    prompt = chosen.fill(LATINA, HINDU, NARRATIVE)
    assert "a Latina" in prompt.system
    assert prompt.user.lower().count("a hindu") == 1
    assert "a Latina" not in prompt.user
    assert "Hindu" not in prompt.system
    assert ("angry" if name == "adjective" else "anger") in prompt.user
    for text in (prompt.system, prompt.user):
        assert text == text.strip()
        assert not set("{}") & set(text)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_packaged_variant_without_a_persona_is_the_same_but_for_the_sentence(name):
    chosen = packaged(name)
    sentence = chosen.persona.format(perceiver="a Latina")
    with_persona, without = (chosen.fill(p, HINDU, NARRATIVE) for p in (LATINA, NOBODY))
    assert without.user == with_persona.user
    assert without.system == with_persona.system.replace(sentence, "").strip()
    assert NO_PERSONA not in without.system
    assert "  " not in without.system


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_packaged_variant_names_both_ends_of_its_scale(name):
    chosen = packaged(name)
    assert (chosen.scale.low, chosen.scale.high) == (0, 10 if name == "scale-10" else 100)
    prompt = chosen.fill(LATINA, HINDU, NARRATIVE)
    assert f"from 0 (not at all) to {chosen.scale.high} (extremely)" in prompt.system
    assert f"From 0 to {chosen.scale.high}" in prompt.user


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_packaged_variant_shows_the_perspective_that_it_is_named_after(name):
    shown = {
        "1-person": NARRATIVE.first_person,
        "3-person": NARRATIVE.third_person,
        "named": "A Hindu left a gate open.",
    }
    assert shown.get(name, NARRATIVE.neutral) in packaged(name).fill(LATINA, HINDU, NARRATIVE).user


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_packaged_variant_fits_the_packaged_stimuli(name):
    grid = PromptGrid(load_dimensions("geneva"), load_narratives("geneva"), packaged(name))
    assert len(grid) == 408 * 3 * 81  # 4 groups of 2 terms and the baseline, on each side
    prompts = {grid.prompt(grid[i]) for i in range(0, len(grid), 997)}
    assert len(prompts) == len(range(0, len(grid), 997))


def test_packaged_variants_have_different_texts():
    assert len(TEMPLATES) >= 9
    assert len({packaged(name).sha256 for name in TEMPLATES}) == len(TEMPLATES)


# --- Filling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_variant_s_values_are_what_its_templates_are_filled_with(name):
    chosen = packaged(name)
    for perceiver, persona in ((LATINA, chosen.persona.format(perceiver="a Latina")), (NOBODY, "")):
        values = chosen.values(perceiver, HINDU, NARRATIVE)
        assert values.keys() == VALUE_NAMES
        assert (values["perceiver"], values["persona"]) == (perceiver.term, persona)
        prompt = chosen.fill(perceiver, HINDU, NARRATIVE)
        assert prompt == Prompt(chosen.system.format(**values).strip(), chosen.user.format(**values), turns=())


def test_every_placeholder_is_filled_with_its_own_value():
    full = variant(
        system="{persona}|{low}|{high}|{low_label}|{high_label}|{emotion}|{emotion_noun}|{emotion_adjective}",
        user="{experiencer}|{Experiencer}|{narrative}|{Narrative}|{emotion}|{emotion_noun}|{emotion_adjective}|{low}",
        narrative="third_person",
        scale=Scale(1, 7, "none", "all"),
    )
    prompt = full.fill(LATINA, HINDU, replace(NARRATIVE, emotion="anger!"))
    assert prompt.system == "You are a Latina.|1|7|none|all|anger!|anger|angry"
    assert prompt.user == (
        "a Hindu|A Hindu|The person left a gate open.|A Hindu left a gate open.|anger!|anger|angry|1"
    )


def test_no_persona_drops_the_sentence_and_its_line():
    assert VARIANT.fill(NOBODY, HINDU, NARRATIVE).system == "Rate from 0 (not at all) to 100 (extremely)."
    assert VARIANT.fill(LATINA, HINDU, NARRATIVE).system.startswith("You are a Latina.\nRate")


def test_the_unspecified_perceiver_is_a_person_not_nobody():
    person = Identity("a person", UNSPECIFIED, ())
    assert VARIANT.fill(person, person, NARRATIVE).system.startswith("You are a person.\n")


def test_noun_and_adjective_are_the_narrative_s_own():
    scared = replace(NARRATIVE, emotion="scared", words=EmotionWords("fear", "scared"))
    user = "{experiencer} {narrative} How much {emotion_noun}, how {emotion_adjective}, {emotion}?"
    assert variant(user=user).fill(LATINA, HINDU, scared).user.endswith("How much fear, how scared, scared?")


def test_the_experiencer_takes_the_place_of_the_person_once():
    named = variant(user="{Narrative} {emotion}", narrative="third_person")
    text = "The person saw The person's coat, and they took it."
    filled = named.fill(LATINA, LATINA, replace(NARRATIVE, third_person=text)).user
    assert filled == "A Latina saw The person's coat, and they took it. angry"


def test_only_the_first_letter_is_raised():
    odd = Identity("émigré from the US", "x", ("x",))
    assert (
        variant(user="{Experiencer} {narrative} {emotion}")
        .fill(LATINA, odd, NARRATIVE)
        .user.startswith("Émigré from the US ")
    )


HOSTILE = [
    "{perceiver.__class__}",
    "{experiencer.__init__.__globals__}",
    "{0}",
    "{}",
    "{",
    "}}",
    "{{persona}}",
    "{persona}",
    "%s %(low)s ${HOME} $(id)",
    "{narrative!r:>100000000}",
    "\\N{BULLET}",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_braces_in_narratives_and_identities_stay_literal(text):
    odd = Identity(text, "odd", ("odd",))
    narrative = replace(NARRATIVE, neutral=text, emotion=text, words=EmotionWords(text, text))
    shown = variant(
        system="{persona} / {emotion_noun} / {low_label}",
        user="{experiencer} / {narrative} / {emotion} / {emotion_adjective}",
        scale=Scale(0, 9, text, text),
    ).fill(odd, odd, narrative)
    assert shown.system == f"You are {text}. / {text} / {text}"
    assert shown.user == f"{text} / {text} / {text} / {text}"


@given(st.text(), st.text(min_size=1), st.text(min_size=1))
def test_any_text_is_shown_as_it_is(text, perceiver, experiencer):
    shown = variant(system="{persona}", user="{experiencer}\n{narrative}\n{emotion}").fill(
        Identity(perceiver, "x", ("x",)), Identity(experiencer, "y", ("y",)), replace(NARRATIVE, neutral=text)
    )
    assert shown.system == f"You are {perceiver}."
    assert shown.user == f"{experiencer}\n{text}\nangry"


def test_the_hash_of_a_variant_changes_with_everything_that_it_shows():
    changes = [
        {},
        {"persona": "Be {perceiver}."},
        {"system": "{persona} Rate."},
        {"user": "{experiencer} {narrative} {emotion}"},
        {"narrative": "first_person"},
        {"scale": Scale(0, 10)},
        {"scale": Scale(0, 100, "nothing")},
    ]
    hashes = [variant(**change).sha256 for change in changes]
    assert len(set(hashes)) == len(changes)
    assert variant().sha256 == hashes[0]


# --- Templates that cannot be used ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"persona": "You are somebody."}, ["persona", "lacks", "{perceiver}"]),
        ({"persona": "You are {experiencer}."}, ["persona", "{experiencer}", "perceiver"]),
        ({"system": "Rate."}, ["system", "lacks", "{persona}"]),
        ({"system": "{persona} {narrative}"}, ["system", "unknown placeholder {narrative}"]),
        ({"user": "{experiencer} {emotion}"}, ["user", "lacks", "{narrative} or {Narrative}"]),
        ({"user": "{narrative} {emotion}"}, ["user", "lacks", "{experiencer}"]),
        ({"user": "{narrative} {experiencer}"}, ["system or user", "lacks", "{emotion}"]),
        ({"user": "{narative} {experiencer}"}, ["{narative}", "did you mean 'narrative'?"]),
        ({"user": "{narrative} {experiencer} {perceiver}"}, ["user", "{perceiver}"]),
        ({"user": "{narrative.neutral} {experiencer}"}, ["{narrative.neutral}"]),
        ({"user": "{narrative[0]} {experiencer}"}, ["{narrative[0]}"]),
        ({"user": "{narrative!r} {experiencer}"}, ["{narrative!r}"]),
        ({"user": "{narrative:>99} {experiencer}"}, ["{narrative:>99}"]),
        ({"user": "{narrative:{low}} {experiencer}"}, ["{narrative:{low}}"]),
        ({"user": "{} {narrative} {experiencer}"}, ["unknown placeholder {}"]),
        ({"user": "{0} {narrative} {experiencer}"}, ["unknown placeholder {0}"]),
        ({"user": "{narrative} {experiencer"}, ["user", "{{ and }}"]),
        ({"user": "{narrative} experiencer}"}, ["user", "{{ and }}"]),
        ({"narrative": "first person"}, ["'first person'", "did you mean 'first_person'?"]),
        ({"user": "{Narrative} {emotion}"}, ["{Narrative} needs narrative: third_person"]),
    ],
)
def test_a_faulty_template_is_named(changes, words):
    with pytest.raises(StimulusError) as caught:
        variant(**changes)
    for word in ["prompt plain", *words]:
        assert word in str(caught.value)


def test_the_emotion_may_stand_in_the_system_message_alone():
    asked = variant(system="{persona} Rate {emotion}.", user="{experiencer}: {narrative}")
    assert asked.fill(LATINA, HINDU, NARRATIVE).system.endswith("Rate angry.")
    assert asked.emotion_fields == {"emotion"}


def test_doubled_braces_are_shown_as_braces():
    assert (
        variant(user="{{x}} {experiencer} {narrative} {emotion}").fill(LATINA, HINDU, NARRATIVE).user.startswith("{x} ")
    )


@pytest.mark.parametrize(("low", "high"), [(5, 5), (10, 0), (-1, 5), (0, 1001)])
def test_a_scale_that_can_not_be_is_named(low, high):
    with pytest.raises(StimulusError, match=f"low={low} and high={high}"):
        Scale(low, high)


# --- The study's wording, from a copy of its const.py (here in invented words) ----------------------------------------

INVENTED = '''
"""Stands in for the study's file: its names, our words."""
import os
LIMITS = UNDEFINED_NAME + 1
persona_prompt_0 = "Be {persona}."
persona_prompt_1 = "Think as {persona} thinks, " + "and know what " "{persona} knows."
persona_prompt_2 = ("Stay {persona} "
                    + "to the end" + ".")
persona_prompt_3: str = "Play {persona}, {{always}}."
system_prompt_0 = """{persona_prompt}
Grade 0 to 100.
"""
system_prompt_1 = "{persona_prompt}\\nGrade 0 to 10."
crowd_enVent_user_input = "{experiencer} told us of {emotion}: <{sent}> Grade: "
crowd_enVent_user_input_1_person = crowd_other = "{experiencer} in their own words of {emotion}: <{sent}>"
crowd_enVent_user_input_3_person = "{experiencer}, as others tell it, of {emotion}: <{sent}>"
questions = [1, {"a": "b"}]
def prompt(x):
    persona_prompt_0 = "not at the level of the module {persona}"
    return x
class Other:
    system_prompt_0 = "nor this {persona_prompt}"
'''


@pytest.fixture
def const(tmp_path):
    """Write a const.py and return it."""

    def to_file(content=INVENTED):
        path = tmp_path / "const.py"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return to_file


def published(const, name, content=INVENTED):
    return read_published_variant(name, const(content)).fill(LATINA, HINDU, NARRATIVE)


@pytest.mark.parametrize(
    ("name", "persona", "user"),
    [
        ("origin", "Be a Latina.", "a Hindu told us of anger: <A gate left open.> Grade: "),
        (
            "persona-1",
            "Think as a Latina thinks, and know what a Latina knows.",
            "a Hindu told us of anger: <A gate left open.> Grade: ",
        ),
        ("persona-2", "Stay a Latina to the end.", "a Hindu told us of anger: <A gate left open.> Grade: "),
        ("persona-3", "Play a Latina, {always}.", "a Hindu told us of anger: <A gate left open.> Grade: "),
        ("1-person", "Be a Latina.", "a Hindu in their own words of anger: <I left a gate open.>"),
        ("3-person", "Be a Latina.", "a Hindu, as others tell it, of anger: <The person left a gate open.>"),
    ],
)
def test_a_published_variant_is_word_for_word_that_of_the_file(const, name, persona, user):
    prompt = published(const, name)
    assert prompt.system == f"{persona}\nGrade 0 to 100.\n"
    assert prompt.user == user


def test_the_published_10_scale_is_the_second_system_message(const):
    chosen = read_published_variant("10-scale", const())
    assert (chosen.scale.low, chosen.scale.high, chosen.name) == (0, 10, "published-10-scale")
    assert chosen.fill(LATINA, HINDU, NARRATIVE).system == "Be a Latina.\nGrade 0 to 10."


@pytest.mark.parametrize("name", PUBLISHED_VARIANTS)
def test_every_published_variant_has_its_own_name_scale_and_perspective(const, name):
    chosen = read_published_variant(name, const())
    assert chosen.name == f"published-{name}"
    assert chosen.scale.high == (10 if name == "10-scale" else 100)
    assert chosen.narrative == {"1-person": "first_person", "3-person": "third_person"}.get(name, "neutral")


def test_the_study_has_seven_variants():
    assert PUBLISHED_VARIANTS == ("origin", "persona-1", "persona-2", "persona-3", "1-person", "3-person", "10-scale")


def test_no_persona_drops_the_published_sentence(const):
    chosen = read_published_variant("origin", const())
    assert chosen.fill(NOBODY, HINDU, NARRATIVE).system == "Grade 0 to 100."


def test_the_file_is_never_run(const, tmp_path):
    harm = f"""
import pathlib
mark = pathlib.Path({str(tmp_path)!r}) / "harm"
mark.touch()
class Harm:
    mark.touch()
def harm(x=mark.touch()): ...
@(lambda f: mark.touch())
def more(): ...
word = f"{{mark.touch()}}"
raise SystemExit(3)
while True:
    pass
"""
    before = set(sys.modules)
    assert published(const, "origin", harm + INVENTED) == published(const, "origin")
    assert not (tmp_path / "harm").exists()
    assert "const" not in set(sys.modules) - before


def test_a_file_with_odd_escapes_is_read_without_a_warning(const):
    assert published(const, "origin", INVENTED + "\npattern = '\\d+'\n") == published(const, "origin")


def test_a_string_beyond_the_level_of_the_module_does_not_count(const):
    content = INVENTED.replace('persona_prompt_0 = "Be {persona}."', "")
    with pytest.raises(StimulusError, match="no module-level string 'persona_prompt_0'"):
        read_published_variant("origin", const(content))


@pytest.mark.parametrize(
    "change",
    [
        "persona_prompt_0 = persona_prompt_0.strip()",
        "persona_prompt_0 += ' And more.'",
        "persona_prompt_0 = f'Be {LIMITS}.'",
        "persona_prompt_0 = 'Be ' + name",
        "persona_prompt_0 = None",
    ],
)
def test_a_string_that_the_file_changes_later_is_not_taken_for_the_wording(const, change):
    with pytest.raises(StimulusError, match="no module-level string 'persona_prompt_0'"):
        read_published_variant("origin", const(f"{INVENTED}\n{change}\n"))


def test_a_string_that_is_given_twice_is_the_last_one(const):
    assert published(const, "origin", f"{INVENTED}\npersona_prompt_0 = 'I am {{persona}}.'\n").system.startswith(
        "I am a L"
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(
            INVENTED.replace("system_prompt_0", "system_promt_0"),
            ["'system_prompt_0'", "variant origin", "did you mean 'system_promt_0'?"],
            id="missing name",
        ),
        pytest.param("", ["'persona_prompt_0'", "there are none"], id="empty file"),
        pytest.param("persona_prompt_0 = (", ["not Python", "line 1"], id="not Python"),
        pytest.param("emotion\ttext_id\nanger\t215\n", ["not Python"], id="a table"),
        pytest.param("x = '\x00'", ["line 1 has a NUL character"], id="null bytes"),
        pytest.param("x = " + "(" * 5000, ["not Python"], id="brackets without end"),
        pytest.param(b"# caf\xe9\n", ["line 1 is not UTF-8"], id="Latin-1"),
        pytest.param(
            INVENTED.replace("Be {persona}.", "Be {who}."),
            ["persona_prompt_0", "{who}", "persona"],
            id="odd placeholder",
        ),
        pytest.param(
            INVENTED.replace("Be {persona}.", "Be {persona.__class__}."),
            ["persona_prompt_0", "{persona.__class__}"],
            id="attribute of a placeholder",
        ),
        pytest.param(INVENTED.replace("<{sent}> Grade", "Grade"), ["user", "{narrative}"], id="no narrative"),
        pytest.param(INVENTED.replace("Be {persona}.", "Be {persona."), ["persona_prompt_0"], id="a brace left open"),
    ],
)
def test_a_faulty_const_file_is_named(const, content, words):
    path = const(content)
    with pytest.raises(StimulusError) as caught:
        read_published_variant("origin", path)
    message = str(caught.value)
    assert "const.py" in message or "published-origin" in message
    for word in words:
        assert word in message
    assert message.count(str(path)) <= 1


def test_a_missing_const_file_and_an_unknown_variant_are_named(tmp_path, const):
    with pytest.raises(StimulusError, match=r"prompt\.path=.*absent\.py is not a file"):
        read_published_variant("origin", tmp_path / "absent.py")
    with pytest.raises(StimulusError, match=r"'scale-10'.*did you mean '10-scale'\?"):
        read_published_variant("scale-10", const())


# --- The grid --------------------------------------------------------------------------------------------------------


def identities(prefix, n, *, baseline=True):
    named = [Identity(f"a {prefix}{i}", f"{prefix}{i}", (f"{prefix}{i}",)) for i in range(n)]
    return (*named, Identity("a person", UNSPECIFIED, ())) if baseline else tuple(named)


def dimension(name, n_perceivers, n_experiencers):
    return Dimension(
        name,
        identities("p", n_perceivers, baseline=False),
        identities("e", n_experiencers, baseline=False),
        (frozenset(),),
        {},
    )


def narratives(n, n_emotions=3):
    """Make n narratives whose emotions alternate, so that the grid must bring them together."""
    words = EmotionWords("anger", "angry")
    rows = [
        Narrative(f"n{i}", f"emotion {i % n_emotions}", words, f"Text {i}.", "", f"The person {i}.") for i in range(n)
    ]
    return Narratives("csv", tuple(rows), n, "0" * 64)


SIZES = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3)


@given(SIZES, st.integers(1, 7), st.integers(1, 4))
def test_every_pair_meets_every_narrative_exactly_once_in_the_stated_order(sizes, n_narratives, n_emotions):
    dimensions = [dimension(f"d{k}", p, e) for k, (p, e) in enumerate(sizes)]
    source = narratives(n_narratives, n_emotions)
    grid = PromptGrid(dimensions, source, VARIANT)
    expected = [
        (d.name, p.term, e.term, n.narrative_id)
        for d in dimensions
        for p in d.perceivers
        for e in d.experiencers
        for emotion in source.emotions
        for n in source.narratives
        if n.emotion == emotion
    ]
    cells = list(grid)
    assert [
        (c.dimension.name, c.perceiver.term, c.experiencer.term, c.narrative.narrative_id) for c in cells
    ] == expected
    assert [c.index for c in cells] == list(range(len(grid)))
    assert len(grid) == len(expected) == n_narratives * grid.n_pairs
    assert list(reversed(grid)) == cells[::-1]
    assert [grid[i] for i in range(-len(grid), 0)] == cells


@given(st.integers(-30, 30) | st.none(), st.integers(-30, 30) | st.none(), st.sampled_from([None, 1, 2, 7, -1, -3]))
def test_a_slice_is_the_list_s(start, stop, step):
    grid = PromptGrid([dimension("d", 2, 3)], narratives(4), VARIANT)
    assert grid[start:stop:step] == list(grid)[start:stop:step]


@pytest.mark.parametrize("index", [24, 25, -25, 10**9, -(10**9)])
def test_an_index_beyond_the_grid_is_an_error(index):
    grid = PromptGrid([dimension("d", 2, 3)], narratives(4), VARIANT)
    with pytest.raises(IndexError, match=f"{index} of 24"):
        grid[index]


def test_an_index_of_numpy_will_do():
    grid = PromptGrid([dimension("d", 2, 3)], narratives(4), VARIANT)
    assert grid[np.int64(23)] == grid[-1] == list(grid)[-1]


def test_a_grid_of_no_dimensions_is_empty():
    grid = PromptGrid([], narratives(4), VARIANT)
    assert (len(grid), list(grid), grid.n_pairs) == (0, [], 0)


def test_a_grid_s_prompt_is_the_variant_s():
    grid = PromptGrid([dimension("d", 2, 3)], narratives(4), VARIANT)
    cell = grid[5]
    assert grid.prompt(cell) == VARIANT.fill(cell.perceiver, cell.experiencer, cell.narrative)


def test_the_study_s_design_has_its_published_size():
    # (5+1)² × 6,050 = 217,800; (18+1)² × 6,050 = 2,184,050; (21+1)² × 6,050 = 2,928,200
    source = narratives(6_050, 12)
    sizes = {d.name: len(PromptGrid([d], source, VARIANT)) for d in load_dimensions("hou2025")}
    assert sizes == {"religion": 217_800, "race_ethnicity": 2_184_050, "nationality": 2_928_200}


def test_37_million_prompts_take_no_memory_and_no_time():
    source, dimensions = narratives(6_050, 12), load_dimensions("hou2025") * 7
    tracemalloc.start()
    try:
        grid = PromptGrid(dimensions, source, VARIANT)
        assert len(grid) == 37_310_350  # 7 x 5,330,050, as in protocols.md
        places = [0, 1, len(grid) // 2, len(grid) - 1, *range(0, len(grid), 40_000)]
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        for place in places:
            assert grid[place].index == place
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert before < 1_000_000  # the grid holds one reference to each narrative and identity
    assert peak - before < 50_000
    start = time.perf_counter()
    for place in places:
        grid[place]
    assert (time.perf_counter() - start) / len(places) < 200e-6  # takes about 2 µs
    last = grid[len(grid) - 1]
    assert (last.perceiver.group, last.experiencer.group, last.narrative.narrative_id) == (
        UNSPECIFIED,
        UNSPECIFIED,
        "n6047",
    )


def test_building_a_grid_takes_time_in_proportion_to_its_narratives():
    source = narratives(30_000, 12)
    start = time.perf_counter()
    PromptGrid([dimension("d", 2, 2)], source, VARIANT)
    assert time.perf_counter() - start < 3  # takes about 0.02 s; comparing every pair took 40 s


# --- Stimuli that do not fit the variant -----------------------------------------------------------------------------


def test_a_wording_that_the_narratives_lack_is_named():
    with pytest.raises(StimulusError, match=r"prompt plain shows the first_person wording, which 4 of 4 .*'n0'"):
        PromptGrid([dimension("d", 2, 2)], narratives(4), variant(narrative="first_person"))


@pytest.mark.parametrize("kind", ["noun", "adjective"])
def test_an_emotion_word_that_the_narratives_lack_is_named(kind):
    source = narratives(4)
    rows = tuple(replace(n, words=replace(n.words, **{kind: ""})) for n in source.narratives)
    source = replace(source, narratives=rows)
    asked = variant(user=f"{{experiencer}} {{narrative}} {{emotion_{kind}}}")
    with pytest.raises(StimulusError, match=rf"{{emotion_{kind}}}, but the emotion 'emotion 0' has no {kind}"):
        PromptGrid([dimension("d", 2, 2)], source, asked)
    assert len(PromptGrid([dimension("d", 2, 2)], source, variant(user="{experiencer} {narrative} {emotion}"))) == 16


def test_of_two_emotion_words_that_are_lacking_the_first_by_name_is_named():
    source = narratives(4)
    rows = tuple(replace(n, words=EmotionWords("", "")) for n in source.narratives)
    asked = variant(user="{experiencer} {narrative} {emotion_noun} {emotion_adjective}")
    with pytest.raises(StimulusError, match=r"{emotion_adjective}, but the emotion 'emotion 0' has no adjective"):
        PromptGrid([dimension("d", 2, 2)], replace(source, narratives=rows), asked)


def test_a_text_in_which_the_experiencer_can_not_be_the_subject_is_named():
    source = narratives(4)
    rows = (*source.narratives[:3], replace(source.narratives[3], third_person="They left."))
    named = variant(user="{Narrative} {emotion}", narrative="third_person")
    assert len(PromptGrid([dimension("d", 2, 2)], source, named)) == 16
    with pytest.raises(StimulusError, match="third_person text of 'n3' does not begin"):
        PromptGrid([dimension("d", 2, 2)], replace(source, narratives=rows), named)


def test_the_published_variant_needs_the_path_of_the_file():
    with pytest.raises(ConfigError, match=r"prompt\.path: const\.py"):
        configure("prompt=published").prompt_variant()


def test_the_published_variant_is_read_through_the_configuration(const):
    config = configure("prompt=published", f"prompt.path={const()}", "prompt.variant=3-person")
    assert config.prompt_variant() == read_published_variant("3-person", const())
