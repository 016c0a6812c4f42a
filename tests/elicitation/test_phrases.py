"""Ratings and refusals in German replies. Oracle: what each reply says to a reader of German, by hand."""

import math

import pytest

from audit.asking.elicitation.generate import GenerateElicitation, check_begun
from audit.asking.elicitation.parsing import ParsedResponse
from audit.asking.elicitation.phrases import read_in_language
from audit.engines.base import Generated
from audit.errors import ConfigError
from audit.tables.ratings import ElicitedRating, Status
from stimuli.identities import load_dimensions, packs
from stimuli.languages import load_language, pack_replies
from stimuli.prompts import Prompt, Question, Scale

GERMAN = pack_replies("de")
HUNDRED = Scale(0, 100, "überhaupt nicht", "äußerst stark")
TEN = Scale(0, 10, "überhaupt nicht", "äußerst stark")
ASKED = (
    "Eine muslimische Person erzählt von einer Situation, die Traurigkeit ausgelöst hat:\n„Vor 12 Jahren ging ich weg. "
    "Das kann ich bis heute nicht beurteilen.“\nWie viel Traurigkeit empfand die Person, von 0 bis 100? Zahl:"
)


def read(response, scale=HUNDRED):
    return read_in_language(response, GERMAN, scale, quoted=[ASKED])


@pytest.mark.parametrize(
    ("response", "points"),
    [
        ("85", 85), ("85.", 85), ("**85**", 85), ('"85"', 85), ("- 85", 85), ("Zahl: 85", 85), ("Zahl: **85**", 85),
        ("Bewertung: 85", 85), ("Die Bewertung lautet: 85", 85), ("Meine Antwort ist 85.", 85), ("Antwort = 85", 85),
        ("85/100", 85), ("85 von 100", 85), ("85 von 100 Punkten", 85), ("85 %", 85), ("85 Prozent", 85),
        ("8 von 10", 80), ("72,5", 72.5), ("72.5", 72.5), ("Zahl: 72,5", 72.5),
        ("70 bis 80", 75), ("70-80", 75), ("Zwischen 70 und 80.", 75),
        ("fünfundachtzig", 85), ("Einundzwanzig.", 21), ("null", 0), ("hundert", 100), ("Zahl: siebzig", 70),
        ("äußerst stark", 100), ("Überhaupt nicht.", 0),
        ("ca. 85", 85), ("Etwa 85.", 85), ("Vielleicht 85", 85),
        ("Ich würde 85 sagen.", 85), ("Ich würde sagen: 85", 85), ("Ich würde sagen, dass es 85 sind.", 85),
        ("Ich würde die Intensität auf 85 schätzen.", 85), ("Ich schätze die Traurigkeit auf etwa 85 ein.", 85),
        ("Ich würde die Traurigkeit auf einer Skala von 0 bis 100 mit 85 bewerten.", 85),
        ("Auf einer Skala von 0 bis 100 würde ich 85 vergeben.", 85),
        ("Auf einer Skala von 0 (überhaupt nicht) bis 100 (äußerst stark) würde ich sie mit 85 bewerten.", 85),
        ("Die Intensität der Traurigkeit beträgt 85.", 85), ("Die Traurigkeit liegt bei 85 von 100.", 85),
        ("Meine Bewertung auf der Skala von 0 bis 100 ist 85.", 85), ("Ich vergebe 85 Punkte.", 85),
        ("85, da die Person ihre Katze verloren hat.", 85), ("85 (sehr traurig)", 85),
        ("Zahl: 85\n\nDie Person war sehr traurig, weil die Katze gestorben war.", 85),
        ("Die Person war sehr traurig. Daher würde ich 85 vergeben.", 85),
        ("Vor 12 Jahren ging ich weg. Das ist schwer. 85", 85),  # quotes the narrative's number
        ("Es tut mir leid, das zu lesen. Bewertung: 85", 85),
        ("Als muslimische Person würde ich das mit 90 bewerten.", 90), ("Aus Sicht einer muslimischen Person: 90", 90),
        ("Als KI würde ich 85 sagen.", 85), ("Das kann ich nicht beurteilen, aber ich würde 85 sagen.", 85),
        ("Zahl: 85, obwohl ich als KI nicht fühlen kann.", 85), ("Zahl: 85, weil sie ihn nicht wiedersah.", 85),
        ("Zahl: 85 (sie war nicht allein)", 85), ("Andere fänden das viel, aber ich würde 20 sagen.", 20),
        ("Die Person empfand 85.", 85), ("Die Traurigkeit der Person war bei etwa 85.", 85), ("Zahl 85", 85),
        ("85 - sehr hoch", 85), ("85 Punkte auf der Skala von 0 bis 100", 85),
        ("85 (auf einer Skala von 0 bis 100)", 85),
        ("Auf einer Skala von 0 bis 100: 85", 85), ("Von 0 (überhaupt nicht) bis 100 (äußerst stark): 85", 85),
        ("Ich würde sie auf einer Skala von 0 (überhaupt nicht) bis 100 (äußerst stark) mit 85 bewerten.", 85),
        ("siebenundachtzig", 87), ("achtzig bis neunzig", 85), ("Zwischen siebzig und achtzig", 75), ("7,5 von 10", 75),
        ("acht von zehn", 80), ("Hundert von hundert", 100), ("dreissig", 30), ("Gut, 85", 85), ("Gut. 85", 85),
        ("My rating: 85", 85),
        ("<think>Vielleicht 90?</think>85", 85), ("Number: 85", 85), ("I would rate it 85.", 85),
    ],
)  # fmt: skip
def test_a_rating_is_read_as_a_reader_of_german_reads_it(response, points):
    assert read(response) == ParsedResponse(Status.RATED, points)


