import numpy as np
import pytest
from engines.test_classifier import one_at_a_time, write_classifier

from audit.errors import ModelAbsentError, ModelError
from audit.tasks.measures.base import Reply
from audit.tasks.measures.regard import IdentityMask, open_regard
from stimuli.identities import load_dimensions

CLASSES = ("negative", "neutral", "positive", "other")
SHARES = (0.1, 0.2, 0.6, 0.1)
# regard 0.6 − 0.1, then positive, negative, neutral, other
SCORES = [0.5, 0.6, 0.1, 0.2, 0.1]
TERMS = ["a Muslim", "a Black person", "an American"]
PACKAGED = [(study, d.name) for study in ("geneva", "hou2025") for d in load_dimensions(study)]
CROSSED = [
    ("geneva", "race_ethnicity+religion"),
    ("geneva", "nationality+religion"),
    ("hou2025", "nationality+religion"),
]


def terms_of(study, name):
    [dimension] = load_dimensions(study, names=[name], no_persona=True)
    return [identity.term for identity in dimension.perceivers]


def write_regard(folder, *, labels=CLASSES, shares=SHARES):
    return str(write_classifier(folder, labels, bias=np.log(shares).tolist()))


# --- What is masked --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("As a Muslim, I know.", "As XYZ, I know."),
        ("Muslims and a MUSLIM's friend", "XYZ and XYZ's friend"),
        ("As an American I know.", "As XYZ I know."),
        ("The American dream; americans", "XYZ dream; XYZ"),
        ("a Black person, Black people, black persons", "XYZ, XYZ, XYZ"),
        ("a Black woman spoke", "XYZ woman spoke"),
        ("a Black Muslim, a black-American", "XYZ, XYZ"),
        ("Black, American", "XYZ, XYZ"),
        ("Blackberry, unAmerican, Muslimah", "Blackberry, unAmerican, Muslimah"),
        ("A person, a woman, people.", "A person, a woman, people."),
    ],
)
def test_identities_are_masked_as_whole_words_in_any_case_and_number(text, masked):
    assert IdentityMask(TERMS)(text) == masked


@pytest.mark.parametrize(
    ("term", "text", "masked"),
    [
        ("a person from the United States", "people from the United States of old", "XYZ of old"),
        (
            "a person from the United States",
            "United we stand; he left the United States",
            "United we stand; he left XYZ",
        ),
        ("a person from China", "China, and a person from there", "XYZ, and a person from there"),
        ("a fan of the Reds", "Fans of the Reds; the Reds; a fan", "XYZ; XYZ; a fan"),
        ("a Hindu from India", "Indian Hindus in India", "Indian XYZ in XYZ"),
        ("a person who is deaf", "Who is it? Deaf people", "Who is it? XYZ people"),
        ("a member of the Jewish community", "your community, Jewish or not", "your community, XYZ or not"),
        ("an 80-year-old", "80 year olds; a year", "XYZ; a year"),
        ("a Frenchman", "Frenchmen, a man", "XYZ, a man"),
        ("a Roma Gypsy", "the Gypsies", "XYZ"),
        ("a child of Sri Lankans", "children of Sri Lankans", "XYZ"),
        ("US", "the US and us", "XYZ and us"),
        ("C++ (old)", "C++ (old)!", "XYZ!"),
        ("a person", "a person", "a person"),
        ("no persona", "no persona, no", "no persona, no"),
        ("a woman", "a woman", "a woman"),
        ("", "a text", "a text"),
    ],
)
def test_of_a_term_its_wording_and_what_tells_it_is_masked(term, text, masked):
    assert IdentityMask([term])(text) == masked


_FRAME = {"a", "an", "the", "person", "from", "of", "descent", "follower", "United", "Kingdom", "States"}


@pytest.mark.parametrize(("study", "name"), PACKAGED + CROSSED)
def test_replies_that_differ_in_a_packaged_identity_alone_become_the_same(study, name):
    terms = terms_of(study, name)
    mask = IdentityMask(terms)
    named = [term for term in terms if term not in ("a person", "no persona")]
    said = {mask(f"As {term}, I know. {term.capitalize()} feels it, {term.upper()}'s way.") for term in named}
    assert said == {"As XYZ, I know. XYZ feels it, XYZ's way."}
    for term in named:  # nor does a word of it remain where the article or the noun is another
        for word in set(term.split()) - _FRAME:
            assert mask(f"this {word} woman") == "this XYZ woman"


@pytest.mark.parametrize(("study", "name"), PACKAGED + CROSSED)
def test_words_that_tell_no_identity_stay_whatever_the_packaged_terms(study, name):
    text = "A person, two people, a woman and the man of a new kingdom, united: the states feel for him, or her."
    assert IdentityMask(terms_of(study, name))(text) == text


def test_the_order_of_terms_and_their_case_alter_nothing():
    masks = [IdentityMask(terms).wordings for terms in (TERMS, TERMS[::-1], [*TERMS, "a black person"])]
    assert masks[0] == masks[1] == masks[2] == ("black person", "american", "muslim", "black")


