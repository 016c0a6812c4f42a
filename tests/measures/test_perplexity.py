import numpy as np
import pytest

from audit.engines.likelihood import Likelihoods
from audit.tasks.measures.base import Reply
from audit.tasks.measures.perplexity import PerplexityScorer


@pytest.fixture
def replies():
    return [Reply(text) for text in ("I am sorry to hear it.", "How did you feel?", "", "Sad.")]


def test_perplexity_is_the_inverse_geometric_mean_of_the_softmax_probabilities(make_model, replies):
    # Oracle: numpy's softmax over the logits of each text alone; the tokenizer has no BOS, so token 0 is left out.
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = make_model()
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    expected = []
    for reply in replies:
        ids = tokenizer(reply.text, add_special_tokens=False)["input_ids"]
        if not ids:
            expected.append(np.nan)
            continue
        with torch.inference_mode():
            exponents = np.exp(network(torch.tensor([ids])).logits[0].double().numpy())
        probabilities = exponents / exponents.sum(axis=1, keepdims=True)
        own = [probabilities[place, token] for place, token in enumerate(ids[1:])]
        expected.append(np.prod(own) ** (-1 / len(own)))
    scores = PerplexityScorer(str(folder)).score(replies)
    np.testing.assert_allclose(scores, np.column_stack([expected, np.log(expected)]), rtol=1e-5)
    assert np.isnan(scores[2]).all()
    assert (scores[[0, 1, 3], 0] > 1).all()


def test_a_reply_s_number_does_not_depend_on_the_others(make_model, replies, monkeypatch):
    monkeypatch.setattr("audit.engines.likelihood.BATCH_TOKENS", 30)
    scorer = PerplexityScorer(str(make_model()))
    alone = np.concatenate([scorer.score([reply]) for reply in replies])
    np.testing.assert_allclose(scorer.score(replies[::-1])[::-1], alone, rtol=1e-5)


@pytest.mark.parametrize(
    ("nll", "n_tokens", "expected"),
    [
        (np.log(2) * 6, 3, [4, np.log(4)]),  # (1/64)^(-1/3)
        (np.log(7), 1, [7, np.log(7)]),
        (0.0, 5, [1, 0]),
        (np.nan, 0, [np.nan, np.nan]),
        (720.0, 1, [np.nan, 720]),  # e^720 is above 1.8e308
    ],
    ids=["three tokens", "one token", "certain", "none", "too large"],
)
def test_perplexity_is_hand_worked(nll, n_tokens, expected, make_model, monkeypatch):
    scorer = PerplexityScorer(str(make_model()))
    monkeypatch.setattr(scorer._scorer, "score", lambda texts: Likelihoods(np.array([nll]), np.array([n_tokens])))
    np.testing.assert_allclose(scorer.score([Reply("any")]), [expected], rtol=1e-12)


def test_measures_stand_in_the_order_of_the_columns_and_promise_no_direction(make_model):
    scorer = PerplexityScorer(str(make_model()))
    assert [(m.name, m.low, m.better) for m in scorer.measures] == [
        ("perplexity", 1, "neither"),
        ("log_perplexity", 0, "neither"),
    ]
    assert "model.safetensors" in scorer.facts["files"]
    assert scorer.score([]).shape == (0, 2)
