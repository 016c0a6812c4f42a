import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from audit.engines.base import Generated, next_token_probabilities
from audit.engines.hardware import has_gpu
from audit.errors import ModelError
from stimuli.prompts import Prompt

PROMPTS = [
    Prompt("You judge.", "word " * n + question)
    for n, question in [
        (3, "How sad?"),
        (40, "How glad?"),
        (1, "Who?"),
        (90, "How sad?"),
        (7, ""),
        (8, "?"),
        (25, "!"),
        (2, "a"),
    ]
]


def encoded(engine):
    return [engine.tokenizer.encode(engine.tokenizer.render(prompt)) for prompt in PROMPTS]


def copy_of(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def one_line(raised):
    [line] = str(raised.value).strip().splitlines()
    return line


def test_facts_say_what_ran(tiny_model, open_engine):
    import transformers

    facts = open_engine(tiny_model).facts
    assert (facts.name, facts.version, facts.device, facts.dtype) == (
        "transformers",
        transformers.__version__,
        "cpu",
        "float32",
    )


# For each prompt the continuations asked about; of two prompts nothing is asked.
TAILS = [[(4, 9), (7,), (8, 1)], [()], [], [(3, 3, 4), (9, 3)], [(5, 5)], [(6, 1), ()], [], [(9, 9), (2, 2)]]


@pytest.mark.parametrize("absolute_positions", [False, True], ids=["relative positions", "absolute positions"])
@pytest.mark.parametrize("tails", [[[()]] * 8, TAILS], ids=["next token", "tails"])
def test_batching_does_not_alter_probabilities(tails, absolute_positions, make_model, open_engine):
    # Prompts of unlike length share batches with padding. Measured: 5e-6 of a probability, from float32 sums.
    folder = make_model(absolute_positions=absolute_positions)
    one, seven = (open_engine(folder, pack_tokens=size) for size in (1, 300))
    prompts, asked = encoded(one), list(range(100, 228))
    assert len({len(ids) for ids in prompts}) > 6
    alone = next_token_probabilities(one, prompts, tails, asked)
    together = next_token_probabilities(seven, prompts, tails, asked)
    assert [table.shape for table in together] == [(len(own), 128) for own in tails]
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-9)


def test_batching_does_not_alter_texts(tiny_model, open_engine):
    one, seven = (open_engine(tiny_model, batch_size=size) for size in (1, 7))
    texts = one.generate(encoded(one), max_tokens=12)
    assert texts == seven.generate(encoded(seven), max_tokens=12)
    assert len({answer.text for answer in texts}) > 1


def test_the_same_call_gives_the_same_bits(tiny_model, open_engine):
    # What makes an interrupted run equal to an uninterrupted one: nothing is carried from call to call.
    engine = open_engine(tiny_model, batch_size=3)
    prompts = encoded(engine)
    first = next_token_probabilities(engine, prompts, [[(5,), (6,)]] * 8, [10, 11])
    engine.generate(prompts, max_tokens=3)
    engine.forget()
    again = next_token_probabilities(engine, prompts, [[(5,), (6,)]] * 8, [10, 11])
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("absolute_positions", [False, True], ids=["relative positions", "absolute positions"])
def test_tails_are_read_as_if_they_stood_in_the_prompt(absolute_positions, make_model, open_engine):
    # Oracle: the same engine on full prompts, without tails. Measured: 4e-6 of a probability, from float32 sums.
    engine = open_engine(make_model(absolute_positions=absolute_positions), batch_size=3)
    prompts, asked = encoded(engine), [20, 300, 5, 77]
    read = next_token_probabilities(engine, prompts, TAILS, asked)
    for prompt, own, table in zip(prompts, TAILS, read, strict=True):
        assert table.shape == (len(own), 4)
        for tail, row in zip(own, table, strict=True):
            [[plain]] = next_token_probabilities(engine, [[*prompt, *tail]], [[()]], asked)
            np.testing.assert_allclose(row, plain, rtol=2e-5, atol=1e-9)


def test_probabilities_are_those_of_the_full_softmax(tiny_model, open_engine):
    # Oracle: transformers alone in double precision, one prompt without padding; all tokens' probabilities sum to 1.
    import torch
    from transformers import AutoModelForCausalLM

    engine = open_engine(tiny_model)
    prompts = encoded(engine)
    double = AutoModelForCausalLM.from_pretrained(str(tiny_model)).double().eval()
    n_tokens = double.config.vocab_size
    read = [
        next_token_probabilities(engine, prompts, [[()]] * 8, range(start, min(start + 128, n_tokens)))
        for start in range(0, n_tokens, 128)
    ]
    for place, prompt in enumerate(prompts):
        whole = np.concatenate([part[place][0] for part in read])
        with torch.inference_mode():
            oracle = double(torch.tensor([prompt])).logits[0, -1].softmax(-1).numpy()
        np.testing.assert_allclose(whole, oracle, rtol=2e-5, atol=1e-9)
        assert whole.sum() == pytest.approx(1, abs=1e-6)


