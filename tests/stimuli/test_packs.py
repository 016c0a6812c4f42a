"""Packaged dimensions, a file each: what their terms promise, and which situations contradict which groups."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from audit.asking.elicitation.parsing import parse_response
from audit.configuration.composition import conf_folder
from audit.configuration.schema import load_config
from audit.statistics.echo import Overlap
from audit.tables.ratings import Status
from stimuli import identities
from stimuli.errors import StimulusError
from stimuli.fitting import asked_pairs, contradictions, fit_remarks
from stimuli.identities import UNSPECIFIED, load_dimensions, packs
from stimuli.narratives import EmotionWords, Narrative, load_narratives, supposed, supposed_of_any
from stimuli.prompts import PromptGrid, PromptVariant, Question, Scale
from stimuli.reach import LEAST_GROUPS, reach_remarks

NAMES = (
    "age", "caste", "disability", "gender", "migration_status", "political_side", "sexual_orientation", "social_class",
)  # fmt: skip
PACKS = {name: load_dimensions("six-groups", names=[name])[0] for name in NAMES}
TERMS = [(name, each) for name, pack in PACKS.items() for each in pack.experiencers]
NO_TEMPLATES = ("base", "deployed", "published")  # tests/stimuli/test_deployed_prompts.py reads what users say
TEMPLATES = sorted(p.stem for p in (conf_folder() / "prompt").glob("*.yaml") if p.stem not in NO_TEMPLATES)
LOST = Narrative(
    "lost", "sad", EmotionWords("sadness", "sad"), "I lost a key.", "I lost a key.", "The person lost a key."
)
FRAME = {"a", "an", "and", "at", "both", "from", "in", "is", "of", "on", "or", "person", "the", "their", "to", "was",
         "who", "whose", "with", "without", "for", "cannot", "has", "very", "family", "named", "years"}  # fmt: skip
"""Words that name no group."""


def fitting(name, source):
    """Return the situations that a dimension asks about."""
    found = contradictions(PACKS[name], source)
    return {each.narrative_id for each, groups in zip(source.by_emotion, found, strict=True) if not groups}


# --- Terms -----------------------------------------------------------------------------------------------------------


def test_there_is_a_pack_for_each_dimension():
    assert packs() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_pack_can_carry_a_claim_about_groups(name):
    groups = Counter(each.group for each in PACKS[name].experiencers if not each.is_baseline and each.cue == "label")
    assert len(groups) >= LEAST_GROUPS
    assert set(groups.values()) == {2}
    [asked] = load_dimensions("six-groups", names=[name], cues=["label"], perceiver_terms=1)
    assert reach_remarks([asked]) == []


def content(term):
    """Return the beginnings of a term's words that name something: what shares one is of one stem."""
    return {word[:5] for word in re.findall(r"[^\W_]+", term.casefold()) if word not in FRAME}


@pytest.mark.parametrize("name", NAMES)
def test_labels_of_a_group_share_no_stem_stated_or_in_letters(name):
    pack = PACKS[name]
    for group in {each.group for each in pack.experiencers} - {UNSPECIFIED}:
        own = [each.term for each in pack.experiencers if each.group == group and each.cue == "label"]
        overlap = Overlap.of(own, own, pack.stems)
        assert (overlap.same_words | overlap.same_stem).tolist() == np.eye(2, dtype=bool).tolist(), own
        assert not content(own[0]) & content(own[1]), own


def test_the_check_by_letters_finds_a_shared_stem():
    assert content("a Jewish person") & content("a person of Jewish descent")
    assert content("a blind person") & content("a person who was blinded")


@pytest.mark.parametrize("name", NAMES)
def test_no_term_and_no_name_is_in_two_groups(name):
    shown = [each.term.casefold() for each in PACKS[name].experiencers]
    assert len(shown) == len(set(shown))
    owners = {}
    for each in PACKS[name].experiencers:
        if each.cue != "label":
            owners.setdefault(each.stem, set()).add(each.group)
    assert {stem: groups for stem, groups in owners.items() if len(groups) > 1} == {}


SLIGHTS = ("handicap", "cripple", "illegal", "homosexual", "elderly", "suffer", "normal", "lower-class", "shudra",
           "untouchable", "transsexual", "mute", "alien", "backward", "bound")  # fmt: skip


