import numpy as np

from audit.engines.base import next_token_probabilities
from stimuli.prompts import Prompt


def test_a_half_precision_model_has_float32_logits(tiny_model, open_engine):
    # In bfloat16 a logit has 8 bits, and probabilities of like tokens come out equal. Oracle: the model's own last
    # hidden state, multiplied by its head in float32.
    import torch
    from transformers import AutoModelForCausalLM

    engine = open_engine(tiny_model, dtype="bfloat16", batch_size=1)
    ids = engine.tokenizer.encode(engine.tokenizer.render(Prompt("You judge.", "How sad?")))
    asked = list(range(100))
    [[row]] = next_token_probabilities(engine, [ids], [[()]], asked)

    plain = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.bfloat16).eval()
    with torch.inference_mode():
        hidden = plain.model(torch.tensor([ids])).last_hidden_state[0, -1]
        logits = plain.get_output_embeddings().weight.float() @ hidden.float()
    np.testing.assert_allclose(row, logits.double().softmax(-1)[asked].numpy(), rtol=1e-5)
    assert engine.facts.dtype == "bfloat16"
    assert engine.generate([ids], max_tokens=3)[0].text
