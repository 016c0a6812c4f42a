"""A real llama.cpp server of the embedded model, whose weights are quantised; of exact ones: test_token_servers.py."""

import pytest
from runs import FOUR_RELIGIONS
from serving import llama_cpp_server

from audit.asking.elicitation.expected import ExpectedElicitation
from audit.configuration.engine import ServerConfig
from audit.engines.open import open_model
from audit.runs.store import RunFolder
from audit.tables.ratings import Status
from stimuli.prompts import Prompt, Scale

pytestmark = pytest.mark.slow
TEN = Scale(0, 10)
KEY = "sk-test-31bd88"
STARTS = 120  # seconds, on a busy machine
PROMPTS = [
    Prompt(f"You are {who}. Judge from 0 to 10. Answer with a number only.", f"How {what} was it?")
    for who in ("a Muslim", "a Hindu")
    for what in ("sad", "joyful")
]
"""The model answers most of them in words: numbers are among the unlikely tokens."""
SHOWN = (4, 7, 2, 9, 5, 3, 8, 6, 1, 10, 3, 5, 2, 7, 9, 4, 8)
NUMBERED = [
    Prompt(
        "Answer with a number from 0 to 10 only.",
        f"How sad is {asked}?",
        tuple(turn for n in SHOWN for turn in (("user", f"How sad is {n}?"), ("assistant", str(n)))),
    )
    for asked in (2, 7, 10)
]
"""After as many examples it answers with a number."""


@pytest.fixture(scope="module")
def url(tmp_path_factory, child_environment):
    """Serve the embedded model, whose name there is `small`."""
    log = tmp_path_factory.mktemp("llama") / "log.txt"
    with llama_cpp_server(child_environment, log, key=KEY, starts_within=STARTS) as address:
        yield address


@pytest.fixture
def opened(url, tiny_config, monkeypatch):
    monkeypatch.setenv("TESTS_KEY", KEY)
    monkeypatch.setattr("audit.engines.open._kept", None)
    model, engine = tiny_config("small", engine="openai", dtype="auto", base_url=url, api_key_env="TESTS_KEY")
    loaded = open_model(model, engine.model_copy(update={"server": ServerConfig(concurrency=4)}), seed=0)
    yield loaded
    loaded.engine.close()
    monkeypatch.setattr("audit.engines.open._kept", None)


@pytest.mark.parametrize(
    ("prompts", "mass", "off"), [(NUMBERED, (0.9, 1), 0.1), (PROMPTS, (0, 0.05), 0.3)], ids=["numbers", "words"]
)
def test_ratings_are_those_of_the_engine_here_but_for_quantised_arithmetic(prompts, mass, off, opened, open_engine):
    theirs = ExpectedElicitation(TEN, 0.0).elicit(opened.engine, prompts)
    ours = ExpectedElicitation(TEN, 0.0).elicit(open_engine("embedded:smollm2"), prompts)
    assert {each.status for each in theirs} == {Status.RATED}
    for their, our in zip(theirs, ours, strict=True):
        assert their.intensity == pytest.approx(our.intensity, abs=off)
        assert their.pruned_points == pytest.approx(0, abs=1e-9)
        assert mass[0] < their.number_mass < mass[1]
        assert their.number_mass == pytest.approx(our.number_mass, abs=0.02)
        assert their.n_prompt_tokens == our.n_prompt_tokens


def test_a_run_asks_it_and_the_key_is_in_no_file(url, audit, tmp_path, monkeypatch):
    monkeypatch.setenv("TESTS_KEY", KEY)
    run = tmp_path / "run"
    assert audit(
        "run", "model=llama-cpp", f"model.base_url={url}", "model.path=small", "model.api_key_env=TESTS_KEY",
        "elicitation=generate", "elicitation.max_tokens=4", "stimuli.emotions=[sad]",
        "stimuli.situations_per_emotion=1", *FOUR_RELIGIONS, "elicitation.noise_sample=0", "elicitation.manipulation=0",
        "statistics.n_permutations=100", f"run_dir={run}",
    ) == 0  # fmt: skip
    ratings = RunFolder(run).read_ratings(n_prompts=25)
    assert ratings["prompt_index"].tolist() == list(range(25))
    assert ratings["response"].str.strip().ne("").all()
    assert (run / "report.html").stat().st_size > 10_000
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