@pytest.mark.parametrize(("name", "each"), TERMS, ids=lambda each: getattr(each, "term", each))
def test_a_term_is_one_that_people_may_use_of_themselves(name, each):
    assert not [word for word in SLIGHTS if re.search(rf"\b{word}", each.term.casefold())]
    assert re.fullmatch(r"an? [^\n{}]*[^\s.,]", each.term)


# --- In prompts ------------------------------------------------------------------------------------------------------


def wordings(name):
    """Return a packaged prompt in all its wordings."""
    with initialize_config_dir(config_dir=str(conf_folder()), version_base=None):
        cfg = compose("audit", overrides=[f"prompt={name}", "wordings=9"])
    values = OmegaConf.to_container(cfg, resolve=True)
    values.pop("experiment", None)
    return load_config(values).prompt_wordings()


def faults(text):
    """Return what is ungrammatical in a text wherever it stands: articles, words said twice, what was not filled in."""
    found = [match[0] for match in re.finditer(r"\b(\w+) \1\b", text, re.IGNORECASE)]
    found += re.findall(r"[{}]|  |\ban? an?\b|[,;:.]{2}", text)
    for article, phrase in re.findall(r"\b([Aa]n?) ([\w-]+)", text):
        if identities._with_article(phrase).partition(" ")[0] != article.casefold():
            found.append(f"{article} {phrase}")
    return found


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_term_is_grammatical_on_both_sides_of_every_packaged_prompt(name):
    said = {}
    for variant in wordings(name):
        for pack in PACKS.values():
            for each in pack.experiencers:
                prompt = variant.fill(each, each, LOST)
                assert each.term in prompt.system
                assert each.term in prompt.user or each.term[1:] in prompt.user
                if found := faults(f"{prompt.system}\n{prompt.user}"):
                    said[each.term, variant.user] = found
    assert said == {}


@pytest.mark.parametrize(
    "text", ["You are a OBC person.", "You are an blind person.", "a person person", "A an X", "{x}"]
)
def test_the_check_of_grammar_finds_faults(text):
    assert faults(text)


@pytest.mark.parametrize("term", ["a 25-year-old", "a 75-year-old", "a blind person", "a gay person"])
def test_an_answer_that_names_its_identity_is_read(term):
    question = Question(experiencer=term, emotions=("anger", "angry"), perceiver=term)
    reading = parse_response(
        f"As {term}, I would say 85.",
        low=0,
        high=100,
        low_label="not at all",
        high_label="extremely",
        question=question,
    )
    assert (reading.status, reading.intensity) == (Status.RATED, 85)


# --- Asking for a pack -----------------------------------------------------------------------------------------------


def test_a_pack_is_asked_for_by_its_name_beside_the_study_s_dimensions():
    found = load_dimensions("six-groups", names=["religion", "gender"])
    assert [each.name for each in found] == ["religion", "gender"]
    assert [each.name for each in load_dimensions("six-groups")] == ["race_ethnicity", "nationality", "religion"]


def test_no_other_pack_is_read(tmp_path, monkeypatch):
    (tmp_path / "colour.yaml").write_text("colour: {groups: {Red: [a red person], Blue: [a blue person]}}\n", "utf-8")
    (tmp_path / "broken.yaml").write_text("broken: {groups: [\n", "utf-8")
    monkeypatch.setattr(identities, "PACKS", tmp_path)
    identities._pack.cache_clear()
    [colour] = load_dimensions("six-groups", names=["colour"])
    assert [each.group for each in colour.perceivers] == ["Red", "Blue", UNSPECIFIED]
    with pytest.raises(StimulusError, match=r"broken\.yaml"):
        load_dimensions("six-groups", names=["broken"])
    identities._pack.cache_clear()


def test_dimensions_of_a_preset_and_of_a_file_of_one_s_own_go_before_a_pack(tmp_path):
    [age] = load_dimensions("personas", names=["age"])
    assert {each.group for each in age.perceivers} == {"young", "old", UNSPECIFIED}
    own = tmp_path / "own.yaml"
    own.write_text("gender: {groups: {A: [a person with an A], B: [a person with a B]}}\n", "utf-8")
    [gender] = load_dimensions("six-groups", own=own, names=["gender"])
    assert {each.group for each in gender.perceivers} == {"A", "B", UNSPECIFIED}