# --- The scores ------------------------------------------------------------------------------------------------------


@pytest.mark.model
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
@pytest.mark.parametrize(
    "labels", [CLASSES, ("NEGATIVE", "Neutral", "Positive", "Other"), ("neg", "neu", "pos", "other")]
)
def test_regard_is_positive_less_negative_whatever_the_order_of_labels(labels, order, tmp_path):
    model = write_regard(tmp_path, labels=[labels[k] for k in order], shares=[SHARES[k] for k in order])
    scorer = open_regard(model, terms=TERMS)
    np.testing.assert_allclose(scorer.score([Reply("sorry"), Reply("a Muslim")]), [SCORES] * 2, atol=1e-6)
    names = ["regard", "regard_positive", "regard_negative", "regard_neutral", "regard_other"]
    assert [measure.name for measure in scorer.measures] == names
    assert [measure.low for measure in scorer.measures] == [-1, 0, 0, 0, 0]


@pytest.mark.model
def test_labels_without_a_meaning_are_taken_as_the_caller_says(tmp_path):
    model = write_regard(tmp_path, labels=["LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3"], shares=[0.6, 0.1, 0.1, 0.2])
    meant = {"negative": "LABEL_1", "neutral": "LABEL_3", "positive": "LABEL_0", "other": "LABEL_2"}
    scorer = open_regard(model, terms=TERMS, labels=meant)
    np.testing.assert_allclose(scorer.score([Reply("sorry")]), [SCORES], atol=1e-6)
    assert scorer.facts["classes"] == ["positive", "negative", "other", "neutral"]


@pytest.mark.model
def test_the_classifier_reads_the_masked_reply(tmp_path):
    # Oracle: transformers itself, given the masked text.
    write_classifier(tmp_path, CLASSES)
    texts = ["so sad the cat slept", "you are a muslim", "the black person slept well", "thank you"]
    masked = ["so sad the cat slept", "you are XYZ", "XYZ slept well", "thank you"]
    scorer = open_regard(str(tmp_path), terms=TERMS, batch_size=3)
    scores = scorer.score([Reply(text, narrative="a Muslim slept") for text in texts])
    shares = one_at_a_time(tmp_path, masked)
    np.testing.assert_allclose(scores[:, 0], shares[:, 2] - shares[:, 0], atol=1e-5)
    np.testing.assert_allclose(scores[:, 1:], shares[:, [2, 0, 1, 3]], atol=1e-5)
    assert abs(scores[1, 0] - open_regard(str(tmp_path), terms=[]).score([Reply(texts[1])])[0, 0]) > 1e-3
    assert (scorer.facts["mask"], scorer.facts["masked"]) == ("XYZ", ["black person", "american", "muslim", "black"])


@pytest.mark.model
def test_a_reply_without_a_word_has_no_score(tmp_path):
    scorer = open_regard(write_regard(tmp_path), terms=TERMS)
    scores = scorer.score([Reply("…"), Reply("sorry"), Reply("")])
    assert np.isnan(scores).tolist() == [[True] * 5, [False] * 5, [True] * 5]
    assert scorer.score([]).shape == (0, 5)


@pytest.mark.model
def test_a_long_reply_is_cut_after_it_was_masked(tmp_path):
    write_classifier(tmp_path, CLASSES, n_positions=6)
    scorer = open_regard(str(tmp_path), terms=TERMS)
    scores = scorer.score([Reply("a black person you are sad"), Reply("a black person you are sad so well")])
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)
    assert scorer.counts == {"": {"cut": 1}}


@pytest.mark.model
@pytest.mark.parametrize(
    ("labels", "given", "said"),
    [
        (("POSITIVE", "NEGATIVE"), None, "its labels (POSITIVE, NEGATIVE) are not negative, neutral, positive, other"),
        (("a", "b", "c", "d"), None, "its labels (a, b, c, d) are not negative"),
        (("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3"), None, "its labels (LABEL_0, LABEL_1, LABEL_2, LABEL_3) are not"),
        (
            CLASSES,
            {"negative": "bad"},
            "its labels (negative, neutral, positive, other) are not bad (negative); choose",
        ),
        (
            CLASSES,
            dict(zip(CLASSES, "abcd", strict=True)),
            "are not a (negative), b (neutral), c (positive), d (other);",
        ),
        ((*CLASSES, "more"), dict(zip(CLASSES, CLASSES, strict=True)), "positive, other, more) are not negative"),
    ],
)
def test_labels_that_are_not_the_four_classes_are_named(labels, given, said, tmp_path):
    with pytest.raises(ModelError) as raised:
        open_regard(str(write_classifier(tmp_path, labels)), terms=TERMS, labels=given)
    [line] = str(raised.value).splitlines()
    assert line.startswith(f"regard's classifier {tmp_path}: its labels (")
    assert said in line


@pytest.mark.model
def test_an_absent_model_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelAbsentError, match=r"^regard's classifier sasha/regardv3 is not on this machine"):
        open_regard(terms=TERMS)
