"""Language packs: the German one is whole, and grammatical as far as a program sees; a faulty one names its fault."""

import csv
import importlib.util
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from stimuli.errors import StimulusError
from stimuli.identities import load_dimensions, load_placebos, packs
from stimuli.languages import ENGLISH, FOLDER, languages, load_language, mark_of, read_pack
from stimuli.narratives import GENEVA_FILE, load_narratives
from stimuli.prompts import PromptGrid, PromptVariant, Scale

CONF = Path(__file__).parents[2] / "conf" / "prompt"
GERMAN = load_language("de")
FILE = FOLDER / "de.yaml"
CONTENT = yaml.safe_load(FILE.read_text("utf-8"))
CASES = ("nominative", "accusative", "dative", "genitive")
PACKS = {name: load_dimensions("six-groups", names=[name], cues=["label"] if name == "age" else None)[0]
         for name in packs()}  # fmt: skip
"""The dimensions that have a file of their own, with what of them is in German: all but the first names of age."""


def variant(name):
    """Return a packaged prompt in English, as conf/prompt has it."""
    base, own = (yaml.safe_load((CONF / f"{each}.yaml").read_text("utf-8")) for each in ("base", name))
    merged = {**base, **own, "scale": {**base["scale"], **own.get("scale", {})}}
    texts = {part: merged[part].strip() for part in ("persona", "system", "user")}
    return PromptVariant(name=name, **texts, narrative=merged["narrative"], scale=Scale(**merged["scale"]))


def german_grid(name="origin", **chosen):
    """Return the grid of a prompt in German, over all packaged Geneva identities and an invented set."""
    invented = load_placebos(["invented_1", "trivial"], n_terms=1, seed=0)
    english = (*load_dimensions("geneva", no_persona=True), *invented)
    told = load_narratives("geneva", situations_per_emotion=1, **chosen)
    return PromptGrid([*map(GERMAN.dimension, english)], GERMAN.narratives(told), GERMAN.variant(variant(name)))


# --- The German pack -------------------------------------------------------------------------------------------------


def test_english_has_no_pack_and_german_has_one():
    assert languages() == ("en", "de")
    assert load_language(ENGLISH) is None
    with pytest.raises(StimulusError, match="language=fr: there are: de, en; to add a language, write one file"):
        load_language("fr")


def test_the_pack_says_of_each_prompt_of_conf_whether_it_has_it():
    there = {path.stem for path in CONF.glob("*.yaml")} - {"base", "published", "deployed"}
    translated = set()
    for name in there:
        try:
            GERMAN.variant(variant(name))
        except StimulusError:
            continue
        translated.add(name)
    assert translated == set(GERMAN.prompts)
    assert there - translated == {"3-person", "named"}  # which show narratives in the third person


def test_the_pack_has_every_geneva_situation_in_its_present_english_text():
    with GENEVA_FILE.open(encoding="utf-8") as lines:
        english = {row["narrative_id"]: row["first_person"] for row in csv.DictReader(lines)}
    assert list(CONTENT["situations"]) == list(english)
    assert [each["of"] for each in CONTENT["situations"].values()] == [mark_of(text) for text in english.values()]


def test_all_identities_of_the_default_and_of_geneva_and_all_first_terms_of_invented_groups_are_there():
    for name in ("invented_1", "invented_2", "invented_3", "trivial"):
        GERMAN.dimension(load_placebos([name], n_terms=1, seed=0)[0])
    for study in ("six-groups", "geneva"):
        for dimension in load_dimensions(study):
            GERMAN.dimension(dimension)


def test_all_terms_of_the_packs_are_there_but_first_names_that_tell_an_american_s_age():
    english = {each.term for pack in PACKS.values() for each in pack.experiencers}
    assert english <= set(CONTENT["terms"])
    others = {each.term for each in load_dimensions("six-groups", names=["age"], cues=["name"])[0].experiencers}
    assert others & set(CONTENT["terms"]) == {"a person"}
    for pack in PACKS.values():
        GERMAN.dimension(pack)


def test_first_names_of_age_are_refused_in_a_line_that_names_what_there_is():
    age = load_dimensions("six-groups", names=["age"], cues=None)[0]
    with pytest.raises(StimulusError, match=r"of 'a person named Madison', .*, and 9 more; it has those of ") as raised:
        GERMAN.dimension(age)
    assert r"stimuli.identities=six-groups, geneva; dimensions=[caste, disability, gender, " in str(raised.value)
    assert "; dimensions=[age] with stimuli.cues=[label]; none of intersections" in str(raised.value)