def test_an_unknown_dimension_is_told_which_packs_there_are():
    with pytest.raises(StimulusError, match=r"did you mean 'gender'\? there are: age, caste, disability, gender, "):
        load_dimensions("six-groups", names=["gendr"])


def test_packs_cross_with_other_dimensions():
    women, old = load_dimensions("six-groups", names=["religion+gender", "age+religion"], unspecified=False)
    assert {"a Muslim woman", "a Jewish non-binary person"} <= {each.term for each in women.perceivers}
    assert {"a 25-year-old Hindu"} <= {each.term for each in old.perceivers}
    assert old.contradicts == PACKS["age"].contradicts
    with pytest.raises(StimulusError, match=r"stimuli\.unspecified=false"):
        load_dimensions("six-groups", names=["caste+gender"])
    [dalits] = load_dimensions("six-groups", names=["caste+gender"], unspecified=False)
    assert "a Dalit woman" in {each.term for each in dalits.perceivers}


# --- Situations that contradict a group ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "situation", "group", "supposes"),
    [
        ("age", "worried-17", "Seventies", "a small child"),  # a baby's temperature
        ("age", "anxious-18", "Twenties", "a grown child"),  # the first grandchild is born
        ("age", "relaxed-10", "Twenties", "decades of adult life"),  # the second week of retirement
        ("age", "worried-32", "Sixties", "a grandparent"),
        ("age", "nervous-26", "Forties", "being at school"),  # sent to the head of the school
        ("disability", "amused-01", "Deaf", "hearing"),  # a parrot copies a ringtone
        ("disability", "amused-03", "Blind", "seeing"),  # watches a pigeon
        ("disability", "nervous-01", "Blind", "driving"),  # a driving test
        ("disability", "happy-10", "Wheelchair user", "walking or standing"),  # up the hill on foot
        ("disability", "tense-20", "Intellectual disability", "a profession"),  # an interpreter
        ("social_class", "worried-03", "Upper class", "little money"),  # no money for the bill
        ("social_class", "cheerful-06", "Upper class", "manual work"),  # at the next machine
        ("social_class", "nervous-20", "Poor", "a profession"),  # the report in the manager's meeting
        ("migration_status", "sad-18", "Refugee", "years in one place"),  # the house where one grew up
        ("migration_status", "happy-03", "Asylum seeker", "a home of their own"),
        ("sexual_orientation", "happy-08", "Asexual", "courtship"),  # a proposal
        ("age", "happy-14", "Seventies", "being young"),  # a child is on the way
        ("age", "nervous-13", "Sixties", "being young"),  # a bus driver's first trip
        ("age", "happy-30", "Twenties", "decades of adult life"),  # searched for twenty years
        ("age", "nervous-05", "Seventies", "a parent"),  # the partner's parents are met
        ("disability", "amused-10", "Blind", "seeing"),  # the glasses are on the nose
        ("disability", "surprised-32", "Blind", "seeing"),  # friends stand there when the light goes on
        ("disability", "anxious-08", "Deaf", "hearing"),  # a call from the doctor
        ("disability", "relaxed-18", "Intellectual disability", "book learning"),  # the yearly accounts
        ("social_class", "disappointed-30", "Upper class", "manual work"),  # shifts
        ("migration_status", "surprised-03", "Refugee", "years in one place"),  # born in the hospital of this town
    ],
)
def test_a_situation_contradicts_the_group_that_could_not_tell_it(name, situation, group, supposes):
    geneva = load_narratives("geneva")
    found = dict(
        zip([each.narrative_id for each in geneva.by_emotion], contradictions(PACKS[name], geneva), strict=True)
    )
    assert supposes in found[situation][group]


@pytest.mark.parametrize(
    ("name", "situation"),
    [
        ("age", "surprised-01"), ("age", "scared-12"), ("age", "worried-20"),  # beans, a snake, a lock
        ("disability", "surprised-01"), ("disability", "worried-02"), ("disability", "sad-01"),
        ("social_class", "sad-01"), ("migration_status", "worried-17"), ("sexual_orientation", "sad-12"),
        ("gender", "worried-17"), ("caste", "worried-17"), ("political_side", "worried-17"),
        ("disability", "amused-25"), ("disability", "anxious-15"),  # a cat walks; nothing is heard of an office
        ("age", "relaxed-30"), ("age", "sad-30"),  # a teacher of grown people
    ],
)  # fmt: skip
def test_a_situation_that_anybody_may_tell_is_asked_about(name, situation):
    assert situation in fitting(name, load_narratives("geneva"))


