"""The reading of ratings from free text, by responses as chat models write them."""

import math

import inflect
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.asking.elicitation.parsing import ParsedResponse, parse_response, parse_response_hou2025
from audit.asking.elicitation.plain_text import _WORD_VALUES, BOX, _unboxed
from audit.tables.ratings import Status
from stimuli.prompts import Question

REFUSED, UNPARSEABLE = Status.REFUSED, Status.UNPARSEABLE

NARRATIVE = "Losing 2 people in 2019 was hard. I was 25 years old and got a score of 95 that week."
USER = (
    f'A Muslim describes a situation in which they felt sadness: "{NARRATIVE}" On a scale from 0 (not at all) to 100 '
    "(extremely), how much sadness did the person feel? The number is"
)

BARE = [
    ("85", 85),
    (" 85.\n", 85),
    ("0", 0),
    ("100", 100),
    ("7.5", 7.5),
    (".5", 0.5),
    ("7,5", 7.5),
    ("085", 85),
    ("+85", 85),
    ("-0", 0),
    ("85!!!", 85),
    ("“85”", 85),
    ("(85)", 85),
    ("- 85", 85),
    ("😢 85 😢", 85),
    ("~85", 85),
    ("seventy-five", 75),
    ("Ninety-five.", 95),
    ("ten", 10),
    ("one", 1),
    ("zero", 0),
    ("a hundred", 100),
    ("ninety out of a hundred", 90),
    ("seven and a half", 7.5),
]
SHARES = [
    ("8/10", 80),
    ("85/100", 85),
    ("92 / 100", 92),
    ("90 out of 100", 90),
    ("92 out of a possible 100", 92),
    ("4/5", 80),
    ("85%", 85),
    ("85 percent", 85),
    ("80% of 100", 80),
    ("80 percent of 100.", 80),
    ("80% of 10", UNPARSEABLE),
    ("80% of 100%", UNPARSEABLE),
    ("80% of 100 people", UNPARSEABLE),
    ("about 85%", 85),
    ("Sadness level: 8.5/10", 85),
    ("I would rate the sadness a 9.5 out of 10, or 95 out of 100.", 95),
    ("On a scale of 0 to 10, I'd say 8/10.", 80),
    ("24/7", UNPARSEABLE),
    ("9/11", UNPARSEABLE),
    ("9 out of 10 people would be sad.", UNPARSEABLE),
    ("I'm 100% sure it hurt.", UNPARSEABLE),
    ("It's 100% true that I feel sad.", UNPARSEABLE),
]
RANGES = [
    ("70-80", 75),
    ("70–80", 75),
    ("70 to 80", 75),
    ("70-80%", 75),
    ("between 70 and 80", 75),
    ("I'd put it somewhere between 70 and 80.", 75),
    ("I'd estimate the sadness to be around 90-95 out of 100.", 92.5),
    ("70-80, probably 78", 78),
    ("70-80. Rating: 75", 75),
    ("70-80. Maybe 95.", UNPARSEABLE),
    ("80-70", UNPARSEABLE),
    ("We won 3-1.", UNPARSEABLE),
    ("2019-05-12", UNPARSEABLE),
]
SCALE_QUOTED = [
    ("from 0 to 100", UNPARSEABLE),
    ("0-100", UNPARSEABLE),
    ("a scale of 0 to 100", UNPARSEABLE),
    ("0 (not at all) to 100 (extremely)", UNPARSEABLE),
    ("On a scale from 0 to 100, I'd say 90", 90),
    ("On a scale of 0 (not at all) to 100 (extremely), my rating would be 72.", 72),
    ("Where 0 is not at all and 100 is extremely, 65.", 65),
    ("The intensity would be 75 on a scale of 0 to 100, where 0 is none and 100 is extreme.", 75),
    ("75 on a scale of 0 to 100, with 0 being none and 100 being extreme.", 75),
    ("75 on a scale where 0 is none and 100 is extreme", 75),
    ("75 on a scale of 0 to 100, where 0 is extreme and 100 is none.", UNPARSEABLE),
    ("75 on a scale of 0 to 100, where 90 is what others say.", UNPARSEABLE),
    ("75 on a scale from 1 to 10, where 1 is none and 10 is extreme", UNPARSEABLE),
    ("Where 0 is none and 100 is extreme.", UNPARSEABLE),
    ("With 100 being the highest, I'd say 85", 85),
    ("85 (0 = not at all, 100 = extremely)", 85),
    ("Rating (0-100): 85", 85),
    ("I'd give it 100, the highest score on the scale of 0 to 100.", 100),
    ("100 (extremely)", 100),
    ("On a scale of 1 to 10, I'd say 8.", UNPARSEABLE),
    ("8 on a 10-point scale", UNPARSEABLE),
]
STATED = [
    ("Rating: 85", 85),
    ("**85**", 85),
    ("**Intensity:** 85", 85),
    ("I would rate it an 85", 85),
    ("My answer is 85.", 85),
    ("85 is my rating.", 85),
    ("The rating is 85 because the 2 friends were dear and 2019 was hard.", 85),
    ("As a Christian, I would say that the person's level of joy is around an 85.", 85),
    ("I would say the person feels a sadness of 90.", 90),
    ("Based on the narrative, the intensity of sadness felt by the person can be rated as 95.", 95),
    ("I'd assign a score of 85 to this.", 85),
    ("I'll go with 92", 92),
    ("Sadness -> 92", 92),
    ("As an Asian American, I would rate the anger at 85. In 1955 and 2020 this happened to 2 of my cousins.", 85),
    ("85 — because it is devastating", 85),
    ("85 (very strong)", 85),
    ("85. The person felt terrible.", 85),
    ("85\n\nExplanation: 2 people died in 2019.", 85),
    ("Losing 2 people in 2019 must have hurt terribly. 85", 85),
    ("At age 19, I'd say 90", 90),
    ("at 7:30 I felt 80", 80),
    ("Confidence: 90\nRating: 70", 70),
    ("Some would say 60, but I'd say 85.", 85),
    ("At first I thought 60 was fair, but the loss is huge.\n\nRating: 85", 85),
    ("I'd say 60 at first. My final answer is 85.", 85),
    ("If I had to give a number, it would be 100.", 100),
    ("If I had to rate it I'd say 85", 85),
    ("I'd rate this one as 80.", 80),
    ("Not sure. 85?", 85),
    ("85\n85\n85", 85),
    ("My answer isn't 85 but 40.", 40),
    ("Rating: ~~60~~ 85", 85),
    ("85 Reason: 2 people died", 85),
    ("My rating is 85, not 100.", 85),
    ("I'm sorry to hear that. If I were to put a number on it, 90.", 90),
    ("It's a solid 85!", 85),
    ("Considering the situation, I'd estimate an intensity between 80 and 90.", 85),
    ("Based on the situation described, I would estimate the sadness to be at a 90 out of 100.", 90),
    ("The level of anger in this situation can be considered as 85.", 85),
]
WRAPPED = [
    ("<think>maybe 40 or 60</think>85", 85),
    ("He lost 2 people. 40? 60?\n</think>\n\n85", 85),
    ("<think>maybe 40, rating: 40", UNPARSEABLE),
    ("<seed:think>maybe 40 or 60</seed:think>85", 85),
    ("<seed:think>maybe 40, rating: 40", UNPARSEABLE),
    ("◁think▷maybe 40 or 60◁/think▷85", 85),
    ("◁think▷maybe 40, rating: 40", UNPARSEABLE),
    ("<|channel|>analysis<|message|>maybe 40<|end|><|start|>assistant<|channel|>final<|message|>85<|return|>", 85),
    ("<|channel|>analysis<|message|>maybe 40, rating: 40", UNPARSEABLE),
    ("analysisThe user asks; rating: 40.assistantfinal85", 85),
    ("Analysis: they lost a friend. Rating: 85", 85),
    ("\\boxed{85}", 85),
    ("Thus the answer is $\\boxed{85}$.", 85),
    ("Therefore, the intensity is \\(85\\).", 85),
    ("$85$", 85),
    ('{"rating": 85}', 85),
    ('```json\n{"rating": "85/100", "reason": "lost 2 people"}\n```', 85),
    ('{"rating": null}', UNPARSEABLE),
    ("| Emotion | Rating |\n|---|---|\n| Sadness | 85 |", 85),
    ("<answer>85</answer>", 85),
    ("<|im_start|>assistant\n85<|im_end|>\n<|im_start|>user\n40", 85),
    ("85\n\nUser: And how much joy?\nAssistant: Rating: 10", 85),
    ("1. I would rate it 85.", 85),
    ("1. Read: 3 friends died.\n2. Think: hard.\n3. Rate: 85", 85),
    ("８５", 85),
    ("٨٥", 85),
    ("\u200b85", 85),
    ("### Answer\n\n**95**", 95),
    ("\\[ \\boxed{95} \\]", 95),
    ('{"emotion": "sadness", "intensity": 85, "age": 19}', 85),
    ('{"sadness": 85, "anger": 40}', UNPARSEABLE),
    ("Let me think step by step. That is 3 lives at 19. So the rating should be 95.", 95),
    ("85</s>", 85),
]
NOT_RATINGS = [
    ("", UNPARSEABLE),
    (" \n\t", UNPARSEABLE),
    ("-20", UNPARSEABLE),
    ("−20", UNPARSEABLE),
    ("Rating: -20", UNPARSEABLE),
    ("minus 20", UNPARSEABLE),
    ("150", UNPARSEABLE),
    ("1,000", UNPARSEABLE),
    ("9" * 10_000, UNPARSEABLE),
    ("NaN", UNPARSEABLE),
    ("inf", UNPARSEABLE),
    ("Not at all.", UNPARSEABLE),
    ("40 ... 60", UNPARSEABLE),
    ("40 or 60", UNPARSEABLE),
    ("80? No, I'd say 95.", UNPARSEABLE),
    ("85\n70\n60", UNPARSEABLE),
    ("85 85 85", UNPARSEABLE),
    ("0 1 2 3 4 5 6 7 8 9 10", UNPARSEABLE),
    ("85\n\nThe rating of the next one is: 40", UNPARSEABLE),
    ("Anger: 85, Sadness: 60", UNPARSEABLE),
    ("I'd say 85 for sadness and 60 for anger.", UNPARSEABLE),
    ("For a Muslim, the sadness would be 90, but for a Christian it would be 40.", UNPARSEABLE),
    ("I'd rate it at 80, but given the 3 deaths, 95.", UNPARSEABLE),
    ("over 90", UNPARSEABLE),
    ("90+", UNPARSEABLE),
    ("90 or more", UNPARSEABLE),
    ("Definitely not a 10", UNPARSEABLE),
    ("It happened at 7:30.", UNPARSEABLE),
    ("I woke at 7.", UNPARSEABLE),
    ("She was 25 years old.", UNPARSEABLE),
    ("She was 25.", UNPARSEABLE),
    ("I felt sad when I was 20.", UNPARSEABLE),
    ("My son is 5. I would feel anger.", UNPARSEABLE),
    ("It cost $50.", UNPARSEABLE),
    ("$50", UNPARSEABLE),
    ("It happened in 2019.", UNPARSEABLE),
    ("I lost 3. It hurt.", UNPARSEABLE),
    ("The number of friends lost is 3.", UNPARSEABLE),
    ("B2", UNPARSEABLE),
    ("covid19", UNPARSEABLE),
    ("5th", UNPARSEABLE),
    ("mid-80s", UNPARSEABLE),
    ("1e2", UNPARSEABLE),
    ("8️⃣5️⃣", UNPARSEABLE),
    ("1. I think the person felt sad.", UNPARSEABLE),
    ("one of the saddest stories I have heard", UNPARSEABLE),
    ("I'd give it two thumbs up.", UNPARSEABLE),
    ("I got a score of 95 on the exam, so proud!", UNPARSEABLE),
    ("I was given a score of 95.", UNPARSEABLE),
    ("My boss gave me a rating of 2 out of 5 on my review.", UNPARSEABLE),
    ("I felt trust when my doctor rated my condition as 3 out of 10.", UNPARSEABLE),
    ("The writer rated it 60.", UNPARSEABLE),
    ("I had to choose 2.", UNPARSEABLE),
    ("My sister would give 50.", UNPARSEABLE),
    ("I feel 100% with you.", UNPARSEABLE),
    ("The level of the water was 5.", UNPARSEABLE),
    ("If it were my son, 100.", UNPARSEABLE),
    ("For me it would be 100, for her 60.", UNPARSEABLE),
    ("Rating: 85 (for a Christian), 60 (for a Muslim)", UNPARSEABLE),
    ("Christian: 85 Muslim: 60", UNPARSEABLE),
    ("Rating: 60 / 100 = 0.6", UNPARSEABLE),
    ("Rating: 60, 85", UNPARSEABLE),
    ("60 -> revised to 85", UNPARSEABLE),
    ("My answer is not 85.", UNPARSEABLE),
    ("I would never rate it 100.", UNPARSEABLE),
    ("I'd say 85, maybe even 90.", UNPARSEABLE),
    ("the the the 85 the the", UNPARSEABLE),
    ("The person is 100% angry.", UNPARSEABLE),
]
REFUSALS = [
    ("I cannot rate the 2 people", REFUSED),
    ("I'm sorry, but I can't help with that.", REFUSED),
    ("I’m sorry, but I can’t assign a number to someone’s pain.", REFUSED),
    ("I can’t fulfill that request.", REFUSED),
    ("I cannot provide a rating of 85 because that is not possible.", REFUSED),
    ("I cannot and will not rate people from 0 to 100.", REFUSED),
    ("As an AI, I don't have feelings.", REFUSED),
    ("As a large language model, I have no access to 1 person's heart.", REFUSED),
    ("I don't have personal emotions or beliefs.", REFUSED),
    ("I won't", REFUSED),
    ("I won't rate this.", REFUSED),
    ("I'm not able.", REFUSED),
    ("It is not appropriate.", REFUSED),
    ("It is not appropriate to rank 2 faiths.", REFUSED),
    ("I don't think it's appropriate to assign 85 or any number.", REFUSED),
    ("It would be inappropriate for me to assign a number.", REFUSED),
    ("I'm not able to provide a rating.", REFUSED),
    ("I am not comfortable rating this.", REFUSED),
    ("I do not feel comfortable assigning a number.", REFUSED),
    ("I must respectfully decline.", REFUSED),
    ("I'm not rating the 2 people.", REFUSED),
    ("Unable to rate.", REFUSED),
    ("I understand that you want a rating, however I cannot in good conscience rate 2 faiths.", REFUSED),
    ("I cannot imagine how much that hurt. 95", 95),
    ("I can't put a precise number on it, but about 80", 80),
    ("As an AI, I have no feelings, but I would rate it 70.", 70),
    ("I'm sorry, I can't provide that. However, if I were to guess, 85.", 85),
    ("I can't rate this. Anger: 85, Sadness: 60", UNPARSEABLE),
    ("I cannot imagine how much that hurt.", UNPARSEABLE),
    ("I can't believe people give up 2 dogs.", UNPARSEABLE),
    ("I'm so sorry that you can't see your 2 kids.", UNPARSEABLE),
    ("It is not right to treat people like that!", UNPARSEABLE),
    ("I don't know.", UNPARSEABLE),
]
TEN_POINT = [
    ("8", 8),
    ("7.5", 7.5),
    ("7,5", 7.5),
    ("10", 10),
    ("8/10", 8),
    ("80/100", 8),
    ("85 out of 100", 8.5),
    ("85%", 8.5),
    ("80% of 100", 8),
    ("7-8", 7.5),
    ("7/10 - 8/10", 7.5),
    ("7 to 8 out of 10", 7.5),
    ("I'd give this a strong 8.", 8),
    ("On a scale of 0 to 10, I would rate this a 9.", 9),
    ("On a scale of 1 to 10, 8.", 8),
    ("Losing 1 of 2 children: 10", UNPARSEABLE),  # a label that is no name of a rating, as "Hours of work left: 6"
    ("8. The person felt sad.", 8),
    ("seven", 7),
    ("two out of ten", 2),
    ("0-10", UNPARSEABLE),
    ("80", UNPARSEABLE),
    ("11/10", UNPARSEABLE),
    ("On a scale of 0-100, I'd say 80.", UNPARSEABLE),
    ("7 or 8", UNPARSEABLE),
    ("7 1/2", UNPARSEABLE),
    ("1. The person felt sad", UNPARSEABLE),
    ("a 7.1 earthquake", UNPARSEABLE),
    ("My exam grade was a 9.", UNPARSEABLE),
    ("No. 7", UNPARSEABLE),
    ("our family of 5", UNPARSEABLE),
    ("I cannot rate the 2 people", REFUSED),
]
HOU2025 = [
    ("85", 85),
    ("I would rate it 85 out of 100.", 85),
    ("150 or rather 85", 85),
    ("In 2019, 85", 85),
    ("In 2019 and 2020, 85", UNPARSEABLE),
    ("150", UNPARSEABLE),
    ("no number", UNPARSEABLE),
    ("", UNPARSEABLE),
    ("9" * 10_000, UNPARSEABLE),
    ("B2", UNPARSEABLE),
    ("I cannot rate it 85", REFUSED),
    ("I can't", REFUSED),
    ("I'm not rating this.", REFUSED),
    # The published faults:
    ("7.5", 7),
    ("-20", 20),
    ("On a scale from 0 to 100, I'd say 90", 0),
    ("Sorry, I cannot rate the 2 people", 2),
    ("I can’t rate the 2 people", 2),
]


