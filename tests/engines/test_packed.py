"""Packs of prompts: laid out once each, and read as whole sequences are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.engines.packed import PackedReader
from audit.engines.packing import n_shared, pack_prompts
from audit.engines.whole import WholeReader, reads_packed, sliding_window

TOKENS = st.integers(5, 9)  # few, so that prompts share beginnings, and some are the beginning of others
PROMPTS = st.lists(st.lists(TOKENS, min_size=1, max_size=12), min_size=1, max_size=9)


@given(PROMPTS, st.integers(1, 60), st.integers(1, 20))
def test_every_prompt_lies_in_one_row_and_has_its_pack_s_prefix(prompts, max_nodes, row_nodes):
    packs = list(pack_prompts(prompts, max_nodes=max_nodes, row_nodes=row_nodes))
    assert sorted(place for pack in packs for place in pack.places) == list(range(len(prompts)))
    for pack in packs:
        own = [prompts[place] for place in pack.places]
        assert len({tuple(prompt[: pack.n_prefix]) for prompt in own}) == 1
        assert all(len(prompt) > pack.n_prefix for prompt in own)
        assert len(own) == 1 or sum(len(prompt) - pack.n_prefix for prompt in own) <= max_nodes
        assert all(pack.rows)


def test_prompts_of_a_pair_share_a_pack_and_their_beginning_is_its_prefix():
    system = [1] * 60
    pairs = [[*system, *[2 + pair] * 20] for pair in range(2)]
    prompts = [[*pair, 50 + k, *[40 + j for j in range(9 + k)]] for k in range(6) for pair in pairs]
    packs = list(pack_prompts(prompts, max_nodes=1000, row_nodes=30))
    assert [pack.n_prefix for pack in packs] == [80, 80]
    assert [sorted(pack.places) for pack in packs] == [list(range(0, 12, 2)), list(range(1, 12, 2))]
    # The rows of 10 to 15 tokens are paired, the longest with the shortest: 25 each.
    assert {sum(len(prompts[place]) - 80 for place in row) for row in packs[0].rows} == {25}


def test_pairs_that_share_almost_all_share_a_pack_and_none_of_them_a_row():
    # Each row repeats its pair's own beginning of 10 tokens: worth it in rows of 80.
    system = [1] * 60
    pairs = [[*system, *[2 + pair] * 10] for pair in range(3)]
    prompts = [[*pair, 50 + k, *[40 + j for j in range(9 + k)]] for k in range(6) for pair in pairs]
    lengths = sorted(len(prompt) - 60 for prompt in prompts)
    [pack] = pack_prompts(prompts, max_nodes=sum(lengths), row_nodes=80)
    assert pack.n_prefix == 60
    assert [sorted(row) for row in pack.rows] == [list(range(pair, 18, 3)) for pair in range(3)]
    assert len(list(pack_prompts(prompts, max_nodes=sum(lengths) - 1, row_nodes=80))) == 2
    assert len(list(pack_prompts(prompts, max_nodes=sum(lengths), row_nodes=79))) == 3


def test_tokens_shared_from_the_beginning_are_counted():
    assert [n_shared(*pair) for pair in (([1, 2], [1, 3]), ([], [1]), ([1, 2], [1, 2, 3]), ([2], [3]))] == [1, 0, 2, 0]


@pytest.fixture(scope="module")
def readers(make_model):
    """Return a function that gives both readers of a tiny model in double precision, so that equal means equal."""
    import torch
    from transformers import AutoModelForCausalLM

    models = {}

    def made(*, absolute_positions=False, max_nodes=40, row_nodes=16):
        if absolute_positions not in models:
            folder = make_model(absolute_positions=absolute_positions)
            models[absolute_positions] = AutoModelForCausalLM.from_pretrained(str(folder)).double().eval()
        model = models[absolute_positions]
        packed = PackedReader(torch, model, device="cpu", max_nodes=max_nodes, row_nodes=row_nodes)
        return packed, WholeReader(torch, model, device="cpu", batch_size=3)

    return made


TAIL_SETS = st.lists(st.lists(TOKENS, max_size=3).map(tuple), max_size=4, unique=True)


@given(PROMPTS.flatmap(lambda p: st.tuples(st.just(p), *[st.lists(TAIL_SETS, min_size=len(p), max_size=len(p))] * 2)))
@settings(max_examples=60)
@pytest.mark.parametrize("absolute_positions", [False, True], ids=["relative positions", "absolute positions"])
@pytest.mark.parametrize("sizes", [(1, 1), (40, 16), (1000, 1000)], ids=["alone", "rows", "one row"])
def test_a_pack_is_read_as_whole_sequences_are_whatever_is_asked_in_turn(readers, sizes, absolute_positions, asked):
    # Oracle: each sequence by itself. Prompts may be the same, or begin others; tails may be asked again.
    prompts, first, then = asked
    packed, whole = readers(absolute_positions=absolute_positions, max_nodes=sizes[0], row_nodes=sizes[1])
    tokens = [5, 300, 17]
    seen = []
    for reading in packed.read(prompts):
        for tails in (first, then):
            own = [tails[place] for place in reading.places]
            for place, tables, tail in zip(reading.places, reading.probabilities(own, tokens), own, strict=True):
                assert tables.shape == (len(tail), 3)
                right = whole.probabilities([[*prompts[place], *each] for each in tail], tokens)
                # Logits are read in float32, as those of half precision are.
                np.testing.assert_allclose(tables, right, rtol=1e-5, atol=1e-12)
        seen += reading.places
    assert sorted(seen) == list(range(len(prompts)))


def test_each_distinct_token_is_computed_once(readers, monkeypatch):
    packed, _ = readers(max_nodes=1000, row_nodes=1000)
    computed = []
    forward = PackedReader.forward

    def counting(self, ids, *rest, **options):
        computed.append(sum(map(len, ids)))
        return forward(self, ids, *rest, **options)

    monkeypatch.setattr(PackedReader, "forward", counting)
    prompts = [[5, 6, 7, 8], [5, 6, 7, 9], [5, 6, 8, 8, 9]]
    [reading] = packed.read(prompts)
    reading.probabilities([[()]] * 3, [1])
    assert sum(computed) == 2 + 3 + 3  # "5 6"; "7 8" and "9"; "8 8 9"
    reading.probabilities([[(5,), (6,)], [(5, 5)], []], [1])
    assert sum(computed) == 8 + 4


def test_the_next_pack_s_prefix_begins_where_it_leaves_the_last_one(readers, monkeypatch):
    packed, _ = readers(max_nodes=4, row_nodes=4)
    prompts = [[*[5] * 30, tail, k] for tail in (6, 7) for k in range(5, 9)]
    computed = []
    forward = PackedReader.forward
    monkeypatch.setattr(
        PackedReader, "forward", lambda self, ids, *rest, **options: (
            computed.append(sum(map(len, ids))), forward(self, ids, *rest, **options))[1],
    )  # fmt: skip
    for reading in packed.read(prompts):
        reading.probabilities([[()]] * len(reading.places), [1])
    assert computed == [31, 4, 1, 4]  # the second pair's prefix adds its one token to the 30 that are there


def tiny(config):
    """Return a model of a configuration, with fixed random weights."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return AutoModelForCausalLM.from_config(config).float().eval()