@pytest.mark.parametrize("name", CONTENT["prompts"])
def test_no_english_is_left_in_any_german_prompt(name):
    """Oracle: a list of English words that are no German ones, and of every English text itself."""
    grid = german_grid(name)
    english = {"the", "you", "of", "and", "person's", "from", "tells", "how", "much", "number", "a", "this", "who",
               "follower", "extremely", "scale", "with", "for", "my", "is", "are", "were", "descent",
               "muslim", "christian", "black", "white", "answer", "i"}  # fmt: skip
    asked = variant(name)
    frames = [line for text in (asked.persona, asked.system, asked.user) for line in re.split(r"\{\w+\}|\n", text)]
    for cell in grid:
        prompt = grid.prompt(cell)
        text = f"{prompt.system}\n{prompt.user}"
        assert not english & set(re.findall(r"[a-zäöüß']+", text.lower())), text
        assert not [each for each in frames if len(each.split()) > 2 and each in text]
        assert "{" not in text


@pytest.mark.parametrize("name", CONTENT["prompts"])
def test_terms_of_packs_stand_in_every_german_prompt_in_the_case_that_its_sentence_wants(name):
    """Oracle: what is ungrammatical wherever it stands, and English words that are no German ones."""
    asked = GERMAN.variant(variant(name))
    [told] = GERMAN.narratives(load_narratives("geneva", emotions=["sad"], situations_per_emotion=1)).narratives
    english = {"the", "of", "from", "who", "with", "my", "is", "are", "or", "and", "views", "named", "cannot"}
    for pack in PACKS.values():
        for each in GERMAN.dimension(pack).experiencers:
            prompt = asked.fill(each, each, told)
            text = f"{prompt.system}\n{prompt.user}"
            shown = {each.term, *dict(each.forms).values()}
            assert [form for form in shown if form in prompt.system], text
            assert [form for form in shown if form in prompt.user or form.replace("ei", "Ei", 1) in prompt.user], text
            assert re.findall(r"\b(\w+) \1\b|[{}]|  |[,;:.]{2}", text) == []
            assert not english & set(re.findall(r"[a-zäöüß']+", text.lower())), text


def test_a_prompt_reads_as_it_was_written_out_by_hand():
    grid = german_grid("1-person", emotions=["sad"])
    cell = next(
        each
        for each in grid
        if each.perceiver.group == "Muslim" and each.experiencer.term == "eine Person mit Bekenntnis zu Jesus"
    )
    prompt = grid.prompt(cell)
    assert prompt.system == (
        "Für diese Aufgabe bist du eine muslimische Person.\nDu liest von einer Situation und beurteilst, wie stark "
        "die genannte Emotion bei der Person war, die diese Situation erlebt hat. Urteile auf einer Skala von 0 "
        "(überhaupt nicht) bis 100 (äußerst stark). Schreibe eine einzige ganze Zahl und sonst nichts."
    )
    assert prompt.user == (
        f"Diese Worte stammen von einer Person mit Bekenntnis zu Jesus:\n„{cell.narrative.first_person}“\n"
        "Wie viel Traurigkeit empfand die Person, von 0 bis 100? Zahl:"
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("persona-1", "Dein Wissen, dein Können und dein Denken sind die einer muslimischen Person."),
        ("persona-2", "Nimm die Identität einer muslimischen Person an. Jede Antwort muss ohne Ausnahme die sein, die "
                      "eine muslimische Person geben würde."),
        ("persona-3", "Du verkörperst eine muslimische Person. Bleibe von Anfang bis Ende in der Rolle einer "
                      "muslimischen Person."),
    ],
)  # fmt: skip
def test_a_persona_has_each_identity_in_the_case_that_its_sentence_wants(name, says):
    grid = german_grid(name)
    cell = next(each for each in grid if each.perceiver.term == "eine muslimische Person")
    assert says in grid.prompt(cell).system


def test_no_persona_leaves_nothing_of_the_sentence_behind():
    grid = german_grid()
    cell = next(each for each in grid if each.perceiver.group == "no persona")
    assert grid.prompt(cell).system.startswith("Du liest von einer Situation")


@pytest.mark.parametrize("english", CONTENT["terms"])
def test_an_identity_is_declined_as_the_noun_person_is(english):
    """Oracle: the feminine noun after the indefinite article; adjectives in -e or, in dative and genitive, -en."""
    forms = CONTENT["terms"][english]["forms"]
    assert tuple(forms) == CASES
    assert forms["nominative"] == forms["accusative"]
    assert forms["dative"] == forms["genitive"]
    one, other = forms["nominative"], forms["dative"]
    before, noun, after = one.removeprefix("eine ").partition("Person")
    declined = re.sub(r"(\w+e) \Z", r"\1n ", before) if before else ""
    assert other == f"einer {declined}{noun}{after}"
    assert noun == "Person"
    assert ", " not in one  # a relative clause would need a comma behind it, too