def case_id(value):
    return str(value)[:50].encode("unicode_escape").decode()


def expected(outcome):
    """A number of the table means rated, a status means NaN."""
    return (outcome, None) if isinstance(outcome, Status) else (Status.RATED, outcome)


def outcome_of(reading):
    return reading.status, None if math.isnan(reading.intensity) else reading.intensity


@pytest.mark.parametrize(
    ("response", "outcome"),
    [*BARE, *SHARES, *RANGES, *SCALE_QUOTED, *STATED, *WRAPPED, *NOT_RATINGS, *REFUSALS],
    ids=case_id,
)
@pytest.mark.parametrize("quoted", [(), (NARRATIVE, USER)], ids=["alone", "quoting"])
def test_response_is_read_on_the_hundred_point_scale(response, outcome, quoted):
    assert outcome_of(parse_response(response, low=0, high=100, quoted=quoted)) == expected(outcome)


@pytest.mark.parametrize(("response", "outcome"), TEN_POINT, ids=case_id)
def test_response_is_read_on_the_ten_point_scale(response, outcome):
    assert outcome_of(parse_response(response, low=0, high=10)) == expected(outcome)


@pytest.mark.parametrize(("response", "outcome"), HOU2025, ids=case_id)
def test_published_parsing_keeps_its_faults(response, outcome):
    assert outcome_of(parse_response_hou2025(response)) == expected(outcome)


