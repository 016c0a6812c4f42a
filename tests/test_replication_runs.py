"""The replication, end to end on a tiny model: the study's files in invented words, its parser, its tokens."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from runs import as_stored

from audit.engines.chat import ChatTokenizer
from audit.report.sentences import LIMITS
from audit.runs.differences import choices_of, telling_choices
from audit.runs.manifest import Manifest
from stimuli.prompts import Prompt

CONST = '''
persona_prompt_0 = "Be {persona}."
system_prompt_0 = """{persona_prompt}
Grade 0 to 100."""
system_prompt_1 = """{persona_prompt}
Grade 0 to 10."""
crowd_enVent_user_input = "{experiencer} told us of {emotion}: <{sent}> Grade: "
'''
_DRAWN = ("cells", "ratings", "published", "published-masked", "interaction", "null")
HEADER = "emotion\ttext_id\tgenerated_text\tfirst_person_text\tthird_person_text"


@pytest.fixture
def replicate(audit, tmp_path):
    """Return a function that runs the replication of two narratives into ``run``, in the folder that a test runs in."""
    rows = [f"joy\t{k}\tstop {k}\tI was at stop {k}\tThe person was at stop {k}" for k in range(4)]
    (tmp_path / "crowd-enVent_joy.tsv").write_text("\n".join([HEADER, *rows]) + "\n")
    (tmp_path / "const.py").write_text(CONST)

    def run(model, *more, run_dir="run"):
        return audit(
            "run", "+model=own", f"model.path={model}", "model.max_model_len=1024", "engine=transformers",
            "engine.device=cpu", "experiment=replication", f"stimuli.path={tmp_path}", "stimuli.emotions=[joy]",
            f"prompt.path={tmp_path / 'const.py'}", "dimensions=religion", "elicitation.max_tokens=8",
            "elicitation.check_sample=0", "elicitation.noise_sample=0", "elicitation.manipulation=0",
            "statistics.n_permutations=200", "shard_size=500", f"run_dir={run_dir}", *more,
        )  # fmt: skip

    return run


def table_of(run, name):
    return pd.read_csv(run / "tables" / f"{name}.csv")


def manifest_of(run):
    return json.loads((run / "manifest.json").read_text())


def test_answers_of_85_on_a_scale_to_10_are_shown_counted_and_named(replicate, audit, make_model, tmp_path):
    """The study's parser takes any number up to 100, whatever the scale."""
    assert replicate(make_model(says="85"), "prompt.variant=10-scale") == 0
    run = tmp_path / "run"
    outcomes = table_of(run, "outcomes").set_index("pairs").loc["all"]
    assert (outcomes["n_rated"], outcomes["n_above_scale"], outcomes["n_below_scale"]) == (144, 144, 0)
    assert (outcomes["ceiling_share"], outcomes["floor_share"]) == (0, 0)
    page = (run / "report.html").read_text()
    assert LIMITS["beyond_scale"][0] in page
    assert "144 ratings above 10" in page
    assert LIMITS["scale_end"][0] not in page
    assert audit("report", "run") == 0
    # Ratings on the scale and beyond it, of an effect of their own: everything is drawn and counted.
    shard = run / "ratings.parquet"
    table = pq.read_table(shard)
    rng = np.random.default_rng(0)
    mixed = np.where(rng.random(table.num_rows) < 0.25, 85.0, rng.integers(0, 11, table.num_rows))
    mixed[:7] = [-3, 0, 10, 10, 85, 85, 2]
    at = table.column_names.index("intensity")
    pq.write_table(table.set_column(at, table.field(at), pa.array(mixed, table.field(at).type)), shard)
    as_stored(run)
    assert audit("report", "run") == 0
    outcomes = table_of(run, "outcomes").set_index("pairs").loc["all"]
    n_above = int((mixed > 10).sum())
    assert (outcomes["n_above_scale"], outcomes["n_below_scale"]) == (n_above, 1)
    assert outcomes["ceiling_share"] == pytest.approx((mixed == 10).mean())
    assert outcomes["floor_share"] == pytest.approx((mixed == 0).mean())
    page = (run / "report.html").read_text()
    assert f"1 rating below 0 and {n_above} ratings above 10, beyond the scale from 0 to 10" in page
    drawn = {name: (run / "figures" / f"{name}-religion-published-10-scale.svg").read_text() for name in _DRAWN}
    assert "beyond the scale" in drawn["cells"]
    assert "above 10" in drawn["ratings"]
    assert "below 0" in drawn["ratings"]
    distributions = table_of(run, "distributions")
    assert distributions.groupby("pairs")["share"].sum().tolist() == pytest.approx([1, 1, 1])
    assert int(distributions["n_ratings"].sum()) == len(mixed)
    beyond = distributions[(distributions["low"] == 10) & (distributions["high"] == 85)]
    assert int(beyond["n_ratings"].sum()) == n_above