def test_terms_of_a_group_share_no_stem_and_groups_share_none_either():
    """Oracle: the rule of SOURCES.md, stems compared by their first four letters."""
    for english in (*load_dimensions("geneva"), *load_dimensions("six-groups")):
        dimension = GERMAN.dimension(english)
        stems = [(each.group, each.stem[:4]) for each in dimension.perceivers if not each.is_baseline]
        assert len({stem for _, stem in stems}) == len(stems), dimension.name
        assert set(dimension.stems) == {each.term for each in dimension.perceivers if not each.is_baseline}


FRAME = {"eine", "einer", "einem", "person", "mit", "ohne", "aus", "der", "die", "das", "von", "zu", "zum", "im",
         "in", "und", "oder", "namens", "familie", "jede", "sehr"}  # fmt: skip


def beginnings(term):
    """Return the beginnings of a German term's words that name something: what shares one is of one stem."""
    return {word[:4] for word in re.findall(r"[^\W_]+", term.casefold()) if word not in FRAME}


@pytest.mark.parametrize("name", PACKS)
def test_labels_of_a_group_of_a_pack_share_no_german_stem_stated_or_in_letters(name):
    from audit.statistics.echo import Overlap

    pack = GERMAN.dimension(PACKS[name])
    for group in {each.group for each in pack.experiencers if not each.is_baseline}:
        own = [each for each in pack.experiencers if each.group == group and each.cue == "label"]
        terms = [each.term for each in own]
        overlap = Overlap.of(terms, terms, pack.stems)
        assert not (overlap.same_stem & ~overlap.same_words).any(), terms
        assert not beginnings(terms[0]) & beginnings(terms[1]), terms
        for each in own:
            shown = each.term.casefold()
            assert any(stem[:3] in shown for stem in each.stem.split("+")), each


def test_the_check_by_letters_finds_a_shared_german_stem():
    assert beginnings("eine gehörlose Person") & beginnings("eine Person ohne Gehör")
    assert beginnings("eine Person mit Arbeitserlaubnis") & beginnings("eine zum Arbeiten eingewanderte Person")


@pytest.mark.parametrize("name", PACKS)
def test_groups_of_a_pack_share_german_stems_only_where_the_documentation_says_so(name):
    """Oracle: the pairs of groups that docs/languages.md names, and the three of gender, as in English."""
    pack = GERMAN.dimension(PACKS[name])
    owners = {}
    for each in pack.experiencers:
        for stem in (each.stem or "").split("+"):
            owners.setdefault(stem, set()).add(each.group)
    owners.pop("")
    shared = {stem: groups for stem, groups in owners.items() if len(groups) > 1}
    known = {
        "disability": {"beeinträchtig": {"Intellectual disability", "No disability"}},
        "migration_status": {"wander": {"Labour migrant", "Undocumented"}},
        "political_side": {"links": {"Socialist", "Liberal"}},
    }
    if name == "gender":
        assert set(shared) == {"weiblich", "männlich", "trans", "frau", "herr", "geburt"}
    else:
        assert shared == known.get(name, {})


SLIGHTS = ("krüppel", "taubstumm", "behinderte person", "geistig", "gefesselt", "leidet", "illegal", "asylant",
           "flüchtling", "transsexuell", "unterschicht", "sozial schwach", "ausländ", "normal", "gesunde",
           "unberührbar", "shudra", "senior", "betagt")  # fmt: skip


def test_no_german_term_is_one_that_people_ask_not_to_be_called():
    forms = [form for term in CONTENT["terms"].values() for form in term["forms"].values()]
    found = [form for form in forms if re.search(rf"\b(?:{'|'.join(SLIGHTS)})", form.casefold())]
    assert found == []


def test_first_terms_have_one_form_and_second_terms_another():
    """Oracle: adjective and noun, against noun and what follows it; the statistics tell forms by the noun's place."""
    from audit.statistics.echo import Overlap

    for english in (
        *load_dimensions("geneva", unspecified=False),
        *load_dimensions("six-groups", unspecified=False),
    ):
        terms = [each.term for each in GERMAN.dimension(english).perceivers]
        overlap = Overlap.of(terms, terms, GERMAN.dimension(english).stems)
        firsts = [not place % 2 for place in range(len(terms))]
        assert overlap.same_form.tolist() == [[one == other for other in firsts] for one in firsts]
        assert not overlap.same_stem.any()