def test_a_half_precision_model_has_logits_in_full_precision(tiny_model, open_engine):
    # In bfloat16 logits of 2 to 4 are steps of 1/64: hundreds of tokens would share a few dozen probabilities.
    engine = open_engine(tiny_model, dtype="bfloat16")
    assert engine.facts.dtype == "bfloat16"
    [[read], *_] = next_token_probabilities(engine, encoded(engine)[:1], [[()]], range(100, 228))
    assert len(set(read.tolist())) == 128
    exact = open_engine(tiny_model)
    [[full], *_] = next_token_probabilities(exact, encoded(exact)[:1], [[()]], range(100, 228))
    np.testing.assert_allclose(np.log(read), np.log(full), atol=0.2)


def test_nothing_asked_is_nothing_answered(tiny_model, open_engine):
    engine = open_engine(tiny_model)
    assert next_token_probabilities(engine, [], [], [3]) == []
    assert engine.generate([], max_tokens=3) == []
    [table] = next_token_probabilities(engine, encoded(engine)[:1], [[]], [3])
    assert table.shape == (0, 1)


def test_text_ends_at_the_end_token_and_shows_no_special_token(make_model, open_engine):
    engine = open_engine(make_model(says="85"), batch_size=3)
    assert [answer.text for answer in engine.generate(encoded(engine), max_tokens=16)] == ["85"] * 8


def test_text_is_the_likeliest_whatever_the_model_itself_would_prefer(tiny_model, tmp_path, open_engine):
    # Qwen2's files ask for a penalty on repetition, others for sampling; temperature 0 in vLLM follows neither.
    folder = copy_of(tiny_model, tmp_path)
    own = json.loads((folder / "generation_config.json").read_text())
    wishes = {"do_sample": True, "temperature": 0.6, "top_p": 0.5, "repetition_penalty": 9.0, "no_repeat_ngram_size": 1}
    (folder / "generation_config.json").write_text(json.dumps(own | wishes | {"suppress_tokens": [*range(90, 300)]}))
    plain, wishing = open_engine(tiny_model), open_engine(folder)
    prompts = encoded(plain)
    assert wishing.generate(prompts, max_tokens=24) == plain.generate(prompts, max_tokens=24)


def test_text_also_ends_at_the_tokenizers_end_token(make_model, tmp_path, open_engine):
    # As in vLLM: the model's files may name another end than the chat template writes.
    folder = copy_of(make_model(says="85"), tmp_path)
    for name in ("generation_config.json", "config.json"):
        settings = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(settings | {"eos_token_id": 0}))
    [answer] = open_engine(folder).generate(encoded(open_engine(folder))[:1], max_tokens=16)
    assert (answer.text, answer.n_tokens, answer.cut) == ("85", 3, False)


def test_system_message_goes_to_the_head_of_the_user_turn_where_there_is_no_system_role(no_system_model, open_engine):
    tokenizer = open_engine(no_system_model).tokenizer
    assert not tokenizer.has_system_role
    assert tokenizer.render(Prompt("You judge.", "How sad?")) == (
        "<|start|>user\nYou judge.\n\nHow sad?<|end|>\n<|start|>assistant\n"
    )


def test_system_message_keeps_its_turn_where_there_is_one(tiny_model, open_engine):
    tokenizer = open_engine(tiny_model).tokenizer
    assert tokenizer.has_system_role
    assert tokenizer.render(Prompt("You judge.", "How sad?")) == (
        "<|start|>system\nYou judge.<|end|>\n<|start|>user\nHow sad?<|end|>\n<|start|>assistant\n"
    )
    assert tokenizer.render(Prompt("", "How sad?")) == "<|start|>user\nHow sad?<|end|>\n<|start|>assistant\n"


def test_a_thinking_block_that_the_template_opens_is_closed(thinking_model, open_engine):
    rendered = open_engine(thinking_model).tokenizer.render(Prompt("", "How sad?"))
    assert rendered.endswith("<|start|>assistant\n<think>\n\n</think>\n\n")
    assert rendered.count("<think>") == rendered.count("</think>") == 1


