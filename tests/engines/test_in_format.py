"""Another number format for a while: what is computed in it, and that nothing of it stays."""

import sys

import numpy as np
import pytest

from audit.engines.base import next_token_probabilities
from audit.errors import ModelError
from stimuli.prompts import Prompt

ASKED = list(range(100))


def ids_of(engine):
    prompts = [Prompt("You judge.", text) for text in ("How sad?", "How glad was the other one?", "Who?")]
    return [engine.tokenizer.encode(engine.tokenizer.render(prompt)) for prompt in prompts]


def read(engine):
    return np.vstack(next_token_probabilities(engine, ids_of(engine), [[()]] * 3, ASKED))


def bits(engine):
    return {name: (each.dtype, each.clone()) for name, each in engine._model.state_dict().items()}


@pytest.mark.parametrize(
    ("own", "other"),
    [("float32", "bfloat16"), ("float32", "float16"), ("bfloat16", "float32"), ("bfloat16", "float16")],
)
def test_in_another_format_it_says_what_a_model_loaded_in_it_says_and_afterwards_what_it_said(
    tiny_model, open_engine, own, other
):
    import torch

    engine = open_engine(tiny_model, dtype=own)
    before, kept = read(engine), bits(engine)
    with engine.in_format(other):
        meanwhile = read(engine)
        assert engine._model.dtype == getattr(torch, other)
    if own == "float32":  # what is loaded in half precision has lost digits that float32 does not bring back
        # Oracle: the same files loaded in that format.
        np.testing.assert_allclose(meanwhile, read(open_engine(tiny_model, dtype=other)), rtol=1e-6)
    assert np.abs(meanwhile - before).max() > 1e-7
    after = bits(engine)
    assert list(after) == list(kept)
    assert all(after[name][0] == dtype and torch.equal(after[name][1], each) for name, (dtype, each) in kept.items())
    np.testing.assert_array_equal(read(engine), before)
    assert engine.facts.dtype == own


def test_texts_are_written_in_it_too_and_whole_sequences_read(tiny_model, open_engine, monkeypatch):
    engine = open_engine(tiny_model)
    written = engine.generate(ids_of(engine), max_tokens=3)
    packed = read(engine)
    with engine.in_format("bfloat16"):
        assert all(each.n_tokens for each in engine.generate(ids_of(engine), max_tokens=3))
        in_packs = read(engine)
        engine._packs = False
        np.testing.assert_allclose(read(engine), in_packs, rtol=0.1)
        engine._packs = True
    assert engine.generate(ids_of(engine), max_tokens=3) == written
    np.testing.assert_array_equal(read(engine), packed)


def test_an_error_on_the_way_leaves_the_weights_as_they_were(tiny_model, open_engine):
    import torch

    engine = open_engine(tiny_model)
    kept = bits(engine)
    with pytest.raises(KeyboardInterrupt), engine.in_format("float16"):
        raise KeyboardInterrupt
    after = bits(engine)
    assert all(after[name][0] == dtype and torch.equal(after[name][1], each) for name, (dtype, each) in kept.items())


def test_its_own_format_is_no_other_and_vllm_does_not_change(tiny_model, open_engine):
    engine = open_engine(tiny_model)
    with pytest.raises(ModelError, match="float32 is the format the model already runs in"), (
        engine.in_format("float32")
    ):  # fmt: skip
        pass
    assert "vllm" not in sys.modules
    from audit.engines.vllm import VllmEngine

    with pytest.raises(ModelError, match="float32 once a model is loaded; use engine=transformers"):
        VllmEngine.in_format(object.__new__(VllmEngine), "float32")