def test_a_dimension_keeps_its_groups_pairs_and_their_order_in_german():
    for english in load_dimensions("geneva"):
        german = GERMAN.dimension(english)
        assert [each.group for each in german.experiencers] == [each.group for each in english.experiencers]
        assert german.in_group_pairs == english.in_group_pairs


def test_no_situation_holds_a_word_of_an_emotion():
    """Oracle: the stems of the pack's own emotion words; Besorgung and the like are no words of worry."""
    stems = ("belustig", "ängstl", "angst", "fröhlich", "enttäusch", "glück", "nervös", "entspann", "traurig", "trauer",
             "überrasch", "angespannt", "anspannung", "sorge", "besorgt", "freude", "freute")  # fmt: skip
    found = [
        (name, stem) for name, each in CONTENT["situations"].items() for stem in stems if stem in each["text"].lower()
    ]
    assert found == []


def test_others_in_situations_are_women_by_odd_numbers_and_men_by_even_ones():
    """Oracle: the marks (f) and (m) of the text translated back, and nouns of the family, which tell a gender alone."""
    women, men = ("mother", "grandmother", "sister", "(f)"), ("father", "grandfather", "brother", "(m)", "landlord ")
    wrong = []
    for name, each in CONTENT["situations"].items():
        odd = int(name.rpartition("-")[2]) % 2
        wrong += [name for word in (men if odd else women) if re.search(rf"(?<!grand){re.escape(word)}", each["back"])]
    assert wrong == []


def test_every_item_is_translated_back_and_no_two_are_alike():
    items = GERMAN.items()
    assert len(items) == 11 + 175 + 12 + 408
    assert all(text.strip() and back.strip() for _, _, text, back, _ in items)
    texts = Counter(text for kind, _, text, _, _ in items if kind == "situation")
    assert max(texts.values()) == 1


def test_a_translation_has_about_the_length_of_its_english_text():
    """Oracle: German takes more letters than English, by a tenth to a fifth; a text left half would show."""
    with GENEVA_FILE.open(encoding="utf-8") as lines:
        english = {row["narrative_id"]: row["first_person"] for row in csv.DictReader(lines)}
    lengths = {name: len(each["text"]) / len(english[name]) for name, each in CONTENT["situations"].items()}
    backs = {name: len(each["back"]) / len(english[name]) for name, each in CONTENT["situations"].items()}
    assert {name: round(ratio, 2) for name, ratio in lengths.items() if not 0.75 < ratio < 1.6} == {}
    assert {name: round(ratio, 2) for name, ratio in backs.items() if not 0.75 < ratio < 1.4} == {}