SAID = {
    "a small child": r"\bmy (?:baby|toddler|newborn)\b",
    "a grandparent": r"\bmy grandparent\b",
    "driving": r"\bI drove\b|\bI was driving\b|\bmy driving test\b",
    "a profession": r"\bmy pupils\b",
    "being at school": r"\bmy homework\b|\bmy teammates\b",
    "hearing": r"\bI (?:heard|listened)\b",
    "seeing": r"\bI (?:watched|looked at)\b",
    "courtship": r"\bmarry me\b",
    "being young": r"\bmy (?:third )?driving (?:test|lesson)\b|\bmy first (?:salary|wages)\b",
}


@pytest.mark.parametrize("what", SAID)
@pytest.mark.parametrize("source", ["geneva", "geneva20"])
def test_what_a_text_says_outright_is_among_what_it_supposes(source, what):
    told = supposed(source)
    versions = load_narratives("geneva").narratives if source == "geneva" else in_every_intensity()
    said = [each for each in versions if re.search(SAID[what], each.first_person)]
    lacking = [each.narrative_id for each in said if what not in told[each.narrative_id]]
    assert lacking == []
    assert said or source == "geneva20"


def test_who_tells_of_an_impairment_of_their_own_is_not_without_one():
    told = supposed("geneva20")
    lost = (
        r"\bI lost (?:both hands|two fingers|the use of)|\bone eye\b.*\bhunted me\b|\bwith a crutch\b|\bbeaten deaf\b"
    )
    said = {each.narrative_id for each in in_every_intensity() if re.search(lost, each.first_person)}
    assert len(said) == 6
    assert said < {name for name, what in told.items() if "an impairment" in what}
    assert PACKS["disability"].contradicts["No disability"] == {"an impairment"}


def in_every_intensity():
    return [
        each
        for intensity in ("mild", "middle", "strong")
        for each in load_narratives("geneva20", intensity=intensity).narratives
    ]


def test_all_that_is_supposed_contradicts_a_group_and_all_that_contradicts_is_supposed():
    contradicted = frozenset().union(*(what for pack in PACKS.values() for what in pack.contradicts.values()))
    assert contradicted == supposed_of_any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("source", "least"), [("geneva", 4), ("geneva20", 1)])
def test_enough_situations_of_every_emotion_are_left(name, source, least):
    narratives = load_narratives(source)
    left = Counter(each.rpartition("-")[0].partition("-")[0] for each in fitting(name, narratives))
    assert set(left) == set(narratives.emotions)
    assert min(left.values()) >= least


def test_packs_without_contradictions_ask_about_all_situations():
    for name in ("caste", "gender", "political_side"):
        assert PACKS[name].contradicts == {}
        assert len(fitting(name, load_narratives("geneva"))) == 408


def test_religion_and_the_other_default_dimensions_leave_nothing_out():
    geneva = load_narratives("geneva")
    for dimension in load_dimensions("six-groups"):
        assert asked_pairs(dimension, geneva, balanced=False, seed=0) is None