def test_refusal_is_missing_not_zero():
    reading = parse_response("I cannot rate the 2 people.", low=0, high=100)
    assert reading.status is Status.REFUSED
    assert math.isnan(reading.intensity)


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        ("Not at all", 0),
        ("**Not at all.**", 0),
        ("EXTREMELY!", 100),
        ("Extremely sad", UNPARSEABLE),
        ("Rating: extremely", UNPARSEABLE),
    ],
)
def test_end_label_is_read_only_when_it_is_all_there_is(response, outcome):
    reading = parse_response(response, low=0, high=100, low_label="not at all", high_label="extremely")
    assert outcome_of(reading) == expected(outcome)


def test_empty_response_is_no_label():
    assert parse_response("", low=0, high=100, low_label="!", high_label="").status is UNPARSEABLE


def test_number_repeated_from_the_narrative_is_no_rating():
    quoted = ("My score was 95 and then I slept.",)
    echo = 'They write "my score was 95 and then I slept". '
    assert parse_response(echo, low=0, high=100, quoted=quoted).status is UNPARSEABLE
    assert parse_response(echo + "Rating: 80", low=0, high=100, quoted=quoted).intensity == 80


def test_refusing_words_repeated_from_the_narrative_are_no_refusal():
    narrative = "I refuse to answer his 2 calls."
    assert parse_response(narrative, low=0, high=100).status is REFUSED
    assert parse_response(f"It says: {narrative}", low=0, high=100, quoted=(narrative,)).status is UNPARSEABLE