def test_the_replication_feeds_the_token_that_begins_a_text_twice(replicate, tiny_model, tmp_path, capsys):
    assert replicate(tiny_model, "prompt.variant=origin") == 0
    assert (
        "engine.add_special_tokens: the tokenizer adds <|start|> before the rendered prompt; the chat template writes "
        "<|start|> too, so the model reads it twice"
    ) in capsys.readouterr().err
    manifest = manifest_of(tmp_path / "run")
    assert manifest["example_prompt"]["fed"].startswith("<|start|><|start|>system\nBe ")
    assert manifest["example_prompt"]["fed"].endswith("<|start|>assistant\n")
    assert "reads it twice" in manifest["example_prompt"]["special_tokens"]
    assert manifest["identity"]["special_tokens"] == "added to what the chat template made"
    twice = pd.read_parquet(tmp_path / "run" / "ratings.parquet")
    # It is part of what the run is, in either direction.
    off = "engine.add_special_tokens=false"
    assert replicate(tiny_model, off) == 2
    assert "special_tokens is 'added to what the chat template made' there and None here" in capsys.readouterr().err
    assert replicate(tiny_model, off, run_dir="once") == 0
    assert "add_special_tokens" not in capsys.readouterr().err
    once = pd.read_parquet(tmp_path / "once" / "ratings.parquet")
    assert set(once["n_prompt_tokens"] - twice["n_prompt_tokens"]) == {-1}
    assert "fed" not in manifest_of(tmp_path / "once")["example_prompt"]
    assert "special_tokens" not in manifest_of(tmp_path / "once")["identity"]
    assert replicate(tiny_model, run_dir="once") == 2
    assert "special_tokens is None there" in capsys.readouterr().err
    # Side by side, the two are told apart, and neither is a reference for the other's strategies.
    named = [choices_of(Manifest.read(tmp_path / run), variant="origin") for run in ("run", "once")]
    assert telling_choices(named) == ["engine"]
    assert [each["engine"].endswith(" with special tokens added") for each in named] == [True, False]
    assert named[0]["answering"] != named[1]["answering"]


PROMPTS = [Prompt("Be a Hindu.", "Rate: 1"), Prompt("Be a Jew.", "Rate: 1"), Prompt("", "x"), Prompt("Be a Jew.", "y")]


def test_added_tokens_are_those_that_the_tokenizer_gives_a_string(tiny_model):
    """Oracle: the tokenizer, called on the rendered string as vLLM calls it."""
    plain = ChatTokenizer.load(str(tiny_model), name="tiny", trust_remote_code=False)
    adding = ChatTokenizer.load(str(tiny_model), name="tiny", trust_remote_code=False, add_special_tokens=True)
    wanted = [plain.hf(plain.render(prompt), add_special_tokens=True)["input_ids"] for prompt in PROMPTS]
    assert adding.encode_prompts(PROMPTS) == wanted
    start = plain.hf.convert_tokens_to_ids("<|start|>")
    assert all(ids[:2] == [start, start] for ids in wanted)
    assert plain.encode_prompts(PROMPTS) == [ids[1:] for ids in wanted]
    assert (plain.say_added(), plain.added) == ("", ((), ()))
    assert adding.as_fed(PROMPTS[0]).startswith("<|start|><|start|>system\nBe a Hindu.")


def test_a_model_whose_tokenizer_adds_nothing_is_unaffected_and_says_so(tiny_model):
    plain = ChatTokenizer.load(str(tiny_model), name="tiny", trust_remote_code=False)
    before = plain.encode_prompts(PROMPTS)
    other = ChatTokenizer.load(str(tiny_model), name="tiny", trust_remote_code=False, add_special_tokens=True)
    from tokenizers import processors

    other.hf.backend_tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    assert other.encode_prompts(PROMPTS) == before
    assert other.say_added().endswith("adds no tokens, so prompts are the same without it")


def test_tokens_at_both_ends_and_a_template_without_them_are_told(tiny_model):
    from tokenizers import processors

    adding = ChatTokenizer.load(str(tiny_model), name="tiny", trust_remote_code=False, add_special_tokens=True)
    ids = {name: adding.hf.convert_tokens_to_ids(name) for name in ("<|pad|>", "<|end|>")}
    adding.hf.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|pad|> $A <|end|>", special_tokens=list(ids.items())
    )
    assert adding.added == ((ids["<|pad|>"],), (ids["<|end|>"],))
    [found] = adding.encode_prompts(PROMPTS[:1])
    assert (found[0], found[-1]) == (ids["<|pad|>"], ids["<|end|>"])
    said = adding.say_added()
    assert "<|pad|> before the rendered prompt and <|end|> after the rendered prompt" in said
    assert "twice" not in said


@pytest.mark.parametrize("added", [False, True])
def test_both_engines_feed_the_same_tokens(added, tiny_model, tiny_config, monkeypatch):
    """vLLM itself is stood in for: what is asked is which tokens each engine's prompts have."""
    import sys
    from types import ModuleType, SimpleNamespace

    from transformers import AutoTokenizer

    from audit.engines.resolve import resolve_model
    from audit.engines.transformers import TransformersEngine
    from audit.engines.vllm import VllmEngine

    cache = SimpleNamespace(kv_cache_size_tokens=32, block_size=16)
    library = ModuleType("vllm")
    library.__version__, library.__version_tuple__ = "0", (0,)
    library.SamplingParams = dict
    library.LLM = lambda **_: SimpleNamespace(
        generate=lambda *_, **__: [],
        get_tokenizer=lambda: AutoTokenizer.from_pretrained(tiny_model),
        llm_engine=SimpleNamespace(
            vllm_config=SimpleNamespace(cache_config=cache), model_config=SimpleNamespace(dtype="torch.float32")
        ),
    )
    platforms = ModuleType("vllm.platforms")
    platforms.current_platform = SimpleNamespace(is_cpu=lambda: True)
    monkeypatch.setitem(sys.modules, "vllm", library)
    monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    model, engine = tiny_config(tiny_model)
    engine = engine.model_copy(update={"add_special_tokens": added})
    files = resolve_model(model)
    fed = [made(model, engine, files, seed=0).tokenizer for made in (VllmEngine, TransformersEngine)]
    ids = [tokenizer.encode_prompts(PROMPTS) for tokenizer in fed]
    assert ids[0] == ids[1]
    start = fed[0].hf.convert_tokens_to_ids("<|start|>")
    assert all((prompt[:2] == [start, start]) == added for prompt in ids[0])
    assert fed[0].say_added() == fed[1].say_added()