def small(name, **changes):
    from transformers import AutoConfig

    sizes = {"vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    return AutoConfig.for_model(name, **sizes, **heads, initializer_range=0.3, **changes)


TRIED = [list(range(10, 40)), list(range(60, 20, -1))]


@pytest.mark.model
@pytest.mark.parametrize(
    "name", ["llama", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gemma3_text", "phi3", "olmo2"]
)
def test_families_of_models_can_be_read_packed(name):
    import torch

    model = tiny(small(name, pad_token_id=0, bos_token_id=1, eos_token_id=2))
    packed = PackedReader(torch, model, device="cpu", max_nodes=100, row_nodes=30)
    assert reads_packed(packed, WholeReader(torch, model, device="cpu", batch_size=4), TRIED)


@pytest.mark.model
def test_a_model_with_a_memory_of_another_kind_is_not_read_packed():
    import torch
    from transformers import MambaConfig

    model = tiny(MambaConfig(vocab_size=300, hidden_size=32, num_hidden_layers=2, state_size=8, initializer_range=0.3))
    packed = PackedReader(torch, model, device="cpu", max_nodes=100, row_nodes=30)
    assert not reads_packed(packed, WholeReader(torch, model, device="cpu", batch_size=4), TRIED)


@pytest.mark.model
def test_a_mask_that_is_not_heeded_is_noticed():
    import torch

    model = tiny(small("llama"))
    packed = PackedReader(torch, model, device="cpu", max_nodes=100, row_nodes=30)
    forward = packed.forward
    packed.forward = lambda ids, positions, mask, *rest, **options: forward(
        ids, positions, np.ones_like(mask), *rest, **options
    )
    assert not reads_packed(packed, WholeReader(torch, model, device="cpu", batch_size=4), TRIED)


@pytest.mark.model
def test_a_window_is_told_where_layers_look_no_further():
    assert sliding_window(small("llama")) is None
    assert sliding_window(small("mistral", sliding_window=7)) == 7
    assert sliding_window(small("gemma3_text", sliding_window=9)) == 9
    assert sliding_window(small("qwen2", sliding_window=7, use_sliding_window=False)) is None


def test_prompts_longer_than_the_window_are_read_whole(make_model, open_engine, tmp_path):
    # Oracle: the whole sequence, by transformers alone. A pack would let each token see them all.
    import torch

    folder = make_model()
    model = tiny(small("mistral", sliding_window=6, pad_token_id=0, bos_token_id=None, eos_token_id=2))
    model.resize_token_embeddings(600)
    model.save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    engine = open_engine(tmp_path)
    for prompt in TRIED:
        [reading] = engine.read([prompt])
        [table] = reading.probabilities([[(5,)]], [7, 9])
        with torch.inference_mode():
            right = model(torch.tensor([[*prompt, 5]])).logits[0, -1].softmax(-1)[[7, 9]].numpy()
        np.testing.assert_allclose(table[0], right, rtol=1e-4)
