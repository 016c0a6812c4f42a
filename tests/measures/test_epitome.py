import numpy as np
import pytest
from engines.test_classifier import one_at_a_time, write_classifier

from audit.errors import ConfigError, ModelAbsentError, ModelError
from audit.tasks.measures.base import Reply
from audit.tasks.measures.epitome import MECHANISMS, open_epitome

pytestmark = pytest.mark.model

REPLIES = [
    Reply("sorry you are sad", "i lost my dog"),
    Reply("thank you", "the cat slept so well"),
    Reply("i lost my dog", "sorry you are sad"),
]
SHARES = (0.2, 0.3, 0.5)
EXPECTED_LEVEL = 1.3  # 0·0.2 + 1·0.3 + 2·0.5


def write_levels(folder, *, labels=("0", "1", "2"), shares=SHARES):
    return str(write_classifier(folder, labels, bias=np.log(shares).tolist()))


@pytest.mark.parametrize(
    "labels",
    [
        ("0", "1", "2"),
        ("no", "weak", "strong"),
        ("None", "Weak", "Strong"),
        ("No communication", "Weak communication", "Strong communication"),
        ("LABEL_0", "LABEL_1", "LABEL_2"),
    ],
)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_labels_are_levels_by_their_names_in_any_order(labels, order, tmp_path):
    model = write_levels(tmp_path, labels=[labels[k] for k in order], shares=[SHARES[k] for k in order])
    scorer = open_epitome({"interpretations": model})
    np.testing.assert_allclose(scorer.score(REPLIES), [[2, EXPECTED_LEVEL]] * 3, atol=1e-6)
    assert scorer.facts["interpretations"]["levels"] == list(labels)


def test_only_the_mechanisms_that_are_given_are_measured_each_by_its_own_classifier(tmp_path):
    models = {
        "explorations": write_levels(tmp_path / "e", shares=[0.6, 0.1, 0.3]),
        "emotional_reactions": write_levels(tmp_path / "r"),
    }
    scorer = open_epitome(models)
    assert [measure.name for measure in scorer.measures] == [
        "epitome_emotional_reactions",
        "epitome_emotional_reactions_expected",
        "epitome_explorations",
        "epitome_explorations_expected",
    ]
    np.testing.assert_allclose(scorer.score(REPLIES[:1]), [[2, EXPECTED_LEVEL, 0, 0.7]], atol=1e-6)
    assert {mechanism: facts["name"] for mechanism, facts in scorer.facts.items()} == models
    assert all((m.unit, m.low, m.high, m.better) == ("level", 0, 2, "higher") for m in scorer.measures)


def test_the_narrative_is_read_first_and_the_reply_after_it(tmp_path):
    # Oracle: transformers itself.
    write_classifier(tmp_path, ("0", "1", "2"))
    shares = one_at_a_time(tmp_path, [reply.narrative for reply in REPLIES], [reply.text for reply in REPLIES])
    scores = open_epitome({"explorations": str(tmp_path)}, batch_size=2).score(REPLIES)
    np.testing.assert_allclose(scores, np.column_stack([shares.argmax(1), shares @ [0, 1, 2]]), atol=1e-5)
    assert abs(scores[0, 1] - scores[2, 1]) > 0.01  # the same two texts the other way round


def test_a_long_narrative_is_cut_and_its_reply_is_not(tmp_path):
    write_classifier(tmp_path, ("0", "1", "2"), n_positions=10)
    longer = str(write_classifier(tmp_path / "longer", ("0", "1", "2")))
    scorer = open_epitome({"explorations": str(tmp_path), "interpretations": longer})
    assert [measure.name for measure in scorer.measures] == list(scorer.counts)
    scores = scorer.score(
        [Reply("thank you", "my dog slept so well sorry cat"), Reply("thank you", "my dog slept so well")]
    )[:, 2:]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)
    cut = {name: own["cut"] for name, own in scorer.counts.items()}
    assert cut == {
        "epitome_interpretations": 0,
        "epitome_interpretations_expected": 0,
        "epitome_explorations": 1,
        "epitome_explorations_expected": 1,
    }


def test_a_reply_or_narrative_without_a_word_has_no_level(tmp_path):
    scorer = open_epitome({"explorations": write_levels(tmp_path)})
    scores = scorer.score([Reply("…", "my dog"), Reply("sorry", ""), Reply("sorry", "my dog")])
    assert np.isnan(scores).tolist() == [[True, True], [True, True], [False, False]]
    assert scorer.score([]).shape == (0, 2)


@pytest.mark.parametrize("labels", [["low", "medium", "high"], ["0", "1"], ["0", "1", "2", "3"], ["0", "1", "weak"]])
def test_labels_that_are_no_levels_are_named(labels, tmp_path):
    with pytest.raises(ModelError) as raised:
        open_epitome({"explorations": str(write_classifier(tmp_path, labels))})
    [line] = str(raised.value).splitlines()
    assert f"classifier {tmp_path} of explorations: its labels ({', '.join(labels)}) are not three levels" in line


def test_an_absent_model_says_which_mechanism_it_is_of_and_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelAbsentError) as raised:
        open_epitome({"interpretations": "a/b"}, revisions={"interpretations": "v1"})
    assert str(raised.value) == (
        "EPITOME's classifier a/b of interpretations is not on this machine; to download it: hf "
        "download a/b --revision v1"
    )


@pytest.mark.parametrize(
    ("models", "options", "said"),
    [
        ({"exploration": "x"}, {}, "'exploration' is not a mechanism; did you mean 'explorations'?"),
        ({"explorations": "x"}, {"revisions": {"total": "v1"}}, "'total' is not a mechanism"),
        ({}, {}, f"at least one mechanism; there are: {', '.join(sorted(MECHANISMS))}"),
    ],
)
def test_unknown_mechanisms_and_none_are_refused(models, options, said):
    with pytest.raises(ConfigError) as raised:
        open_epitome(models, **options)
    assert said in str(raised.value)