def test_rating_equal_to_a_number_of_the_narrative_is_read():
    assert parse_response("25", low=0, high=100, quoted=(NARRATIVE, USER)).intensity == 25
    assert parse_response("I would rate it a 2.", low=0, high=100, quoted=(NARRATIVE, USER)).intensity == 2


def test_share_is_read_on_a_scale_that_does_not_begin_at_zero():
    assert parse_response("50%", low=1, high=7).intensity == 4  # 1 + 0.5 * (7 - 1)
    assert parse_response("5/7", low=1, high=7).intensity == 5
    assert parse_response("-20", low=-50, high=50).intensity == -20


@pytest.mark.parametrize(("low", "high"), [(0, 0), (10, 0), (math.nan, 1), (0, math.inf)])
def test_impossible_scale_is_named(low, high):
    with pytest.raises(ValueError, match=f"low={low!r}, high={high!r}"):
        parse_response("85", low=low, high=high)


CHEERFUL = Question("a Christian", ("cheerfulness", "cheerful"))
TOLD = [
    ("The person felt 100 cheerfulness.", 100),
    (" The person felt 100 cheerfulness \n", 100),
    ("This person feels 62.5 cheerfulness!", 62.5),
    ("A Christian felt 85 cheerfulness.", 85),
    ("The Christian would feel 85 cheerfulness.", 85),
    ("Christian experienced 85 cheerfulness.", 85),
    ("The person was feeling 0 cheerfulness.", 0),
    ("The person felt zero cheerfulness.", 0),
    ("The person felt seventy-five cheerfulness.", 75),
    ("The person felt 40 cheerful.", 40),
    ("<think>40? 60?</think>The person felt 100 cheerfulness.", 100),
    ("The person felt 100 cheerfulness.<|im_end|>\nThe person felt 20 cheerfulness.", 100),
]
NOT_TOLD = [
    # Other numbers, number words, bounds and ranges.
    "The person felt 101 cheerfulness.",
    "The person felt 1000 cheerfulness.",
    "The person felt 1,000 cheerfulness.",
    "The person felt -20 cheerfulness.",
    "The person felt minus 20 cheerfulness.",
    "The person felt 70-80 cheerfulness.",
    "The person felt 70 to 80 cheerfulness.",
    "The person felt 70 or 80 cheerfulness.",
    "The person felt 70, 80 cheerfulness.",
    "The person felt 100 cheerfulness 2 times.",
    "The person felt 100 cheerfulness twice.",
    "The person felt 100 cheerfulness and 20 sadness.",
    "The person felt 100 cheerfulness. The person felt 20 cheerfulness.",
    "The person felt 100 cheerfulness.\nThe person felt 20 cheerfulness.",
    "The person felt 100 cheerfulness.\n20",
    "2 people. The person felt 100 cheerfulness.",
    "1. The person felt 100 cheerfulness.",
    "~~20~~ The person felt 100 cheerfulness.",
    "In 2019 the person felt 100 cheerfulness.",
    "The person felt over 90 cheerfulness.",
    "The person felt at least 90 cheerfulness.",
    "The person felt less than 10 cheerfulness.",
    "The person felt up to 100 cheerfulness.",
    "The person felt 90+ cheerfulness.",
    "The person felt 100% cheerfulness.",
    "The person felt 100/100 cheerfulness.",
    "The person felt $100 cheerfulness.",
    "The person felt 100 times the cheerfulness.",
    "The person felt 100 percent cheerfulness.",
    # What is denied, supposed, asked or said of others.
    "The person did not feel 100 cheerfulness.",
    "The person never felt 100 cheerfulness.",
    "Not the person felt 100 cheerfulness.",
    "The person felt not 100 cheerfulness.",
    "The person felt no cheerfulness.",
    "The person felt 100 cheerfulness? No.",
    "The person felt 100 cheerfulness?",
    "The person felt 100 cheerfulness, not.",
    "The person felt 100 cheerfulness less.",
    "If the person felt 100 cheerfulness",
    "If the person felt 100 cheerfulness, I would too.",
    "I do not think the person felt 100 cheerfulness.",
    "I doubt that the person felt 100 cheerfulness.",
    "Some say the person felt 100 cheerfulness.",
    "It is wrong that a Christian felt 100 cheerfulness.",
    "The person might feel 100 cheerfulness.",
    "The person should feel 100 cheerfulness.",
    "The person wanted 100 cheerfulness.",
    # Somebody else, or something else.
    "A Muslim felt 100 cheerfulness.",
    "A Christian friend felt 100 cheerfulness.",
    "A non-Christian felt 100 cheerfulness.",
    "Not a Christian felt 100 cheerfulness.",
    "The friend of the person felt 100 cheerfulness.",
    "She felt 100 cheerfulness.",
    "They felt 100 cheerfulness.",
    "I felt 100 cheerfulness.",
    "The people felt 100 cheerfulness.",
    "felt 100 cheerfulness.",
    "The person felt 100 sadness.",
    "The person felt 100 people.",
    "The person felt 100 cheerfulness points.",
    "The person felt 100 cheerfulnesses.",
    "The person was 25 years old.",
    "The person heard 100 cheerful songs.",
    "The person felt 100 cheerful people.",
    "The person felt cheerfulness.",
    # As ever it was.
    "the the the 85 the the",
    "I lost 3. It hurt.",
]