def test_special_tokens_of_the_template_are_single_tokens_and_none_is_added(tiny_model, open_engine):
    tokenizer = open_engine(tiny_model).tokenizer
    ids = tokenizer.encode(tokenizer.render(Prompt("", "a")))
    start, end = tokenizer.hf.convert_tokens_to_ids(["<|start|>", "<|end|>"])
    assert ids[0] == start
    assert (ids.count(start), ids.count(end)) == (2, 1)


def test_a_model_without_chat_template_is_refused(make_model, open_engine):
    with pytest.raises(
        ModelError, match=r"model tiny: its tokenizer has no chat template; .* instruction-tuned"
    ) as raised:
        open_engine(make_model(template=None))
    one_line(raised)


def test_quantization_is_refused(tiny_model, open_engine):
    with pytest.raises(ModelError, match=r"model\.quantization=awq: .*engine=vllm"):
        open_engine(tiny_model, quantization="awq")


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_refused(tiny_model, open_engine, device):
    import torch

    if {"cuda": has_gpu, "mps": torch.backends.mps.is_available}[device]():
        pytest.skip(f"this machine has {device}")
    with pytest.raises(
        ModelError, match=f"engine.device={device}: this machine has no such device; use engine.device=auto"
    ):
        open_engine(tiny_model, device=device)


def test_a_truncated_weights_file_is_one_line(tiny_model, tmp_path, open_engine):
    folder = copy_of(tiny_model, tmp_path)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    with pytest.raises(ModelError, match=r"transformers cannot load model tiny from .*copy") as raised:
        open_engine(folder)
    assert len(one_line(raised)) < 500


@pytest.mark.parametrize(
    "content", ["{", "", "[]", '{"model_type": "no such"}', "{}", '{"model_type": "llama", "hidden_size": "wide"}']
)
def test_a_corrupt_configuration_is_one_line(content, tiny_model, tmp_path, open_engine):
    folder = copy_of(tiny_model, tmp_path)
    (folder / "config.json").write_text(content)
    with pytest.raises(ModelError, match="model tiny") as raised:
        open_engine(folder)
    assert len(one_line(raised)) < 500


def test_a_missing_tokenizer_is_one_line(tiny_model, tmp_path, open_engine):
    folder = copy_of(tiny_model, tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(ModelError, match="model tiny") as raised:
        open_engine(folder)
    assert len(one_line(raised)) < 500


def test_a_corrupt_tokenizer_is_one_line(tiny_model, tmp_path, open_engine):
    folder = copy_of(tiny_model, tmp_path)
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0"}))
    with pytest.raises(ModelError, match=r"model tiny: no tokenizer could be read from .*copy") as raised:
        open_engine(folder)
    assert len(one_line(raised)) < 500


def test_another_tokenizer_is_taken_where_the_card_names_one(tiny_model, number_model, open_engine):
    engine = open_engine(tiny_model, tokenizer=str(number_model))
    assert len(engine.tokenizer.encode("100")) == 1


def test_missing_weights_are_refused_rather_than_made_up(tiny_model, tmp_path, open_engine):
    # transformers fills weights that a file lacks with random numbers, and only warns.
    from safetensors.torch import load_file, save_file

    folder = copy_of(tiny_model, tmp_path)
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.down_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"model tiny: 1 weights are missing in .*copy .*layers\.1\.mlp\.down_proj"):
        open_engine(folder)


STORY = {"max_tokens": 12, "temperature": 0.9, "top_p": 0.8}


def test_a_sampled_text_depends_on_nothing_but_its_prompt_and_seed(tiny_model, open_engine):
    one, seven = (open_engine(tiny_model, batch_size=size) for size in (1, 7))
    prompts, seeds = encoded(one), [5, 5, 7, 2**40, 2**40 + 2**32, 0, 1, 2**63 - 1]
    alone = one.generate(prompts, seeds=seeds, **STORY)
    assert seven.generate(prompts, seeds=seeds, **STORY) == alone
    assert seven.generate(prompts[::-1], seeds=seeds[::-1], **STORY) == alone[::-1]
    assert seven.generate(prompts[2:4], seeds=seeds[2:4], **STORY) == alone[2:4]


def test_rows_that_end_early_do_not_alter_the_others(make_model, open_engine):
    # A model that, at this temperature, may end its text at any step.
    import torch

    engine = open_engine(make_model(says="85"), batch_size=40)
    prompt, settings = encoded(engine)[0], {"max_tokens": 30, "temperature": 12.0}
    torch.manual_seed(1)
    together = engine.generate([prompt] * 40, seeds=range(40), **settings)
    torch.manual_seed(2)  # and the global generator has no part in it
    assert [engine.generate([prompt], seeds=[seed], **settings)[0] for seed in range(40)] == together
    assert len({answer.n_tokens for answer in together}) > 3