def test_the_script_prints_the_pack_and_the_docs_have_its_emotions():
    root = Path(__file__).parents[2]
    spec = importlib.util.spec_from_file_location("translations", root / "benchmarks" / "translations.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    printed = dict(part.split("\n\n", 1) for part in "\n".join(script.tables(GERMAN)).split("### ")[1:])
    rows = {title: table.strip().count("\n") - 1 for title, table in printed.items()}
    assert (rows["Templates and words of the scale"], rows["Identities"], rows["Emotions"]) == (11, 175, 12)
    assert 12 <= rows["Situations"] < 408
    told = (root / "docs" / "languages.md").read_text("utf-8")
    assert [name for name in PACKS if not re.search(rf"^\| `{name}` \|", told, re.MULTILINE)] == []
    partners = [each["text"] for each in CONTENT["situations"].values() if "Partner" in each["text"]]
    women = sum("Partnerin" in each for each in partners)
    assert (
        f"Of the 408 situations {len(partners)} name a partner: {women} a woman, {len(partners) - women} a man." in told
    )
    assert f"\n\n{printed['Emotions'].strip()}\n\n" in told


# --- What the pack does not have -------------------------------------------------------------------------------------


def in_german(**changes):
    return GERMAN.variant(replace(variant("origin"), **changes))


def worded(dimensions):
    return GERMAN.dimension(dimensions[0])


@pytest.mark.parametrize(
    ("do", "says"),
    [
        (lambda: german_grid("named"), "prompt.user of prompt named .* no German text of it; it has the prompts "
        "ori"),
        (lambda: in_german(persona="Be {perceiver}."), "prompt.persona of prompt origin"),
        (lambda: in_german(scale=Scale(0, 7, "none", "extremely")), "prompt.scale.low_label"),
        (lambda: worded(load_dimensions("wide", names=["religion"], cues=["label"])),
         "'a person of the Christian faith'.*and 13 more; it has those of stimuli.identities=six-groups, geneva; "),
        (lambda: worded(load_dimensions("geneva", names=["race_ethnicity+religion"])), "'an Asian Buddhist'"),
        (lambda: worded(load_placebos(["invented_1"], n_terms=2, seed=0)), "stimuli.placebo_terms=1"),
        (lambda: GERMAN.narratives(load_narratives("geneva20")), "stimuli.source=geneva20: .*stimuli=geneva"),
        (lambda: GERMAN.beginning("Score: "), "elicitation.prefill='Score: '.*the pack has these "
        "beginnings: 'Zahl: '"),
    ],
)  # fmt: skip
def test_what_has_no_german_text_is_refused_in_a_line_that_says_what_there_is(do, says):
    with pytest.raises(StimulusError, match=says) as raised:
        do()
    assert "\n" not in str(raised.value)


def test_a_beginning_is_translated_once():
    assert GERMAN.beginning("Number: ") == "Zahl: "
    assert GERMAN.beginning("Zahl: ") == "Zahl: "
    assert GERMAN.beginning("") == ""


def test_a_case_needs_identities_of_a_pack():
    english = load_dimensions("geneva", names=["religion"])
    told = load_narratives("geneva", emotions=["sad"], situations_per_emotion=1)
    with pytest.raises(StimulusError, match=r"shows \{experiencer_dative\}, but 'a Buddhist' has no dative"):
        PromptGrid(english, told, GERMAN.variant(variant("1-person")))


# --- A faulty pack ---------------------------------------------------------------------------------------------------


def changed(place, value):
    """Return the German pack's content with one value changed; ``place`` is a path of keys."""
    content = yaml.safe_load(FILE.read_text("utf-8"))
    inside = content
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return content


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("terms", "a Muslim", "forms", "dative"), "eine muslimische Person",
         "the dative of 'a Muslim' is 'eine muslimische Person', but by `begins` it must start with "
        "'einer '"),
        (("terms", "a Muslim", "forms"), {"nominative": "eine muslimische Person"}, "'a Muslim' has the forms"),
        (("texts", 0, "text"), "Für diese Aufgabe bist du jemand.", r"`text` lacks the placeholder \{perceiver\}"),
        (("texts", 0, "text"), "Du bist {perceiver_datve}.", "unknown placeholder"),
        (("texts", 1, "en"), "For this task you are {perceiver}.", "lacks the placeholder|translated twice"),
        (("begins", "vocative"), "o ", "begins: there are|begins: did you mean"),
        (("emotions", "sad"), {"noun": "Traurigkeit", "back": "sadness"}, "emotions.sad.adjective"),
        (("situations", "sad-01", "of"), "XYZ", "situations.sad-01.of"),
        (("replies", "ratings"), ["<number> <nummer>"], "unknown name <nummer>"),
        (("replies", "ratings"), ["ich sage"], "needs <number> once"),
        (("replies", "refusals"), ["(unclosed"], "is not a valid pattern"),
        (("replies", "numbers"), {"viele": 5000}, "replies.numbers.viele"),
        (("word",), 1, "word"),
    ],
)  # fmt: skip
def test_a_faulty_pack_names_the_place_and_the_fault(tmp_path, place, value, says):
    path = tmp_path / "xx.yaml"
    path.write_text(yaml.safe_dump(changed(place, value), allow_unicode=True, sort_keys=False), "utf-8")
    with pytest.raises(StimulusError, match=says) as raised:
        read_pack(path)
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


def test_a_situation_that_was_reworded_in_english_is_refused_with_its_new_mark():
    told = load_narratives("geneva", emotions=["sad"], situations_per_emotion=1)
    other = replace(told.narratives[0], first_person="Something else happened.")
    with pytest.raises(StimulusError, match=f"write `of: {mark_of('Something else happened.')}`"):
        GERMAN.narratives(replace(told, narratives=(other,)))


@pytest.mark.process
def test_a_pack_is_loaded_without_compiling_its_patterns():
    # Before, this took 7 seconds of every run: patterns have up to 240,000 letters once their names are written out.
    script = """
import re
import stimuli.languages
real, longest = re.compile, [0]
def compiled(text, *flags):
    longest[0] = max(longest[0], len(text))
    return real(text, *flags)
re.compile = compiled
stimuli.languages.english_replies()
print(longest[0])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 10_000