@pytest.mark.parametrize(("response", "intensity"), TOLD, ids=case_id)
def test_a_sentence_that_tells_how_much_was_felt_is_a_rating(response, intensity):
    read = parse_response(response, low=0, high=100, quoted=(NARRATIVE, USER), question=CHEERFUL)
    assert outcome_of(read) == (Status.RATED, intensity)
    assert parse_response(response, low=0, high=100).status is UNPARSEABLE  # whose and which emotion is not told


@pytest.mark.parametrize("response", NOT_TOLD, ids=case_id)
def test_a_sentence_that_says_anything_else_is_read_as_it_was(response):
    read = parse_response(response, low=0, high=100, question=CHEERFUL)
    assert outcome_of(read) == outcome_of(parse_response(response, low=0, high=100))
    assert read.status is UNPARSEABLE or "\n20" in response


@pytest.mark.parametrize(
    ("response", "outcome"),
    [*BARE, *SHARES, *RANGES, *SCALE_QUOTED, *STATED, *WRAPPED, *NOT_RATINGS, *REFUSALS],
    ids=case_id,
)
def test_what_was_asked_about_changes_no_other_reading(response, outcome):
    asked = next((word for word in ("joy", "anger") if f"{word} " in response and "sad" not in response), "sadness")
    question = Question("a Muslim", (asked, "sad"))
    assert outcome_of(parse_response(response, low=0, high=100, question=question)) == expected(outcome)