def test_sampling_leaves_the_global_generators_alone(tiny_model, open_engine):
    import torch

    engine = open_engine(tiny_model)
    states = torch.get_rng_state(), np.random.get_state()[1].copy()
    engine.generate(encoded(engine), seeds=range(8), **STORY)
    assert torch.equal(torch.get_rng_state(), states[0])
    np.testing.assert_array_equal(np.random.get_state()[1], states[1])


def test_other_seeds_give_other_texts(tiny_model, open_engine):
    # Seeds that differ in their upper 32 bits too, of which torch's own generator on a CPU knows nothing.
    engine = open_engine(tiny_model)
    seeds = [0, 1, 2, 2**32, 2**32 + 1, 2**40, 2**62]
    texts = [answer.text for answer in engine.generate(encoded(engine)[:1] * 7, seeds=seeds, **STORY)]
    assert len(set(texts)) == 7


@pytest.mark.parametrize("settings", [{"temperature": 1e-4}, {"temperature": 1.0, "top_p": 1e-6}])
def test_the_limit_of_sampling_is_the_likeliest_text(settings, tiny_model, open_engine):
    engine = open_engine(tiny_model)
    prompts = encoded(engine)
    sampled = engine.generate(prompts, max_tokens=12, seeds=range(8), **settings)
    assert sampled == engine.generate(prompts, max_tokens=12)


@pytest.mark.parametrize("top_p", [1.0, 0.6])
@pytest.mark.parametrize("temperature", [0.5, 1.3])
def test_drawn_tokens_have_the_probabilities_of_the_softmax(temperature, top_p, make_model, open_engine):
    # Oracle: softmax(logits / temperature) of the model alone in float64, cut to its nucleus by hand, and a chi-square
    # test over 4000 seeds; tokens expected fewer than 5 times are taken together. The seeds are fixed: p is too.
    import torch
    from scipy.stats import chisquare
    from transformers import AutoModelForCausalLM

    folder = make_model()
    engine = open_engine(folder, batch_size=1000)
    prompt, n = encoded(engine)[0], 4000
    with torch.inference_mode():
        logits = AutoModelForCausalLM.from_pretrained(str(folder)).double().eval()(torch.tensor([prompt])).logits[0, -1]
    probabilities = (logits / temperature).softmax(-1).numpy()
    nucleus, held = [], 0.0
    for token in np.argsort(-probabilities):
        if held >= top_p:
            break
        nucleus.append(token)
        held += probabilities[token]
    drawn = []
    engine.tokenizer.written = lambda tokens: drawn.append(tokens[0])
    engine.generate([prompt] * n, max_tokens=1, temperature=temperature, top_p=top_p, seeds=range(n))
    counts = np.bincount(drawn, minlength=len(probabilities))
    expected = np.zeros(len(probabilities))
    expected[nucleus] = n * probabilities[nucleus] / held
    assert set(np.flatnonzero(counts)) <= set(nucleus)
    often = expected >= 5
    assert often.sum() > 5
    seen, wanted = counts[often].tolist(), expected[often].tolist()
    if expected[~often].sum() > 1:
        seen, wanted = [*seen, counts[~often].sum()], [*wanted, expected[~often].sum()]
    assert min(seen[: often.sum()]) > 0
    assert chisquare(seen, np.multiply(wanted, np.sum(seen) / np.sum(wanted))).pvalue > 0.001


def test_length_counts_the_end_and_cut_says_that_there_was_none(make_model, open_engine):
    # "85" is two tokens, the end is the third.
    engine = open_engine(make_model(says="85"))
    prompts = encoded(engine)[:1]
    for max_tokens, expected in (
        (1, ("8", 1, True)),
        (2, ("85", 2, True)),
        (3, ("85", 3, False)),
        (9, ("85", 3, False)),
    ):
        assert engine.generate(prompts, max_tokens=max_tokens) == [Generated(*expected)]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"temperature": 1.0}, r"temperature=1.0 needs a seed for each of 2 prompts; there are no seeds"),
        ({"temperature": 1.0, "seeds": [1]}, r"for each of 2 prompts; there are 1 seeds"),
        ({"temperature": 1.0, "seeds": [1, -1]}, r"seed -1: must be at least 0"),
        ({"temperature": 1.0, "seeds": [1, 2**63]}, r"seed 9223372036854775808: must be"),
        ({"temperature": -0.1, "seeds": [1, 2]}, r"temperature=-0.1: must be at least 0"),
        ({"temperature": float("nan"), "seeds": [1, 2]}, r"temperature=nan"),
        ({"temperature": 1.0, "top_p": 0.0, "seeds": [1, 2]}, r"top_p=0.0: must be above 0 and at most 1"),
        ({"temperature": 1.0, "top_p": 1.1, "seeds": [1, 2]}, r"top_p=1.1"),
    ],
)
def test_settings_that_can_not_be_sampled_with_are_refused(settings, said, tiny_model, open_engine):
    engine = open_engine(tiny_model)
    with pytest.raises(ValueError, match=said):
        engine.generate(encoded(engine)[:2], max_tokens=1, **settings)


