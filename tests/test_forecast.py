"""What a run is going to take: counts are exact, and what is estimated says what it rests on."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from runs import FOUR_RELIGIONS

from audit.runs.store import RunFolder
from audit.tables.stages import STAGES

REPORTS = Path(__file__).parents[1] / "reports"

SMALL = (
    "engine=transformers", "engine.device=cpu", "stimuli.situations_per_emotion=2", "stimuli.emotions=[sad,happy]",
    *FOUR_RELIGIONS, "statistics.n_permutations=100",
)  # fmt: skip
N = 100  # 5 perceivers x 5 experiencers x 4 narratives
NO_CHECKS = ("elicitation.check_sample=0", "elicitation.noise_sample=0", "elicitation.manipulation=0")


@pytest.fixture
def planned(audit, tmp_path, capsys):
    """Return a function that plans a run and returns the plan, and what was printed."""

    def plan(*words):
        capsys.readouterr()
        assert audit("plan", *words, f"out={tmp_path / 'plan.json'}") == 0
        return json.loads((tmp_path / "plan.json").read_text()), capsys.readouterr()

    return plan


def by_kind(plan):
    return {each["what"]: each for each in plan["calls"]}


def test_prompts_and_their_tokens_are_those_that_the_run_asks(planned, audit, number_model, tmp_path):
    words = (f"model.path={number_model}", *SMALL, "elicitation=expected", f"run_dir={tmp_path / 'run'}",
             "elicitation.check_sample=10", "elicitation.noise_sample=8", "elicitation.manipulation=4",
             "elicitation.prefill='Number: '")  # fmt: skip
    plan, said = planned(*words, "probe=0")
    assert not (tmp_path / "run").exists()
    assert f"prompts                 {N}" in said.out.replace("  ", "  ")
    assert "not probed (probe=0)" in said.out
    assert audit("run", *words) == 0
    ratings = RunFolder(tmp_path / "run").read_ratings(n_prompts=N)
    prompts = by_kind(plan)["prompts"]
    assert prompts["n"] == prompts["n_left"] == N
    assert prompts["tokens_read"] == prompts["tokens_read_most"] == ratings["n_prompt_tokens"].sum()
    asked = json.loads((tmp_path / "run" / "manifest.json").read_text())["checks"]
    assert by_kind(plan)["without identities"]["n"] == asked["manipulation"]["n_prompts"]
    assert by_kind(plan)["asked again"]["n"] == asked["asked_again"]["n_prompts"]
    assert asked["elicitation_sample"]["n_prompts"] <= by_kind(plan)["answered in words"]["n"] == 10


def test_requests_to_vllm_are_the_nodes_of_its_numbers(planned, tiny_model, number_model):
    words = (*SMALL[1:], *NO_CHECKS, "elicitation=expected", "probe=0")
    # From 0 to 100, digit by digit: the beginning, 10 digits, 90 numbers of two, 100; and the same after a space.
    # Calibrated, only what a longer number begins with: the beginning, 1 to 9, 10.
    plan, said = planned(f"model.path={tiny_model}", "engine=vllm", *words)
    assert plan["requests_most"] == {"calibrated": 2 * (1 + 9 + 1), "exact": 2 * (1 + 10 + 90 + 1)}
    assert "at most 22 with elicitation.ends=calibrated, 204 with elicitation.ends=exact" in said.out
    plan, _ = planned(f"model.path={tiny_model}", "engine=vllm", "elicitation.ends=exact", *words)
    assert plan["requests_most"] == {"exact": 204}
    # With a token a number up to 100, three of them may go on: 05, 1000, and 675, as this tokenizer has learnt 67.
    plan, _ = planned(f"model.path={number_model}", "engine=vllm", *words)
    assert plan["requests_most"] == {"calibrated": 2, "exact": 2 * (1 + 3)}
    for others in (("engine=transformers", *words), ("engine=vllm", *words, "elicitation=generate")):
        plan, said = planned(f"model.path={tiny_model}", *others)
        assert plan["requests_most"] == {}
        assert "requests a prompt" not in said.out


def test_of_a_run_that_goes_on_what_is_left_is_planned(planned, audit, number_model, tmp_path):
    run = tmp_path / "run"
    words = (
        f"model.path={number_model}",
        *SMALL,
        *NO_CHECKS,
        "elicitation=expected",
        f"run_dir={run}",
        "shard_size=30",
    )
    assert audit("run", *words) == 0
    whole = RunFolder(run).read_ratings(n_prompts=N)
    plan, said = planned(*words)
    assert by_kind(plan)["prompts"]["n_left"] == 0
    assert "all prompts are answered" in said.out
    with RunFolder(run) as folder:  # as it was before its second shard was asked
        rows = [whole.iloc[start : start + 30] for start in (0, 60, 90)]
        folder.clear("ratings")
        for number, own in zip((0, 2, 3), rows, strict=True):
            folder.write_shard(number, own)
    plan, _ = planned(*words, "probe=0")
    prompts = by_kind(plan)["prompts"]
    assert (prompts["n"], prompts["n_left"]) == (N, 30)
    assert prompts["tokens_read"] == whole["n_prompt_tokens"].iloc[30:60].sum()


def test_a_strategy_s_stages_have_bounds_that_hold(planned, audit, make_model, tmp_path):
    model = make_model(says="42")
    words = (f"model.path={model}", *SMALL, *NO_CHECKS, "elicitation=generate", "elicitation.max_tokens=4",
             "strategy=perspective", f"run_dir={tmp_path / 'run'}")  # fmt: skip
    plan, _ = planned(*words, "probe=0", "tokens=1")
    assert audit("run", *words) == 0
    folder = RunFolder(tmp_path / "run")
    stages, ratings = folder.parts(STAGES).frame(), folder.read_ratings(n_prompts=N)
    kinds = by_kind(plan)
    for name, own in stages.groupby("stage", observed=True):
        read = own["n_prompt_tokens"].sum()
        assert kinds[f"stage {name}"]["tokens_read"] <= read <= kinds[f"stage {name}"]["tokens_read_most"]
        assert own["n_tokens"].sum() <= kinds[f"stage {name}"]["tokens_written_most"]
    asked = ratings["n_prompt_tokens"].sum()
    assert kinds["prompts"]["tokens_read"] < asked <= kinds["prompts"]["tokens_read_most"]


@pytest.mark.parametrize("strategy", ["none", "perspective"])
def test_thoughts_have_bounds_that_hold(strategy, planned, audit, make_model, tmp_path):
    words = (f"model.path={make_model(says='42')}", *SMALL, *NO_CHECKS, "elicitation=generate",
             "elicitation.max_tokens=4", f"strategy={strategy}", "thinking=budget", "thinking.max_tokens=9",
             f"run_dir={tmp_path / 'run'}")  # fmt: skip
    plan, said = planned(*words, "probe=5", "tokens=1")
    assert plan["n_too_long"] == (0 if strategy == "none" else None)
    longest = plan["calls"][0]["tokens_read"] // N + 9 + 4 + 16
    if strategy == "none":  # the prompts are about as long as each other
        short, _ = planned(*words, "probe=0", f"model.max_model_len={longest}")
        assert 0 < short["n_too_long"] < N
    assert audit("run", *words) == 0
    folder, thought = RunFolder(tmp_path / "run"), by_kind(plan)["thought"]
    stages, prompts = folder.parts(STAGES).frame(), by_kind(plan)["prompts"]
    own = stages.loc[stages["stage"] == "thought"]
    assert thought["n"] == thought["n_left"] == len(own) == N
    assert thought["tokens_read"] <= own["n_prompt_tokens"].sum() <= thought["tokens_read_most"]
    assert (thought["tokens_read"] == thought["tokens_read_most"]) == (strategy == "none")
    assert 0 < own["n_tokens"].sum() <= thought["tokens_written_most"] == 9 * N
    asked = folder.read_ratings(n_prompts=N)["n_prompt_tokens"].sum()
    assert prompts["tokens_read"] < asked <= prompts["tokens_read_most"]
    assert "thought" in said.out


def test_a_thought_at_a_server_is_paid_for_and_kept(planned):
    # Nothing is asked of the server: its tokens are not counted, and two characters are taken for one.
    words = ("model=vllm-serve", "model.path=x", "model.base_url=http://127.0.0.1:9/v1", *SMALL[2:], *NO_CHECKS,
             "elicitation=expected", "run_dir=run")  # fmt: skip
    priced = ("price.input=1000000", "price.output=0")  # one a token
    off, _ = planned(*words, *priced)
    on, _ = planned(*words, *priced, "thinking=budget", "thinking.max_tokens=100")
    check = by_kind(off)["to check the server"]
    assert (check["n_left"], check["exact"]) == (2, False)
    beside, letters = check["n_characters"] // 2, off["n_characters"] - check["n_characters"]
    assert on["n_characters"] == 2 * letters + check["n_characters"]
    assert on["price_most"] == letters + 101 * N + beside  # a thought that is closed ends its line
    assert on["bytes_on_disk"] - off["bytes_on_disk"] >= 100 * N
    led, _ = planned(*words, *priced, "strategy=perspective")
    both, _ = planned(*words, *priced, "strategy=perspective", "thinking=budget", "thinking.max_tokens=100")
    [stage] = [each["tokens_written_most"] for each in led["calls"] if each["within"]]
    assert led["price_most"] == (led["n_characters"] - check["n_characters"]) // 2 + stage + beside
    # A thought reads the stage, too.
    assert both["price_most"] == (both["n_characters"] - check["n_characters"]) // 2 + beside + 2 * stage + 101 * N


def test_a_probe_asks_the_run_s_own_prompts_and_keeps_nothing(planned, number_model, tmp_path):
    words = (f"model.path={number_model}", *SMALL, *NO_CHECKS, "elicitation=expected", "reports_dir=reports")
    plan, said = planned(*words, "probe=5")
    assert not (tmp_path / "reports").exists()
    probe = plan["probe"]
    assert probe["n"] >= 25
    assert all(rate > 0 for rate in probe["rates"])
    assert plan["seconds_low"] <= plan["seconds"] <= plan["seconds_high"]
    assert "probing" in said.err
    # The run's own progress, of which most is not asked, is not shown.
    assert not re.search(rf"^\d+ of {N} prompts", said.err, re.MULTILINE)


def test_the_gap_that_is_found_is_that_of_the_earlier_run_s_own_table(planned, audit, number_model, tmp_path, capsys):
    run = tmp_path / "run"
    words = (f"model.path={number_model}", *SMALL, *NO_CHECKS, "elicitation=expected")
    assert audit("run", *words, f"run_dir={run}") == 0
    power = pd.read_csv(run / "tables" / "power.csv").iloc[0]
    wanted = f"statistics.wanted={power['detectable_points'] * 2}"
    plan, said = planned(*words, wanted, f"like={run}", "probe=0")
    [own] = [gap for gap in plan["detectable"] if gap["scope"] == "narratives"]
    assert own["points"] == pytest.approx(power["detectable_points"])
    assert 2 <= own["n_for_wanted"] < own["n_narratives"]
    assert "points are found by stimuli.situations_per_emotion=" in said.err
    more, _ = planned(*words[:3], "stimuli.situations_per_emotion=8", *words[4:], f"like={run}", "probe=0")
    [later] = [gap for gap in more["detectable"] if gap["scope"] == "narratives"]
    assert later["n_narratives"] == 16
    assert later["points"] < own["points"] / 1.9  # four times the narratives, and more degrees of freedom
    path = run / "tables" / "gap.csv"
    path.write_text(path.read_text(encoding="utf-8").replace("narratives", "narrativez"), encoding="utf-8")
    capsys.readouterr()
    assert audit("plan", *words, f"like={run}", "probe=0") == 2
    assert (
        f"{path} has changed since it was written (its SHA-256 differs); `python "
        "-m audit report" in capsys.readouterr().err
    )


def test_what_fits_into_money_fits(planned, number_model):
    words = (f"model.path={number_model}", *SMALL, *NO_CHECKS, "elicitation=generate", "probe=0", "price.input=2",
             "price.output=10")  # fmt: skip
    plan, _ = planned(*words)
    cost = (plan["tokens_read"][1] * 2 + plan["tokens_written_most"] * 10) / 1e6
    assert plan["price_most"] == pytest.approx(cost)
    fits, _ = planned(*words, f"price.most={cost * 0.6}")
    assert fits["fits"] == [f"price.most={cost * 0.6:g}: stimuli.situations_per_emotion=1 fits (2 narratives of 4)"]
    assert planned(*words, f"price.most={cost * 1.01}")[0]["fits"][0].endswith("everything fits")
    assert "not even 1 narrative" in planned(*words, f"price.most={cost / 100}")[0]["fits"][0]
    less, _ = planned(*(w.replace("emotion=2", "emotion=1") for w in words))
    assert less["price_most"] <= cost * 0.6


def test_what_is_asked_beside_the_ratings_does_not_shrink_with_the_narratives(planned, number_model):
    words = (f"model.path={number_model}", *SMALL, "elicitation=generate", "elicitation.noise_sample=45",
             "elicitation.manipulation=4", "probe=0", "price.input=2", "price.output=10")  # fmt: skip
    whole, _ = planned(*words)
    half, _ = planned(*(w.replace("emotion=2", "emotion=1") for w in words))
    assert half["price_most"] > whole["price_most"] * 0.6
    fits, _ = planned(*words, f"price.most={whole['price_most'] * 0.6}")
    assert "not even 1 narrative" in fits["fits"][0]
    fits, _ = planned(*words, f"price.most={half['price_most'] * 1.05}")
    assert "situations_per_emotion=1 fits" in fits["fits"][0]


def test_time_that_is_fixed_is_taken_off_before_a_part_of_the_narratives_is(planned, number_model):
    words = (f"model.path={number_model}", *SMALL, "elicitation=expected", "elicitation.check_sample=0",
             "elicitation.noise_sample=90", "probe=2")  # fmt: skip
    plan, _ = planned(*words, "hours=5")
    assert plan["fits"] == ["hours=5: everything fits"]
    again = next(each["n_left"] for each in plan["calls"] if each["what"] == "asked again")
    assert plan["seconds"] - plan["seconds_fixed"] == pytest.approx(N / plan["probe_per_s"], rel=0.01)
    assert plan["seconds_fixed"] > again / plan["probe_per_s"]


def test_prompts_that_do_not_fit_are_those_that_fail(planned, audit, number_model, tmp_path):
    words = (f"model.path={number_model}", *SMALL, *NO_CHECKS, "elicitation=expected")
    whole, _ = planned(*words, "probe=0")
    mean = whole["calls"][0]["tokens_read"] // N
    short = (*words, f"model.max_model_len={mean + 3}")
    plan, _ = planned(*short, "probe=0")
    assert audit("run", *short, f"run_dir={tmp_path / 'run'}") == 0
    failed = int((RunFolder(tmp_path / "run").read_ratings(n_prompts=N)["status"] == "failed").sum())
    assert 0 < plan["n_too_long"] == failed < N


def test_thoughts_are_counted_on_the_disk_where_ratings_are_read_from_probabilities(planned, make_model):
    words = (f"model.path={make_model(says='42')}", *SMALL, *NO_CHECKS, "elicitation=expected", "probe=0",
             "model.max_model_len=4096")  # fmt: skip
    without, _ = planned(*words)
    plan, _ = planned(*words, "thinking=on", "thinking.max_tokens=1000")
    assert plan["bytes_on_disk"] > without["bytes_on_disk"] + 1000 * N


@pytest.mark.parametrize(
    ("gpus", "words", "n"),
    [
        ([], ("engine.replicas=2",), 1),  # which share the threads of a CPU
        (["0", "1", "2"], ("engine.replicas=auto", "shard_size=10"), 3),
        (["0", "1", "2"], ("engine.replicas=auto", "shard_size=50"), 2),
        (["0", "1", "2"], ("engine=ray", "engine.name=transformers", "engine.replicas=3"), 1),
    ],
)
def test_time_is_divided_among_those_alone_who_have_something_of_their_own(gpus, words, n, number_model, monkeypatch):
    from audit.configuration.composition import compose
    from audit.extras.planning.forecast import _n_workers

    monkeypatch.setattr("audit.asking.workers.devices.visible_gpus", lambda: gpus)
    monkeypatch.setattr("audit.engines.transformers.choose_device", lambda _: "cuda" if gpus else "cpu")
    found = []
    words = [f"model.path={number_model}", *SMALL, *words]
    compose(words, lambda job: found.append(_n_workers(job.validated(), N)))
    assert found == [n]


def test_only_what_the_tokenizer_takes_is_downloaded_to_count_tokens(planned, number_model, monkeypatch):
    import huggingface_hub

    asked = {}

    def download(name, *, allow_patterns, **options):
        asked[name] = allow_patterns
        return str(number_model)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    plan, _ = planned("model.path=some/model", *SMALL, *NO_CHECKS, "elicitation=expected", "probe=0")
    assert plan["calls"][0]["tokens_read"] > 0
    assert "*.json" in asked["some/model"]
    assert "*.safetensors" not in asked["some/model"]


def test_a_run_of_another_design_is_named_as_such_and_one_of_another_scale_is_refused(
    planned, audit, number_model, tmp_path, capsys
):
    run = tmp_path / "run"
    words = (f"model.path={number_model}", *SMALL, *NO_CHECKS, "elicitation=expected")
    assert audit("run", *words, f"run_dir={run}") == 0
    _, said = planned(*words, f"like={run}", "probe=0")
    assert "another design" not in said.err
    _, said = planned(*words, f"like={run}", "probe=0", "elicitation.prefill='Number: '", "prompt=persona-1")
    assert "has another design (" in said.err
    assert "elicitation.prefill" in said.err
    assert "prompt.variant" in said.err
    one = ("stimuli.situations_per_emotion=1", "stimuli.emotions=[sad]")
    _, said = planned(
        *(w for w in words if not w.startswith(("stimuli.s", "stimuli.e"))), *one, f"like={run}", "probe=0"
    )
    assert "is unknown: an interval needs at least 2 narratives" in said.err
    assert audit("plan", *words, f"like={run}", "probe=0", "prompt=scale-10") == 2
    assert "its ratings are from 0 to 100, but this plan's go from 0 to 10" in capsys.readouterr().err


def test_a_sweep_has_a_plan_each_and_their_sum(planned, number_model):
    plans, said = planned("-m", f"model.path={number_model}", *SMALL, *NO_CHECKS, "prompt=origin,scale-10", "probe=0")
    assert len(plans) == 2
    assert "all 2 runs: 200 prompts" in said.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("price.most=3",), "price.most needs the price of tokens"),
        (("price.input=3",), "price.input and price.output must be given together"),
        (("hours=3",), "hours needs a probe"),
        (("probe=-1",), "probe=-1: must be a number of at least 0"),
        (("like=nowhere",), "like=nowhere has no manifest.json, so it is not a run; give a run folder"),
        ((f"like={REPORTS / 'example-replies'}",), "is a run of replies, whose gaps are not in points; give a run of"),
        (("prob=3",), "prob: unknown option"),
    ],
)
def test_what_cannot_be_planned_ends_in_one_line(words, says, audit, number_model, capsys):
    assert audit("plan", f"model.path={number_model}", *SMALL, "probe=0" if "probe=-1" not in words else words[0], *(
        w for w in words if not w.startswith("probe"))) == 2  # fmt: skip
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("audit: ")
    assert says in last


def test_of_a_server_s_model_tokens_are_not_counted_and_nothing_is_asked(planned):
    plan, said = planned("model=openai", "model.path=gpt", *SMALL[2:], *NO_CHECKS)
    assert plan["tokens_read"] is None
    assert plan["n_characters"] > 1000
    plan, said = planned("model=openai", "model.path=gpt", *SMALL[2:], "elicitation=expected", "price.input=1",
                         "price.output=1", "elicitation.noise_sample=90", "elicitation.check_sample=0")  # fmt: skip
    kinds = by_kind(plan)
    assert kinds["prompts"]["tokens_written_most"] == 5 * N  # a space, three digits, and what follows them
    assert kinds["asked again"]["n_characters"] > 0.8 * kinds["prompts"]["n_characters"]
    read = sum(each["n_characters"] // 2 + each["shown_most"] for each in plan["calls"])
    assert plan["price_most"] == pytest.approx((read + plan["tokens_written_most"]) / 1e6)
    assert "if no token has fewer than two characters" in said.out
    assert "a server's model costs money; probe=60 asks it" in said.out
