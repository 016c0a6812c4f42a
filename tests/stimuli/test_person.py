"""Whose a narrative's text is: told by the experiencer, or about them with a place for them; others are refused."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path

import pytest

from stimuli.languages import languages, load_language
from stimuli.narratives import geneva20_versions, load_narratives
from stimuli.person import article_before, has_place, in_first_person, placed
from stimuli.yaml_files import read_yaml

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data" / "crowd-envent"
STARTER = ROOT / "audit" / "cli" / "starter"
with Path(__file__).with_name("told.csv").open(encoding="utf-8", newline="") as table:
    TOLD = list(csv.reader(table))[1:]
"""Texts written for the purpose, each with whom it is told by."""


@pytest.mark.parametrize(
    "text",
    [
        "I lost my dog.", "when i lost it", "My dog died.", "Somebody took our car.", "WE LOST OUR HOME",
        "A friend of mine died.", "I’ve been sacked.", "The neighbours' dog bit me and their cat's kittens.",
        "'Cause I missed the dogs' show I cried.", '"You may go," my boss said.', "“I was so happy.”",
        'The letter said "no". I cried.',
        # German
        "Ich habe meinen Hund verloren.", "Mir fiel das Glas aus der Hand.", "Sie nahmen uns das Haus.",
    ],
)  # fmt: skip
def test_a_text_of_the_first_person_is_told_by_the_experiencer(text):
    assert in_first_person(text)


@pytest.mark.parametrize(
    "text",
    [
        "A person lost their dog.", "The person opened a letter.", "{experiencer} opened a letter.",
        'The boss said: "I am done with my work."', "Anna said, 'I am done.'",
        "Die Chefin sagte: „Ich kann nicht mehr.“",
        "Someone cried: «I lost it»", "They fought in World War I.", "A miner worked in a coal mine.",
        "A driver left the I-95.",
        "A firm moved to the US.", "Anna waited, i.e. she stood there.", "Eine Person verlor im Wald ihren Hund.",
        "Die Person wartete am Bahnhof.", "Er hatte den Bus verpasst.", "A colleague had to leave.",
        # The texts that were taken for the experiencer's by their verb, a name, or speech without quotation marks.
        "Yesterday was Anna's birthday, and nobody called her.", "Today was the day on which a man lost his job.",
        "Had Anna known, she would have stayed.", "Did the man lose his dog? He did.",
        "Was geschah: Eine Frau verlor ihren Hund.", "A nurse at Our Lady hospital wept.", "King George I. wept.",
        "Die Chefin sagte: ‚Ich kann nicht mehr.‘", "– I am done, said the boss.", "Boss: I am done with you.",
        # One text in quotation marks is told; what several people say in them is not.
        '"I am done," said Anna. "I am, too," said Tom.', '"I am done." "My boss, too."', "‚Ich‘, sagte er, ‚und du‘",
        'A man read: "I am done.\nI am leaving." He wept.', "Anna wrote “I am done.\n\n“I am leaving.",
    ],
)  # fmt: skip
def test_a_text_about_somebody_is_not(text):
    assert not in_first_person(text)


@pytest.mark.parametrize(("told_by", "text"), TOLD)
def test_texts_written_for_the_purpose_are_told_by_whom_they_are(told_by, text):
    assert in_first_person(text) == (told_by == "experiencer")


@pytest.mark.parametrize(
    "text",
    [
        "Got fired today", "Was standing under a northern lights display", "Didn't return a book from the library",
        "When saw the letter", "Just got a letter", "Wurde heute gekündigt.", "Bin durch die Prüfung gefallen.",
    ],
)  # fmt: skip
def test_a_note_without_a_word_of_the_first_person_is_not_taken_for_the_teller_s(text, prompts):
    assert not in_first_person(text)
    rows = f"narrative_id,emotion,text\nnote,sad,{text}\n"
    code, said, _ = prompts(rows)
    assert (code, "stimuli.check_person=false" in said) == (2, True)
    assert prompts(rows, "stimuli.check_person=false")[0] == 0


@pytest.mark.parametrize(
    "text",
    [
        "A woman shouted at the person behind the counter.", "The person behind the counter shouted at a woman.",
        "The person who had the key was late.", "The person sitting by the door wept.", "Anna told the person all.",
        "Die Person hinter der Theke weinte.", "Die Person, die den Schlüssel hatte, kam nicht.",
        "Anna half der Person im Rollstuhl.", "What the person did.", "The personnel left.",
    ],
)  # fmt: skip
def test_a_person_whom_the_text_tells_from_others_has_no_place_for_the_experiencer(text, prompts):
    assert not has_place(text)
    code, said, _ = prompts(f'narrative_id,emotion,text\none,sad,"{text}"\n', *THIRD)
    assert (code, "but does not name the experiencer" in said) == (2, True)


def test_a_place_is_filled_with_a_capital_where_a_sentence_begins():
    text = '{experiencer} waited. "Where is {experiencer}?" {experiencer}\'s dog barked, and {Experiencer} left.'
    assert placed(text, "a Jew") == 'A Jew waited. "Where is a Jew?" A Jew\'s dog barked, and A Jew left.'
    assert [has_place(each) for each in (text, "The person's dog died.", "Die Person ging.", "A person left.")] == [
        True, True, True, False,
    ]  # fmt: skip
    assert article_before("Then the {experiencer} left.") == "the {experiencer}"
    assert article_before("Then {experiencer} left the {house}.") == ""


# --- What is packaged and published ----------------------------------------------------------------------------------


def test_packaged_texts_are_what_they_are_shown_as():
    for narrative in (*load_narratives("geneva").narratives, *geneva20_versions()):
        assert in_first_person(narrative.first_person), narrative.narrative_id
        assert has_place(narrative.third_person), narrative.narrative_id
        assert not in_first_person(narrative.third_person), narrative.narrative_id


def test_every_language_has_its_words_and_its_situations_are_told_by_them():
    words = read_yaml(ROOT / "stimuli" / "data" / "person.yaml")
    assert set(words) == set(languages())
    for code in languages()[1:]:
        told = [text for kind, _, text, _, _ in load_language(code).items() if kind == "situation"]
        assert told
        assert [text for text in told if not in_first_person(text)] == []


def test_few_published_narratives_would_be_refused_and_docs_say_how_many():
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there")
    rows = []
    for path in sorted(SHARED.glob("*.tsv")):
        with path.open(encoding="utf-8", newline="") as stream:
            rows += list(csv.DictReader(stream, delimiter="\t"))
    refused = {
        "generated_text": sum(not in_first_person(row["generated_text"]) for row in rows),
        "first_person_text": sum(not in_first_person(row["first_person_text"]) for row in rows),
        "third_person_text": sum(not has_place(row["third_person_text"]) for row in rows),
    }
    assert (len(rows), refused) == (1375, {"generated_text": 50, "first_person_text": 0, "third_person_text": 0})
    page = " ".join((ROOT / "docs" / "stimuli.md").read_text().split())
    assert "the check would refuse 50 of the column `generated_text` (3.6%)" in page


def test_the_study_s_own_files_are_not_checked(audit):
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there")
    words = ("stimuli=hou2025", f"stimuli.path={SHARED}", "stimuli.emotions=[anger]", "dimensions=[religion]")
    small = ("stimuli.perceiver_terms=1", "stimuli.experiencer_terms=1", "stimuli.situations_per_emotion=60")
    for prompt in ("origin", "1-person", "3-person"):
        assert audit("prompts", *words, *small, f"prompt={prompt}", "out=p.jsonl") == 0


# --- A user's own ----------------------------------------------------------------------------------------------------

PERSONS = """narrative_id,emotion,text
letter,happy,"A person opened a letter and read that the place at the college was theirs."
cat,sad,"A person came home from work and found the house quiet."
"""
PLACED = PERSONS.replace("A person", "{experiencer}")
THIRD = ("prompt=3-person", "stimuli.columns.third_person=text")
OWN = ("stimuli=csv", "stimuli.path=own.csv", "dimensions=[religion]", "stimuli.placebo=0")


@pytest.fixture
def prompts(audit, capsys):
    """Return a function that writes the prompts of a file: the exit code, what was said, and the prompts."""

    def write(text, *words):
        Path("own.csv").write_text(text, encoding="utf-8")
        code = audit("prompts", *OWN, *words, "out=p.jsonl")
        said = capsys.readouterr().err
        written = [json.loads(line) for line in Path("p.jsonl").read_text().splitlines()] if code == 0 else []
        return code, said, written

    return write


def test_a_text_about_a_person_is_refused_with_remedies_that_work(prompts):
    code, said, _ = prompts(PERSONS)
    assert code == 2
    [line] = said.splitlines()
    assert "own.csv: line 2 (and 1 more of 2 rows): 'A person opened a letter" in line
    for remedy in (*THIRD, "stimuli.check_person=false", "{experiencer}"):
        assert remedy in line
    assert prompts(PERSONS.replace("A person opened", "I opened").replace("A person came", "I came"))[0] == 0
    assert prompts(PLACED, *THIRD)[0] == 0
    code, _, asked = prompts(PERSONS, "stimuli.check_person=false")
    assert code == 0
    assert '"A person opened a letter' in asked[0]["user"]


def test_the_remedy_works_for_a_column_of_any_name(prompts):
    text = PERSONS.replace(",text", ",my text (v2)")
    _, said, _ = prompts(text, 'stimuli.columns.neutral="my text (v2)"')
    remedy = shlex.split(re.search("and add (.*?); if", said)[1])
    assert prompts(text.replace("A person", "{experiencer}"), 'stimuli.columns.neutral="my text (v2)"', *remedy)[0] == 0


def test_one_row_in_many_is_enough_to_be_named(prompts):
    rows = "".join(f'n{place},sad,"I lost it {place} times."\n' for place in range(30))
    code, said, _ = prompts(f"narrative_id,emotion,text\n{rows}anna,sad,Anna lost it.\n")
    assert code == 2
    assert "own.csv: line 32: 'Anna lost it.' is not in the first person" in said


def test_each_row_to_look_at_is_named(prompts):
    rows = "".join(f'n{place},sad,"{"I" if place % 3 else "Anna"} lost it {place} times."\n' for place in range(9))
    code, said, _ = prompts(f"narrative_id,emotion,text\n{rows}")
    assert (code, said.rstrip().rpartition("; ")[2]) == (2, "the others: line 5, line 8")


@pytest.mark.parametrize(
    ("text", "words", "says"),
    [
        (PERSONS, THIRD, "but does not name the experiencer; write {experiencer}"),
        (PERSONS, ("prompt=named", THIRD[1]), "but does not name the experiencer"),
        (PLACED, (), "has {experiencer}, but the prompt shows it as what the experiencer tells; ask such texts by"),
        (PLACED.replace("{exp", "The {exp"), THIRD, "has 'The {experiencer}'; remove the article"),
        (PERSONS.replace("A person", "Eine Person").replace("the house", "im Haus"), (), "is not in the first person"),
    ],
)  # fmt: skip
def test_what_no_prompt_can_ask_of_the_experiencer_is_refused(text, words, says, prompts):
    code, said, _ = prompts(text, *words)
    assert code == 2
    assert says in said


def test_texts_in_german_are_told_by_german_words(prompts):
    german = PERSONS.replace("A person opened", "Ich öffnete").replace("A person came", "Mir kam entgegen, als ich")
    assert prompts(german)[0] == 0


def test_the_place_is_the_experiencer_s_in_every_prompt_that_shows_it(prompts):
    for name in ("3-person", "named"):
        code, said, asked = prompts(PLACED, f"prompt={name}", THIRD[1])
        assert code == 0, said
        for each in asked:
            who = each["experiencer"]
            assert f"{who[0].upper()}{who[1:]} " in each["user"]
            assert "{" not in each["user"]
        first = next(each for each in asked if each["experiencer"] == "a Muslim" and each["narrative_id"] == "letter")
        told = "A Muslim opened a letter and read that the place at the college was theirs."
        question = "\nFrom 0 to 100, how much happiness did the person feel? Number:"
        opening = "This is an account of what happened to a Muslim, put into the third person:\n"
        assert first["user"] == {"3-person": f'{opening}"{told}"{question}', "named": f"{told}{question}"}[name]


def test_a_task_of_replies_has_no_prompt_for_the_third_person_and_names_none(prompts):
    code, said, _ = prompts(PERSONS, "task=reply", "stimuli.columns.first_person=text")
    assert code == 2
    assert "stimuli.check_person=false" in said
    assert "3-person" not in said


def test_in_a_questionnaire_the_person_in_the_place_is_the_one_to_imagine(audit, tmp_path):
    Path("own.csv").write_text(PLACED, encoding="utf-8")
    words = ("task=inventory", *OWN, "stimuli.columns.third_person=text", "prompt=3-person")
    assert audit("prompts", *words, "out=p.jsonl") == 0
    asked = Path("p.jsonl").read_text()
    assert "The person opened a letter" in asked
    assert "{experiencer}" not in asked


# --- The tutorial's and the starter's --------------------------------------------------------------------------------


def test_the_tutorial_s_vignettes_are_told_by_the_experiencer(prompts, audit, capsys):
    page = (ROOT / "docs" / "tutorial-vignettes.md").read_text()
    text = re.search(r"```text vignettes\.csv\n(.*?)```", page, re.DOTALL)[1]
    code, said, asked = prompts(text)
    assert code == 0
    assert asked[0]["user"] == (
        "A Buddhist tells of a situation that brought on happiness:\n"
        '"I opened a letter and read that the place at the college was mine. I ran down the stairs to tell the '
        'neighbours."\nFrom 0 to 100, how much happiness did the person feel? Number:'
    )
    # The same is shown before anything is asked.
    shown = re.sub(r"\n {10}|\n {2}\w+: +", "\n", said.partition("the first prompt:")[2])
    assert asked[0]["user"] in shown
    assert asked[0]["system"] in shown
    assert audit("plan", *OWN, "probe=0", "tokens=0") == 0
    assert '"I opened a letter and read' in capsys.readouterr().err


def test_the_starter_s_vignettes_pass_as_told_and_as_its_explanation_says_of_the_third_person(prompts):
    told = (STARTER / "vignettes.csv").read_text()
    groups = ("stimuli.own_identities=" + str(STARTER / "identities.yaml"), "dimensions=[football]")
    code, _, asked = prompts(told, *groups)
    assert code == 0
    assert asked[0]["user"].startswith(
        'A fan of the Reds tells of a situation that brought on anger:\n"I ran to the bus'
    )
    explained = (STARTER / "README.md").read_text()
    assert all(word in explained for word in THIRD)
    third = 'narrative_id,emotion,text\nbus,angry,"{experiencer} ran to the bus stop in the rain."\n'
    code, _, asked = prompts(third, *groups, *THIRD)
    assert code == 0
    assert '"A fan of the Reds ran to the bus stop' in asked[0]["user"]