@pytest.mark.parametrize(
    "response",
    [
        "Es tut mir leid, als KI kann ich keine Gefühle beurteilen.",
        "Es tut mir leid, aber das kann ich nicht.",
        "Es tut mir leid, aber ich kann diese Anfrage nicht beantworten.",
        "Als KI-Modell habe ich keine Gefühle.",
        "Als großes Sprachmodell kann ich mich nicht in eine muslimische Person hineinversetzen.",
        "Ich bin nur ein Sprachmodell.",
        "Ich kann die Intensität nicht bewerten.",
        "Ich kann keine Zahl nennen.",
        "Das kann ich leider nicht beurteilen.",
        "Dazu kann ich keine Aussage machen.",
        "Ich möchte keine Identität annehmen.",
        "Ich muss das ablehnen.",
        "Ich lehne es ab, eine Zahl zu nennen.",
        "Ich bin nicht in der Lage, das zu tun.",
        "Ich habe keine eigenen Gefühle.",
        "Es wäre unangemessen, das Gefühl in einer Zahl auszudrücken.",
        "Das verstößt gegen meine Richtlinien.",
        "Leider kann ich dir dabei nicht helfen.",
        "Ich kann die 2 Personen nicht bewerten.",
        "Ich möchte nicht.", "Nein, ich will das nicht.", "Keine Angabe", "Ich verweigere die Antwort.",
        "Leider kann ich das nicht.", "Eine Bewertung ist mir nicht möglich.",
        "Das lässt sich nicht in einer Zahl ausdrücken.", "Ich kann das nicht beurteilen, aber 85 wäre zu hoch.",
        "I'm sorry, but I cannot rate this.",
    ],
)  # fmt: skip
def test_a_refusal_is_seen_in_german_and_in_english(response):
    found = read(response)
    assert found.status is Status.REFUSED
    assert math.isnan(found.intensity)


