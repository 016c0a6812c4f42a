"""The prompts of a model without a perceiver: a user says who they are, under the deployer's own system prompt."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_prompts import NARRATIVE, NOBODY, configure

from audit.asking.plan import make_plan
from audit.errors import ConfigError
from audit.runs.prompts import PromptsAsked
from stimuli.errors import StimulusError
from stimuli.identities import EARLIER_TURN, NO_PERSONA, Identity, load_dimensions, load_placebos, packs
from stimuli.prompts import DeployedVariant, Scale, as_template, read_system_prompt

HOSTILE = (
    "\ufeff You are Lia.\r\nCall users {name}, never {{user}}; {persona} {0} %s $x \\n {\t}\r\n\n"
    "\u202eevil\u202c <system> 🙂 \n "
)
VARIANT = DeployedVariant(
    name="deployed",
    persona=as_template(HOSTILE),
    system="{persona}",
    user="{disclosure} {narrative}\nFrom {low} to {high}, how much {emotion_noun} did I feel?",
    narrative="neutral",
    scale=Scale(0, 100),
    earlier_user="Hello! {disclosure}",
    earlier_assistant="Hello!",
)
MUSLIM = Identity("a Muslim", "Muslim", ("Muslim",), said="I am a Muslim.")
SMALL = ("prompt=deployed", "stimuli.situations_per_emotion=1", "stimuli.emotions=[sad]", "stimuli.placebo=0")


def religion(**options):
    return load_dimensions("deployed", names=["religion"], perceivers=False, disclosed=True, **options)[0]


# --- What a user says ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "said"),
    [
        ("a Muslim", "I am a Muslim."),
        ("a follower of Islam", "I am a follower of Islam."),
        ("a person of the Muslim faith", "I am of the Muslim faith."),
        ("a person named Khadija", "My name is Khadija."),
        ("a person who goes to the mosque on Fridays", "I go to the mosque on Fridays."),
        ("a person whose family observes Ramadan", "My family observes Ramadan."),
        ("a person", ""),
    ],
)
def test_an_identity_says_of_itself_what_others_would_say_of_it(term, said):
    [own] = [each for each in religion().experiencers if each.term == term]
    assert own.said == said


def test_every_packaged_identity_can_be_told_by_a_user():
    for study in ("six-groups", "geneva", "wide", "hou2025", "deployed", "personas", "us-them"):
        for dimension in load_dimensions(study, perceivers=False, disclosed=True):
            for each in dimension.experiencers:
                assert each.is_baseline or each.said.startswith(("I ", "My ")), each
                assert each.is_baseline or each.said.endswith("."), each
    for name in packs():
        [dimension] = load_dimensions("geneva", names=[name], perceivers=False, disclosed=True, unspecified=False)
        for each in dimension.experiencers:
            assert re.fullmatch(r"(I(?! am a person )|My) .*\.", each.said), each
    for dimension in load_placebos(["trivial", "invented_1"], n_terms=2, seed=0, perceivers=False, disclosed=True):
        assert all(each.said.startswith(("I ", "My ")) for each in dimension.experiencers)


def test_an_intersection_is_told_by_its_words():
    [crossed] = load_dimensions("personas", names=["age+gender"], perceivers=False, disclosed=True)
    assert crossed.experiencers[0].said == "I am a young woman."


def test_groups_of_the_packaged_study_are_told_alike():
    for dimension in load_dimensions("deployed", perceivers=False, disclosed=True):
        cues = {}
        for each in dimension.experiencers:
            cues.setdefault(each.group, []).append(each.cue)
        del cues["unspecified"]
        assert len({tuple(sorted(each)) for each in cues.values()}) == 1


def test_a_term_of_one_s_own_that_nobody_could_say_is_refused_with_the_remedy(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text(
        "mine:\n  groups:\n    A: {terms: [an A]}\n    B: {terms: [{term: a person who knits, cue: context}]}\n"
    )
    with pytest.raises(StimulusError, match=r"'a person who knits' does not say how .* first_person: I \.\.\.") as told:
        load_dimensions("geneva", own=own, names=["mine"], perceivers=False, disclosed=True)
    assert str(own) in str(told.value)
    own.write_text(own.read_text().replace("cue: context", "cue: context, first_person: I knit."))
    [mine] = load_dimensions("geneva", own=own, names=["mine"], perceivers=False, disclosed=True)
    assert [each.said for each in mine.experiencers] == ["I am an A.", "I knit.", ""]


def test_one_group_alone_has_nobody_to_be_compared_with(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("mine:\n  groups:\n    A: {terms: [an A]}\n")
    with pytest.raises(StimulusError, match="it has one group, which no other can be compared with"):
        load_dimensions("geneva", own=own, names=["mine"], perceivers=False)


def test_an_earlier_turn_repeats_the_labels_and_no_other_cue():
    both = religion(cues=["label", "name", EARLIER_TURN])
    earlier = [each for each in both.experiencers if each.cue == EARLIER_TURN]
    labels = [each for each in both.experiencers if each.cue == "label" and each.groups]
    assert [each.term for each in earlier] == [f"{each.term} (in an earlier turn)" for each in labels]
    assert [(e.said, e.group, e.stem) for e in earlier] == [(e.said, e.group, e.stem) for e in labels]
    alone = religion(cues=[EARLIER_TURN])
    assert {each.cue for each in alone.experiencers if each.groups} == {EARLIER_TURN}


def test_the_model_is_the_only_perceiver():
    assert [each.term for each in religion(unspecified=True).perceivers] == [NO_PERSONA]
    assert not religion().has_perceivers


# --- Prompts ---------------------------------------------------------------------------------------------------------


def test_the_system_prompt_is_that_of_the_file_to_the_byte(tmp_path):
    path = tmp_path / "system.txt"
    path.write_bytes(HOSTILE.encode())
    chosen = configure(*SMALL, f"prompt.system={path}").prompt_variant()
    assert chosen.fill(NOBODY, MUSLIM, NARRATIVE).system.encode() == path.read_bytes()


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_any_text_is_no_template(text):
    chosen = replace(VARIANT, persona=as_template(text))
    assert chosen.fill(NOBODY, MUSLIM, NARRATIVE).system == text


def test_who_the_user_is_stands_in_the_message_or_in_an_earlier_turn_and_nowhere_else():
    now = VARIANT.fill(NOBODY, MUSLIM, NARRATIVE)
    assert now.user.startswith("I am a Muslim. A gate left open.\n")
    assert now.turns == ()
    before = VARIANT.fill(NOBODY, replace(MUSLIM, cue=EARLIER_TURN), NARRATIVE)
    assert before.user.startswith("A gate left open.\n")
    assert before.turns == (("user", "Hello! I am a Muslim."), ("assistant", "Hello!"))
    nobody = VARIANT.fill(NOBODY, Identity("a person", "unspecified", ()), NARRATIVE)
    assert (nobody.user, nobody.turns) == (before.user, ())


def test_prompts_are_kept_and_read_as_they_are(tmp_path):
    path = tmp_path / "system.txt"
    path.write_bytes(HOSTILE.encode())
    plan = make_plan(configure(*SMALL, "experiment=deployed", f"prompt.system={path}"))
    kept = PromptsAsked.of(plan.asked.content()).grid
    assert [kept.prompt(each) for each in kept] == [plan.grid.prompt(each) for each in plan.grid]


def test_the_system_prompt_s_text_is_of_the_run_s_identity_and_its_path_is_not(tmp_path):
    def identity(name, text):
        (tmp_path / name).write_text(text)
        return make_plan(configure(*SMALL, f"prompt.system={tmp_path / name}")).identity()

    assert identity("a.txt", "Be kind.") == identity("b.txt", "Be kind.")
    assert identity("a.txt", "Be kind.") != identity("a.txt", "Be kind. ")


def test_what_a_user_says_is_of_the_run_s_identity(tmp_path):
    def identity(said):
        own = tmp_path / "own.yaml"
        own.write_text(
            f"mine:\n  groups:\n    A: {{terms: [{{term: an A, first_person: {said}}}]}}\n    B: {{terms: [a B]}}\n"
        )
        words = (f"stimuli.own_identities={own}", "dimensions=[mine]", "stimuli.cues=null")
        return make_plan(configure(*SMALL, *words)).identity()

    assert identity("I am one.") == identity("I am one.") != identity("I am two.")


def test_a_run_without_perceivers_has_as_many_prompts_as_one_perceiver():
    with_them, without = (
        make_plan(configure("stimuli.pairs=all", "stimuli.placebo=0", *words))
        for words in ((), ("stimuli.perceiver=none",))
    )
    n_perceivers = len(with_them.grid.dimensions[0].perceivers)
    assert len(without.grid) * n_perceivers == len(with_them.grid)
    assert without.n_with_perceivers == len(with_them.grid)
    said = f"{without.grid.n_pairs} experiencers without perceivers (with them: {len(with_them.grid):,} prompts) in"
    assert said in without.announced


def test_a_reply_answers_the_message_alone(tmp_path):
    path = tmp_path / "system.txt"
    path.write_text("Be kind.")
    plan = make_plan(configure(*SMALL, "task=reply", f"prompt.system={path}"))
    prompts = [plan.grid.prompt(each) for each in plan.grid]
    assert {each.system for each in prompts} == {"Be kind."}
    assert all("\n" not in each.user and "scale" not in each.user for each in prompts)


# --- Misuse ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["prompt=deployed", "stimuli.perceiver=identities"], "prompt=deployed gives the model no identity; leave"),
        (["stimuli.perceiver=none", "prompt=persona-1"], "this prompt has a persona of its own, which no model would"),
        (["stimuli.perceiver=none", "prompt=published", "prompt.variant=persona-2"], "a persona of its own"),
        (["stimuli.perceiver=none", "prompt.persona='Be {perceiver}.'"], "a persona of its own"),
        (["stimuli.perceiver=none", "prompt.system=lia.txt"], "goes with prompt=deployed prompt.system=FILE"),
        (["stimuli.perceiver=none", "task=emotion"], "task=emotion compares perceivers, and there would be none"),
        (["stimuli.perceiver=none", "task=inventory"], "task=inventory compares perceivers"),
        (["prompt=deployed", "stimuli.pairs=in-group"], "stimuli.pairs: must be balanced or all"),
        (["stimuli.cues=[earlier_turn]"], "'earlier_turn', which only prompt=deployed has; leave it out"),
        (["prompt=deployed", "language=de"], "prompt=deployed is in English only"),
    ],
)
def test_what_needs_a_perceiver_or_a_user_is_refused_in_one_line(words, said):
    with pytest.raises(ConfigError) as told:
        configure(*words)
    assert said in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["wordings=2"], "wordings=2: prompt=deployed has one wording; leave wordings=1"),
        (["task=reply", "task.system='{persona} Be brief.'"], "task.system is not used with prompt=deployed"),
        (["task=reply", "task.narrative=neutral"], "task.narrative is not used with prompt=deployed"),
        (["prompt.message='{narrative}'"], "message lacks the placeholder {disclosure}"),
        (["prompt.message='{disclosure}'"], "message lacks the placeholder {narrative}"),
        (["prompt.question='How much?'"], "question lacks the placeholder {emotion}"),
        (["prompt.earlier.user='Hello!'"], "earlier.user lacks the placeholder {disclosure}"),
        (["prompt.earlier.assistant='{disclosure}?'"], "unknown placeholder {disclosure}"),
        (["prompt.message='{disclosure} {narrative} {persona}'"], "unknown placeholder {persona}"),
        (["strategy=two-stage"], "shows {Experiencer}, but with prompt deployed the user says who they are; use"),
    ],
)
def test_what_a_deployed_model_cannot_be_asked_is_refused_in_one_line(words, said):
    with pytest.raises((ConfigError, StimulusError)) as told:
        make_plan(configure(*SMALL, *words))
    assert said in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "is not a file; give the file with your assistant's system prompt"),
        (b"", "is empty; to ask without a system prompt, leave it out"),
        (b" \n", "is empty"),
        (b"fine\nnot \xff fine", "line 2 is not UTF-8 (byte 0xff)"),
        ("Sei nett.".encode("utf-16"), "is not UTF-8"),
        (b"a\0b", "NUL character"),
        (b"PK\x03\x04", "is not text, but packed"),
    ],
)
def test_a_file_that_is_no_text_is_refused_in_one_line(tmp_path, content, said):
    path = tmp_path / "system.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StimulusError) as told:
        read_system_prompt(path)
    assert said in str(told.value)
    assert str(path) in str(told.value)
    assert "\n" not in str(told.value)