TURNS = (("user", "Who is she?"), ("assistant", "My friend."), ("user", "Go on."), ("assistant", "She fell."))
SPOKEN = "".join(f"<|start|>{role}\n{text}<|end|>\n" for role, text in TURNS)
LAST = "<|start|>user\nHow sad?<|end|>\n<|start|>assistant\n"


def test_earlier_turns_stand_between_the_system_message_and_the_last(tiny_model, open_engine):
    tokenizer = open_engine(tiny_model).tokenizer
    rendered = tokenizer.render(Prompt("You judge.", "How sad?", TURNS))
    assert rendered == "<|start|>system\nYou judge.<|end|>\n" + SPOKEN + LAST
    assert tokenizer.render(Prompt("", "How sad?", TURNS)) == SPOKEN + LAST


def test_without_a_system_role_the_system_text_heads_the_first_user_message(no_system_model, open_engine):
    tokenizer = open_engine(no_system_model).tokenizer
    rendered = tokenizer.render(Prompt("You judge.", "How sad?", TURNS))
    assert rendered == SPOKEN.replace("Who is she?", "You judge.\n\nWho is she?") + LAST


def test_a_template_that_refuses_the_turns_is_an_error_that_names_the_model(tiny_model, make_model, open_engine):
    plain = open_engine(tiny_model).tokenizer.hf.chat_template
    refuses = "{% if messages|length > 2 %}{{ raise_exception('one question\n only') }}{% endif %}" + plain
    tokenizer = open_engine(make_model(template=refuses)).tokenizer
    assert tokenizer.render(Prompt("", "How sad?")) == LAST
    with pytest.raises(ModelError, match=r"model tiny: its chat template refuses the messages user, .*only") as raised:
        tokenizer.render(Prompt("", "How sad?", TURNS))
    one_line(raised)


def test_a_template_that_leaves_out_the_turns_is_an_error_that_names_the_model(tiny_model, make_model, open_engine):
    plain = open_engine(tiny_model).tokenizer.hf.chat_template
    forgets = plain.replace("in messages", "in messages[-1:]")
    tokenizer = open_engine(make_model(template=forgets)).tokenizer
    assert tokenizer.render(Prompt("", "How sad?")) == LAST
    with pytest.raises(ModelError, match=r"model tiny: its chat template drops earlier turns") as raised:
        tokenizer.render(Prompt("", "How sad?", TURNS))
    one_line(raised)


class Runs:
    """What unpickling runs: a command of the file's."""

    def __init__(self, trace):
        self._trace = trace

    def __reduce__(self):
        return Path.touch, (self._trace,)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.bin"])
def test_pickled_weights_run_no_code(name, tiny_model, open_engine, tmp_path):
    import torch

    folder, trace = copy_of(tiny_model, tmp_path), tmp_path / "ran"
    for path in folder.glob("*.safetensors"):
        path.unlink()
    torch.save({"model.embed_tokens.weight": Runs(trace)}, folder / name)
    with pytest.raises(ModelError) as raised:
        open_engine(folder)
    assert not trace.exists()
    if name == "pytorch_model.bin":
        assert one_line(raised).endswith(
            "its pickled weights contain more than numbers and would run code on this machine; use its "
            "safetensors files, or a copy from a source you trust"
        )
    torch.load(folder / name, weights_only=False)
    assert trace.exists()  # it would have


def test_pickled_weights_that_are_numbers_are_read(tiny_model, open_engine, tmp_path):
    import torch
    from safetensors.torch import load_file

    folder = copy_of(tiny_model, tmp_path)
    [weights] = folder.glob("*.safetensors")
    torch.save(load_file(weights), folder / "pytorch_model.bin")
    weights.unlink()
    engine, own = open_engine(folder), open_engine(tiny_model)
    rows = [encoded(own)[0]]
    assert engine.generate(rows, max_tokens=5) == own.generate(rows, max_tokens=5)