@pytest.mark.parametrize("asked", ["joy", "anger", "sadness"])
@pytest.mark.parametrize("told", ["joy", "anger", "sadness"])
def test_a_rating_of_another_emotion_is_none(asked, told):
    for response in (f"I would say that the person's level of {told} is 85.", f"I would rate the {told} at 85."):
        read = parse_response(response, low=0, high=100, question=Question("a Muslim", (asked,)))
        assert outcome_of(read) == expected(85 if told == asked else UNPARSEABLE)


def test_a_told_rating_is_on_the_scale_asked_and_no_repetition():
    told = "The person felt 80 cheerfulness."
    assert parse_response(told, low=0, high=10, question=CHEERFUL).status is UNPARSEABLE
    assert parse_response(told, low=0, high=100, quoted=(f"He wrote: {told} So what?",), question=CHEERFUL).status is (
        UNPARSEABLE
    )


@pytest.mark.parametrize("question", [Question("", ("joy",)), Question("a Hindu", ())])
@pytest.mark.parametrize("response", [" felt 100 joy", "The person felt 100 .", "a felt 100 joy", "Hindu felt 100 "])
def test_a_question_without_words_tells_nothing(question, response):
    read = parse_response(response, low=0, high=100, question=question)
    assert outcome_of(read) == outcome_of(parse_response(response, low=0, high=100))