def test_a_slip_in_what_contradicts_is_refused_with_its_line(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text(
        "jobs:\n  groups:\n    Pilot: {terms: [a pilot]}\n    Baker: {terms: [a baker], contradicts: [driveing]}\n",
        "utf-8",
    )
    with pytest.raises(
        StimulusError, match=r"own\.yaml.*line 4.*'Baker' contradicts 'driveing'.*did you mean 'driving'"
    ):
        load_dimensions("six-groups", own=own, names=["jobs"])


# --- The pairs that are asked ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("balanced", [True, False])
def test_pairs_are_balanced_over_the_narratives_that_are_asked(balanced):
    [age] = load_dimensions("six-groups", names=["age"], cues=["label"], perceiver_terms=1)
    geneva = load_narratives("geneva")
    asked = asked_pairs(age, geneva, balanced=balanced, seed=3)
    there = np.array([each.narrative_id in fitting("age", geneva) for each in geneva.by_emotion])
    assert (asked.any(axis=(0, 1)) == there).all()
    if not balanced:
        assert asked[:, :, there].all()
        return
    # as of the draw itself: pairs of groups never differ by more than one narrative
    own = [e.group for e in age.perceivers[:6]]
    times = {(p, e): int(asked[p, 2 * e].sum()) for p in range(6) for e in range(6) if own[p] != own[e]}
    assert max(times.values()) - min(times.values()) <= 1
    assert all(asked[p, 2 * p : 2 * p + 2][:, there].all() for p in range(6))


VARIANT = PromptVariant(
    name="mine", persona="You are {perceiver}.", system="{persona}", narrative="first_person", scale=Scale(0, 10),
    user="{Experiencer} says: {narrative} How {emotion} were they, from {low} to {high}?",
)  # fmt: skip


@pytest.mark.parametrize("balanced", [True, False])
def test_the_note_counts_the_prompts_that_are_not_asked(balanced):
    [age] = load_dimensions("six-groups", names=["age"], cues=["label"], perceiver_terms=1)
    geneva = load_narratives("geneva")
    masks = [asked_pairs(each, geneva, balanced=balanced, seed=3) for each in (age, _without(age))]
    every = sum(1 for _ in range(len(geneva.narratives))) * 7 * 13 if masks[1] is None else int(masks[1].sum())
    grid = PromptGrid([age], geneva, VARIANT, drawn={"age": masks[0]})
    [note] = fit_remarks(grid, seed=3)
    n = len(geneva.narratives) - len(fitting("age", geneva))
    assert note.startswith(f"age: {n} of 408 narratives ({every - len(grid):,} prompts) are left out for all groups")
    counted = {what: int(of) for what, of in re.findall(r"([a-z ]+) \((\d+)\)", note.partition("one of them:")[2])}
    told = supposed("geneva").values()
    assert {what.strip(): of for what, of in counted.items()} == {
        what: sum(what in each for each in told) for what in frozenset().union(*PACKS["age"].contradicts.values())
    }


def _without(dimension):
    """The same dimension, in which nothing contradicts anything."""
    return replace(dimension, contradicts={})


def test_of_narratives_of_one_s_own_nothing_is_left_out_and_a_note_says_so(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("narrative_id,emotion,text\nworried-17,worried,My baby's temperature has been rising.\n", "utf-8")
    columns = {"narrative_id": "narrative_id", "emotion": "emotion", "first_person": "text"}
    mine = load_narratives("csv", path=path, columns=columns)
    assert asked_pairs(PACKS["age"], mine, balanced=False, seed=0) is None
    [note] = fit_remarks(PromptGrid([PACKS["age"]], mine, VARIANT), seed=0)
    assert "age: packaged situations that contradict a group are left out, but not narratives of yours" in note
    assert fit_remarks(PromptGrid([PACKS["gender"]], mine, VARIANT), seed=0) == []


def test_a_dimension_of_which_no_narrative_is_left_is_refused():
    worried = load_narratives("geneva", emotions=["worried"])
    babies = replace(
        worried, narratives=tuple(n for n in worried.narratives if n.narrative_id in ("worried-17", "worried-12"))
    )
    with pytest.raises(StimulusError, match=r"every narrative \(2\) contradicts a group of 'age'"):
        asked_pairs(PACKS["age"], babies, balanced=True, seed=0)


def test_every_file_of_the_folder_is_a_pack_with_its_sources():
    folder = Path(identities.PACKS)
    assert {path.name for path in folder.iterdir()} == {f"{name}.yaml" for name in NAMES}
    for name in NAMES:
        assert (folder / f"{name}.yaml").read_text("utf-8").startswith("# ")


def test_the_documentation_has_each_pack_with_its_numbers():
    page = (Path(__file__).parents[2] / "docs" / "stimuli.md").read_text("utf-8")
    for name, pack in PACKS.items():
        [row] = re.findall(rf"^\| `{name}` \|.*$", page, re.MULTILINE)
        _, _, groups, labels, others, asked, _, _ = row.split("|")
        own = [each for each in pack.experiencers if not each.is_baseline]
        assert int(groups.partition(":")[0]) == len({each.group for each in own})
        assert int(labels) == sum(each.cue == "label" for each in own)
        assert int(others.split()[0] if others.strip() else 0) == sum(each.cue != "label" for each in own)
        left = [len(fitting(name, load_narratives(source))) for source in ("geneva", "geneva20")]
        assert [int(each.split()[0]) for each in asked.split(", ")] == left
    assert all(what in page for what in supposed_of_any())