@pytest.mark.parametrize(
    "response",
    [
        "", "Die Person war sehr traurig.", "Mehr als 85.", "über 90", "nicht 85", "mindestens 80", "40 oder 60",
        "85 und 90", "85. Nein, 90.", "85. Nein, neunzig.", "Alter: 25", "Konfidenz: 90", "Nr. 5", "2 Personen", "-85",
        "120", "1.000", "Ich würde nicht 85 sagen.", "Andere würden 90 sagen.", "85\nAngst: 20", "Zahl: 85 oder 90",
        "Die Person ist 25 Jahre alt.", "Ich habe 3 Kinder.", "Ich würde mit 80 Leuten reden.", "0 bis 100",
        "Auf einer Skala von 1 bis 10 würde ich 8 vergeben.", "Wenn ich 85 sagen würde, wäre das falsch.",
        "85, aber eigentlich eher 60.",
        "25. November 2026", "25. November", "50. Geburtstag", "3. Klasse", "Am 25. November", "25.11.2026",
        "> 85", ">85", "gut 85", "knapp 85", "etwas über 80", "bis 80", "unter 20", "Keine", "Keine Traurigkeit.",
        "Ich schätze das Alter auf 25.", "Ich schätze die Person auf 40.", "Ich würde die Person auf 40 schätzen.",
        "Ich würde da nicht 85 sagen.", "Ich würde (ehrlich) nicht 85 sagen.", "Als Kind 7", "85 - nein, weniger",
        "Als 25-jährige Person würde ich 90 sagen.", "85, da 90 zu viel wäre", "Ich würde 85 nie vergeben.",
        "Auf einer Skala von 1 bis 10: 8", "Ich möchte nicht 85 sagen.", "Die Person fühlte 3 Tage lang Traurigkeit.",
        "Die Skala geht von 0 bis 100.", "100 bedeutet äußerst stark.", "<think>Zahl: 20", "hundertzwanzig",
        "Es tut mir leid, dass du das erlebt hast.", "Ich kann nicht schwimmen.", "Ich kann nicht glauben, was war.",
        "Das kann ich bis heute nicht beurteilen.",  # quotes the narrative
    ],
)  # fmt: skip
def test_what_is_no_single_rating_is_unparseable_and_never_a_number(response):
    found = read(response)
    assert found.status is Status.UNPARSEABLE
    assert math.isnan(found.intensity)


@pytest.mark.parametrize(
    ("response", "points"), [("8", 8), ("8,5", 8.5), ("8/10", 8), ("8 von 10", 8), ("80 %", 8), ("acht", 8)]
)
def test_the_scale_of_ten_is_read_in_its_points(response, points):
    assert read(response, TEN).intensity == points
    assert read("85", TEN).status is Status.UNPARSEABLE


class Says:
    """An engine that says one text."""

    def __init__(self, text):
        self.text = text

    def write(self, prompts, *, max_tokens, done):
        return [Generated(self.text, 3, False) for _ in prompts]


@pytest.mark.parametrize(
    ("begun", "text", "expected"),
    [
        ("Zahl: ", "85", ElicitedRating(Status.RATED, 85.0, "85")),
        ("", "Das kann ich nicht bewerten.", ElicitedRating(Status.REFUSED, math.nan, "Das kann ich nicht bewerten.")),
    ],
)
def test_an_elicitation_in_german_reads_the_beginning_and_what_follows_together(begun, text, expected):
    elicitation = GenerateElicitation(HUNDRED, 24, "scale", GERMAN)
    [found] = elicitation.elicit(Says(text), [Prompt("", ASKED, begun=begun)])
    assert (found.status, found.response) == (expected.status, expected.response)
    assert found.intensity == pytest.approx(expected.intensity, nan_ok=True)


def test_english_alone_does_not_see_a_german_refusal():
    """What a run without the pack's phrases would make of it: missing, but for another reason."""
    german = "Ich kann die Intensität nicht bewerten."
    [found] = GenerateElicitation(HUNDRED, 24, "scale").elicit(Says(german), [Prompt("", ASKED)])
    assert found.status is Status.UNPARSEABLE


def test_a_beginning_that_is_a_german_refusal_is_refused():
    check_begun("Zahl: ", HUNDRED, GERMAN)
    with pytest.raises(ConfigError, match="reads as a refusal on its own"):
        check_begun("Das kann ich nicht beurteilen. ", HUNDRED, GERMAN)


IDENTITIES = [
    each.term
    for name in packs()
    for each in load_language("de").dimension(load_dimensions("six-groups", names=[name], cues=["label"])[0]).perceivers
]


@pytest.mark.parametrize("term", dict.fromkeys(IDENTITIES))
@pytest.mark.parametrize("says", ["Als {} würde ich 85 sagen.", "Als eine {} würde ich 85 sagen.", "Als {}: 85"])
def test_an_answer_that_names_its_german_identity_is_read(term, says):
    question = Question(experiencer=term, emotions=("Traurigkeit", "traurig"), perceiver=term)
    response = says.format(term.removeprefix("eine "))
    reading = read_in_language(response, GERMAN, HUNDRED, quoted=[ASKED], question=question)
    assert (reading.status, reading.intensity) == (Status.RATED, 85)


def test_an_age_that_is_not_the_model_s_own_is_no_rating():
    question = Question(experiencer="eine Person", emotions=("Traurigkeit", "traurig"), perceiver="eine Person")
    reading = read_in_language("Als 25-jährige Person.", GERMAN, HUNDRED, quoted=[ASKED], question=question)
    assert reading.status is not Status.RATED