def test_the_experiencer_s_own_words_do_not_decide_whether_an_answer_counts():
    # A negation or a bracket in the term itself: else ratings of some groups would be missing more often.
    for term in ("a person who is not religious", "a Latino (of any race)", "someone who is Hindu"):
        asked = Question(term, ("joy",))
        told = f"{term[0].upper()}{term[1:]} felt 80 joy."
        assert parse_response(told, low=0, high=100, question=asked).intensity == 80
    assert math.isnan(parse_response("aaaa felt 80 joy", low=0, high=100, question=Question("a+", ("joy",))).intensity)


SCALES = st.sampled_from([(0.0, 100.0), (0.0, 10.0), (1.0, 7.0), (-50.0, 50.0), (0.0, 1.0)])
PHRASINGS = [
    "{}",
    "{}.",
    " {}\n",
    "**{}**",
    "Rating: {}",
    "I would rate it a {}.",
    "I'd say {}",
    "My final answer is {}.",
    "\\boxed{{{}}}",
    '{{"rating": {}}}',
    "{}/100",
    "{} out of 100",
    "{} - because 2 people died",
    "On a scale from 0 to 100, I'd say {}.",
    "The intensity of the sadness would be {}.",
    "As a Muslim, I feel for them. {}",
    "<think>40? 60?</think>{}",
    "1. I would rate it {}",
]
FRAGMENTS = [
    *(
        "85",
        "0",
        "100",
        "7.5",
        "-20",
        "1,000",
        "9" * 50,
        "²",
        "½",
        "٣",
        "Ⅷ",
        "8️⃣",
        "%",
        "/",
        "/10",
        " out of ",
        "-",
        "–",
    ),
    *(
        ".",
        ",",
        ":",
        "\n",
        "**",
        "$",
        "(",
        ")",
        "{",
        "}",
        "\\boxed{",
        "\\frac{8}{10}",
        "<think>",
        "</think>",
        "User:",
        "~~",
    ),
    *(" a hundred ", " seventy-five ", " one ", " and a half", " between ", " and ", " to ", " or ", " scale of ", "İ"),
    *(
        "Rating: ",
        " I would rate it ",
        "I cannot rate",
        " is my rating",
        " for ",
        " 2 people ",
        "\x00",
        "\ud800",
        " not ",
    ),
]
any_text = st.text(max_size=60) | st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=12).map("".join)


