"""From the options under ``measures`` to scorers: what each alters, what is refused, and that it reaches the scorer."""

from functools import cache

import numpy as np
import pytest
from engines.test_classifier import write_classifier
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from audit.configuration.composition import conf_folder
from audit.configuration.schema import load_config
from audit.errors import ConfigError, ModelAbsentError
from audit.tasks.measures.base import Counting, Reply
from audit.tasks.measures.choose import wanted_scorers
from audit.tasks.measures.eq import HYPOTHESES
from stimuli.narratives import EmotionWords, Narrative

NARRATIVE = Narrative("n", "sad", EmotionWords("sadness", "sad"), "The bus had left.", "", "")
LABELS = "{negative: a, neutral: b, positive: c, other: 0}"


@cache
def configure(*overrides):
    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        values = OmegaConf.to_container(compose("audit", list(overrides)), resolve=True, throw_on_missing=True)
    values.pop("experiment", None)
    return load_config(values).measures


def wanted(name, *overrides, terms=("a Muslim",)):
    [only] = wanted_scorers(configure(f"measures.names={name}", *overrides), terms=terms, narratives=())
    return only


def absent(name, *overrides):
    with pytest.raises(ModelAbsentError) as raised:
        wanted(name, *overrides).open()
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "override"),
    [
        ("eq", "eq.model=a/b"),
        ("eq", "eq.revision=v1"),
        *(("eq", f"eq.hypotheses.{part}=It is kind.") for part in HYPOTHESES),
        ("regard", "regard.model=a/b"),
        ("regard", "regard.revision=v1"),
        ("regard", f"regard.labels={LABELS}"),
        ("lexicon", "lexicon.narrative=emotion"),
        ("perplexity", "perplexity.model=a/b"),
        ("perplexity", "perplexity.revision=v1"),
        ("bertscore", "bertscore.layer=3"),
        ("bertscore", "bertscore.revision=v1"),
        *(("epitome", f"epitome.{part}=a/b") for part in ("emotional_reactions", "interpretations", "explorations")),
        ("epitome", "epitome.interpretations={model: a/b, revision: v1}"),
        ("epitome", "epitome.encoder=a/b"),
        ("epitome", "epitome.lower_case=true"),
    ],
)
def test_an_option_that_numbers_depend_on_is_asked_for_by_its_scorer_and_by_no_other(name, override):
    given, default = configure(f"measures.{override}"), configure()
    before, after = (
        {each.name: each.asked for each in wanted_scorers(config, terms=["a Muslim"], narratives=())}
        for config in (default, given)
    )
    assert [each for each in before if before[each] != after[each]] == [name]


@pytest.mark.parametrize(
    "override", ["batch_size=1", "device=cuda", "download=true", "required=[eq]", "epitome.labels=people.csv"]
)
def test_what_alters_no_number_is_not_asked_for(override):
    asked = [
        [each.asked for each in wanted_scorers(config, terms=[], narratives=())]
        for config in (configure(), configure(f"measures.{override}"))
    ]
    assert asked[0] == asked[1]


@pytest.mark.model
def test_hypotheses_that_are_not_given_are_ours_and_reach_the_scorer(tmp_path):
    own = ("measures.eq.hypotheses.advice=thank you well", f"measures.eq.model={write_classifier(tmp_path)}")
    expected = {**HYPOTHESES, "advice": "thank you well"}
    assert wanted("eq").asked["hypotheses"] == HYPOTHESES
    assert wanted("eq", *own).asked["hypotheses"] == expected
    assert wanted("eq", *own).open().facts["hypotheses"] == expected


@pytest.mark.model
def test_labels_of_a_classifier_of_regard_reach_the_scorer(tmp_path):
    write_classifier(tmp_path, ("0", "a", "b", "c"), bias=np.log([0.1, 0.2, 0.3, 0.4]).tolist())
    scorer = wanted("regard", f"measures.regard.model={tmp_path}", f"measures.regard.labels={LABELS}").open()
    # c is positive and a negative: 0.4 − 0.2.
    np.testing.assert_allclose(scorer.score([Reply("sorry")]), [[0.2, 0.4, 0.2, 0.3, 0.1]], atol=1e-6)
    assert scorer.facts["classes"] == ["other", "negative", "neutral", "positive"]