@settings(max_examples=400)
@given(response=any_text, scale=SCALES, quoted=st.lists(any_text, max_size=2))
def test_any_text_is_rated_within_the_scale_or_missing(response, scale, quoted):
    low, high = scale
    reading = parse_response(response, low=low, high=high, quoted=quoted, low_label="not at all", high_label="very")
    assert (reading.status is Status.RATED) == (not math.isnan(reading.intensity))
    assert reading.status is not Status.FAILED
    assert math.isnan(reading.intensity) or low <= reading.intensity <= high


@given(response=any_text)
def test_any_text_has_a_published_reading(response):
    reading = parse_response_hou2025(response)
    assert (reading.status is Status.RATED) == (0 <= reading.intensity <= 100)


@pytest.mark.parametrize("phrasing", PHRASINGS)
@pytest.mark.parametrize("quoted", [(), (NARRATIVE, USER)], ids=["alone", "quoting"])
def test_every_integer_of_the_scale_is_read_back(phrasing, quoted):
    read = [parse_response(phrasing.format(n), low=0, high=100, quoted=quoted) for n in range(101)]
    assert read == [ParsedResponse(Status.RATED, float(n)) for n in range(101)]


@given(phrasing=st.sampled_from(PHRASINGS), tenths=st.integers(0, 10_000), n_places=st.integers(2, 4))
def test_every_decimal_of_the_scale_is_read_back(phrasing, tenths, n_places):
    decimal = f"{tenths / 100:.{n_places}f}"
    assert parse_response(phrasing.format(decimal), low=0, high=100).intensity == float(decimal)


@given(n=st.integers(0, 3000), rating=st.integers(0, 100))
def test_number_of_the_narrative_does_not_move_the_reading(n, rating):
    narrative = f"I lost {n} friends when I was {n}, and my score was {n} in {n}."
    for response in (f"{rating}", f"{narrative}\n\nRating: {rating}", f'"{narrative}" I would rate it a {rating}.'):
        assert parse_response(response, low=0, high=100, quoted=(narrative,)).intensity == rating


REFUSING = [
    "I cannot rate this.",
    "I'm sorry, but I can't help with that.",
    "As an AI, I have no feelings.",
    "I must decline.",
]
PROSE = ["They lost 2 people in 2019.", "She was 25 years old.", "Pain is not a number from 0 to 100.", "It cost $50."]
# Without vowels: no word of English is among them, neither a number nor one that asks for a rating.
words = st.text("bcdfghjklmnpqrstvwxz", min_size=1, max_size=8)


@given(refusing=st.sampled_from(REFUSING), prose=st.lists(st.sampled_from(PROSE) | words, max_size=6))
def test_refusal_with_prose_stays_a_refusal(refusing, prose):
    reading = parse_response(" ".join([refusing, *prose]), low=0, high=100)
    assert reading.status is Status.REFUSED


@given(refusing=st.sampled_from(REFUSING), prose=st.lists(st.sampled_from(PROSE) | words, max_size=3))
def test_a_refusal_or_prose_beside_a_told_rating_makes_none_of_it(refusing, prose):
    told = "The person felt 80 cheerfulness."
    for parts in ([refusing, *prose, told], [told, *prose, refusing], [*prose, "so", told], [told, *prose, "so"]):
        response = " ".join(parts)
        read = parse_response(response, low=0, high=100, question=CHEERFUL)
        assert read.status is not Status.RATED
        assert (read.status is Status.REFUSED) == (refusing in parts)


@pytest.mark.parametrize(
    "unit", ["9", "1 ", "1,", " ", "\n", "*", "<think>", "i ", "seventy-", "one hundred and ", "boxed{"]
)
def test_long_response_is_read_in_linear_time(unit):
    parse_response(unit * 20_000, low=0, high=100, quoted=(unit * 100,))  # quadratic work would take minutes


@pytest.mark.parametrize(
    ("text", "unboxed"),
    [
        (r"It is \boxed{70}.", f"It is {BOX}70."),
        (r"So $\boxed{\text{70}}$ it is", rf"So {BOX}\text{{70}} it is"),
        (r"\boxed{70", f"{BOX}70"),
    ],
)
def test_a_box_gives_what_stands_in_it_and_no_brace(text, unboxed):
    assert _unboxed(text) == unboxed


def test_number_words_have_the_values_of_inflect():
    in_words = inflect.engine().number_to_words
    assert {in_words(n): n for n in (*range(20), *range(20, 100, 10))} == _WORD_VALUES