@pytest.mark.model
def test_a_mechanism_s_model_is_a_folder_or_a_hub_id_with_its_revision(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = write_classifier(tmp_path / "own", ("0", "1", "2"))
    for model in (folder, f"{{model: {folder}}}"):
        own = wanted("epitome", f"measures.epitome.interpretations={model}")
        assert own.asked == {"interpretations": {"model": str(folder)}}
        assert list(own.open().facts) == ["interpretations"]
    given = "measures.epitome.interpretations={model: a/b, revision: v1}"
    assert absent("epitome", given).endswith("hf download a/b --revision v1")
    assert absent("epitome", "measures.epitome.interpretations=a/b").endswith("hf download a/b")
    assert "measures.epitome.emotional_reactions=" in wanted("epitome").absent


@pytest.mark.model
@pytest.mark.parametrize(
    ("name", "option", "labels"),
    [
        ("eq", "eq.model", ("contradiction", "entailment")),
        ("regard", "regard.model", ("neg", "neu", "pos", "other")),
        ("epitome", "epitome.interpretations", ("0", "1", "2")),
    ],
)
def test_scorers_that_cut_texts_count_them_under_the_names_of_their_measures(name, option, labels, tmp_path):
    scorer = wanted(name, f"measures.{option}={write_classifier(tmp_path, labels, n_positions=6)}").open()
    assert isinstance(scorer, Counting)
    assert set(scorer.counts) <= {"", *(measure.name for measure in scorer.measures)}
    for n in (0, 1):
        assert {own["cut"] for own in scorer.counts.values()} == {n}
        scorer.score([Reply("my dog slept so well you are sad", narrative="the cat slept so well"), Reply("…", "sad")])


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("regard.labels={negative: a, neutral: b, positive: c}", "regard.labels.other: is missing"),
        (f"regard.labels={LABELS[:-1]}, more: d}}", "regard.labels.more: unknown option; there are: negative"),
        (
            "regard.labels={negative: a, neutral: b, positive: c, other: c}",
            "regard.labels: the label 'c' is given to two",
        ),
        (
            "regard.labels={negative: '', neutral: b, positive: c, other: d}",
            "regard.labels.negative: must not be empty",
        ),
        ("regard.labels=LABEL_0", "regard.labels: must be"),
        ("eq.hypotheses.emotion=' '", "eq.hypotheses.emotion: must not be empty"),
        ("+eq.hypotheses.feeling=x", "eq.hypotheses.feeling: unknown option; there are: advice"),
        ("epitome.interpretations={revision: v1}", "epitome.interpretations.model: is missing"),
        (
            "epitome.interpretations={model: a/b, revison: v1}",
            "interpretations.revison: unknown option; did you",
        ),
        ("epitome.interpretations=''", "epitome.interpretations: must not be empty"),
        (
            "bertscore.model=a/b",
            "bertscore: a/b needs a layer to compare; for FacebookAI/roberta-large, the "
            "authors chose measures.bertscore.layer=17",
        ),
        ("bertscore.layer=-1", "bertscore.layer: must be at least 0"),
    ],
)
def test_a_faulty_option_is_one_line_before_any_model_is_loaded(override, said):
    plus, name = ("+", override[1:]) if override.startswith("+") else ("", override)
    with pytest.raises(ConfigError) as raised:
        configure(f"{plus}measures.{name}")
    [line] = str(raised.value).splitlines()
    assert said in line


def test_a_lexicon_that_has_no_word_of_the_narratives_is_absent_and_says_what_to_do(tmp_path):
    def lexicon(*overrides):
        config = configure("measures.names=lexicon", *overrides)
        [only] = wanted_scorers(config, terms=["a Muslim"], narratives=[NARRATIVE])
        return only

    assert "no narrative of this run has a word of the packaged lexicon (145 words)" in lexicon().absent
    assert "measures.lexicon.path=FILE" in lexicon().absent
    assert lexicon("measures.lexicon.narrative=emotion").absent == ""
    own = tmp_path / "own.txt"
    own.write_text("bus\tfear\t1\n")
    given = lexicon(f"measures.lexicon.path={own}")
    assert given.absent == ""
    assert given.asked["lexicon"] != lexicon().asked["lexicon"]
    [row] = given.open().score([Reply("A bus?", narrative=NARRATIVE.neutral)])
    assert row.tolist() == [0.0, 1.0]
