import pytest

from audit.runs.differences import (
    choice_table,
    choices_of,
    differing_choices,
    identity_of,
    label_runs,
    reference_runs,
    short,
    telling_choices,
)
from audit.runs.manifest import Manifest

BASE = {
    "seed": 0,
    "model": {"name": "smollm2", "path": "embedded:smollm2", "revision": "r1", "dtype": "bfloat16"},
    "engine": {"name": "vllm", "version": "0.32.0", "device": "cpu"},
    "elicitation": {"method": "expected", "parser": "scale"},
    "scale": {"low": 0, "high": 100},
    "stimuli": {"source": "geneva", "n_narratives": 12, "sha256": "aaaa"},
    "prompt": {"variant": "origin", "sha256": "bbbb"},
    "dimensions": ["religion"],
    "identity": {"identities": "cccc"},
}
OUTSIDE = Manifest.of({
    "seed": 0,
    "model": {"name": "gpt.csv", "files": None},
    "elicitation": {"method": "outside"},
    "scale": {"low": 0.0, "high": 100.0},
    "stimuli": {"source": "gpt.csv", "n_narratives": 12},
    "dimensions": ["religion"],
})  # fmt: skip


def manifest(**changes):
    """Return the base with dotted keys changed, e.g. ``model_name``."""
    changed = {**BASE}
    for key, value in changes.items():
        section, _, name = key.partition("_")
        changed[section] = {**changed[section], name: value} if name else value
    return Manifest.of(changed)


def choices(variant="origin", **changes):
    return choices_of(manifest(**changes), variant=variant)


def stage(name, **changes):
    return {"name": name, "prompt": f"Say {name}.", "temperature": 0.7, **changes}


A, B, C, D = map(stage, "abcd")


def led(sha, *stages, name="ecn", brought=None, recorded=True, **settings):
    """Return the choices of a run that leads the model by a strategy with that hash and those settings."""
    settings = {"name": name, "source": f"source {sha}", "history": "all", "examples": None, **settings}
    return choices(
        strategy={"name": name, "sha256": sha},
        identity={"strategy": {"name": name, "sha256": sha, **(brought or {})}},
        config={"strategy": {**settings, "stages": list(stages)}} if recorded else {},
    )


def shots(sha, n, pool="p" * 64, path=None):
    return led(sha, name="few", examples={"n": n, "pool": path}, brought={"examples": {"pool": pool}})


def labels(*chosen):
    return label_runs(chosen, [f"folder {number}" for number in range(len(chosen))])


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([choices(), choices("persona-1")], ["origin", "persona-1"]),
        ([choices(), choices(model_path="a/b", model_revision="r2")], ["smollm2", "a/b"]),
        (
            [choices(), choices("named"), choices("named", model_path="a/b")],
            ["smollm2, origin", "smollm2, named", "a/b, named"],
        ),
        ([choices(), choices(seed=1)], ["seed 0", "seed 1"]),
        ([choices(), choices(model_dtype="float32")], ["bfloat16", "float32"]),
        ([choices(), choices("scale-10", scale={"low": 0, "high": 10})], ["origin", "scale-10"]),
        ([choices(), choices(scale={"low": 0, "high": 10})], ["scale 0–100", "scale 0–10"]),
        ([choices(), choices(stimuli_sha256="dddd")], ["narratives aaaa", "narratives dddd"]),
        ([choices(), choices_of(OUTSIDE, variant="outside")], ["smollm2, geneva", "gpt.csv"]),
        (
            [choices(), *(choices(model_name="own", model_path=path) for path in ("/models/tiny", "x/y"))],
            ["smollm2", "tiny", "x/y"],
        ),
        ([choices(), choices()], ["folder 0", "folder 1"]),
        ([choices(), choices(), choices("named")], ["folder 0", "folder 1", "folder 2"]),
    ],
)  # fmt: skip
def test_a_label_names_what_a_reader_asks_first_and_no_more_than_tells_runs_apart(runs, expected):
    assert labels(*runs) == expected


def test_a_label_is_one_short_line_and_different_from_all_others():
    long = "a model\nof " + "very " * 40 + "long name"
    found = labels(choices(model_name=long), choices(model_name=long + "!"), choices())
    assert len(set(found)) == 3
    assert all(len(label) < 60 and label.isprintable() for label in found)
    assert label_runs([choices(), choices()], ["same", "same"]) == ["run 1", "run 2"]


LONG_MODEL = "maker2.5-coder-{}b-instruct-q4_k_m.gguf"


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ((*map(LONG_MODEL.format, ("0.5", "1.5")), "s"), ["maker2.5-coder-0.5b", "maker2.5-coder-1.5b", "s"]),
        (("m/Model-3.1-8B", "m/Model-3.1-8B-Instruct-v2"), ["m/Model-3.1-8B", "m/Model-3.1-8B-Instruct"]),
        (("a-very-long-name-of-model-q4_k_m.gguf", "a-very-long-name-of-model-q4_k_m"), None),
        (("a-very-long-name-of-model-q4.gguf at h-1", "a-very-long-name-of-model-q4.gguf at h-2"), None),
        (("a-very-long-name-of-model-q4.gguf at h-1", "b"), ["a-very-long-name-of", "b"]),
        (("a-name-of-model (a-place-of-model.gguf)", "b"), ["a-name-of-model", "b"]),
        (("a-nameoftwentyandmoreletters", "b"), None),
        (("one-model-of-24-letters!", "b"), None),
    ],
)  # fmt: skip
def test_a_long_name_of_a_model_is_a_beginning_that_no_other_name_has(models, expected):
    assert labels(*({**choices(), "model": name} for name in models)) == (expected or [*models])


def test_what_answers_were_begun_with_is_named_only_where_nothing_else_tells_runs_apart():
    def asked(prefill, **changes):
        return choices(elicitation={"method": "expected", "parser": "scale", "prefill": prefill}, **changes)

    assert labels(asked("Number: "), asked("", variant="persona-1")) == ["origin", "persona-1"]
    assert labels(asked("Number: "), asked("")) == ["expected, begun 'Number: '", "expected"]
    assert short("a\tb\n c") == "a b c"


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([led("1", A, B), led("2", A)], ["ecn", "ecn, stages without b"]),
        ([led("1", A, B, C), led("2", A)], ["ecn", "ecn, stages without b, c"]),
        ([shots("1", 5), shots("2", 3)], ["few, examples.n 5", "few, examples.n 3"]),
        ([shots("1", 5), led("2", name="few")], ["few", "few, without examples"]),
        # The file's place does not count, what it holds does, and the strategy's own hash does not know of it.
        (
            [shots("1", 5), shots("1", 5, "q" * 64, "x.csv")],
            ["few, examples.pool pppppppp", "few, examples.pool qqqqqqqq"],
        ),
        (
            [led("1", A), led("2", stage("a", temperature=0.0))],
            ["ecn, stages.a.temperature 0.7", "ecn, stages.a.temperature 0"],
        ),
        # What more than half of them have is not named.
        (
            [led("1", A, B), led("2", A), led("3", stage("a", temperature=0.0), B), led("4", A, B, history="last")],
            ["ecn", "ecn, stages without b", "ecn, stages.a.temperature 0", "ecn, history last"],
        ),
        ([choices(), led("1", A), led("2", B, name="coe")], ["none", "ecn", "coe"]),
        ([led("1", A), led("2", A, B, name="coe"), led("3", B, name="coe")], ["ecn", "coe", "coe, stages without a"]),
    ],
)  # fmt: skip
def test_runs_of_one_strategy_are_told_apart_by_the_settings_that_differ(runs, expected):
    assert labels(*runs) == expected


LONG = "How strongly did the person feel that emotion there?"


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param([led("123456789", A, question="{question}"), led("abcdefghi", A, question=LONG)], id="too long"),
        pytest.param([led("123456789", A, B), led("abcdefghi", B, A)], id="order of stages"),
        pytest.param([led("123456789", A), led("abcdefghi", A, recorded=False)], id="an older manifest"),
    ],
)
def test_settings_that_can_not_be_named_in_short_are_told_by_their_hash(runs):
    found = labels(*runs)
    assert found[1] == "ecn, strategy abcdefgh"
    assert found[0] in ("ecn, strategy 12345678", "ecn, question {question}")


def test_a_strategy_s_settings_stand_where_its_name_does():
    runs = [choices(), led("1", A, B), led("2", A), led("2", A) | {"model": "llama3"}]
    assert telling_choices(runs) == ["model", "strategy"]
    assert labels(*runs)[1:] == ["smollm2, ecn", "smollm2, ecn, stages without b", "llama3, ecn, stages without b"]
    # Of one strategy with the same settings, where it comes from is no difference.
    assert labels(led("1", A, source="a paper"), led("1", A, source="none")) == ["folder 0", "folder 1"]
    told = choice_table(dict(zip("NABC", runs, strict=True)), differing_choices(runs))
    assert told["strategy"].tolist() == ["none", "ecn", "ecn, stages without b", "ecn, stages without b"]


def test_each_setting_of_a_strategy_has_the_run_without_one_for_its_reference():
    runs = {"whole": led("1", A, B), "ablated": led("2", A)}
    assert reference_runs(runs | {"none": choices(identity={})}) == {"whole": "none", "ablated": "none"}
    assert reference_runs(runs) == {"whole": "", "ablated": ""}
    assert reference_runs({"one": led("1", A), "same": led("1", A)}) == {}


def test_choices_that_tell_the_same_runs_apart_stand_once():
    runs = [choices(), choices("scale-10", scale={"low": 0, "high": 10}, prompt_sha256="x"), choices(seed=1)]
    assert differing_choices(runs) == ["prompt", "seed"]


def test_a_table_of_choices_names_the_run_where_they_do_not_tell_it():
    runs = {"A": choices(), "B": choices(stimuli_sha256="dddd")}
    told = choice_table(runs, ["texts"])
    assert told.to_dict("index") == {
        "A": {"narratives' texts": "narratives aaaa"},
        "B": {"narratives' texts": "narratives dddd"},
    }
    assert choice_table(runs, ["model"]).columns.tolist() == ["run", "model"]
    assert choice_table(runs, []).to_dict("list") == {"run": ["A", "B"]}


def test_a_table_of_planted_models_names_them_even_where_they_are_one():
    planted = {"name": "planted", "path": "planted", "planted": {"gap": 5}}
    runs = {"A": choices(model=planted), "B": choices("scale-10", model=planted)}
    told = choice_table(runs, ["prompt"])
    assert told["model"].tolist() == ["planted model, not a language model (δ +5)"] * 2
    assert told["prompt"].tolist() == ["origin", "scale-10"]


def test_what_was_not_recorded_is_a_dash():
    runs = {"A": choices(), "B": choices_of(OUTSIDE, variant="outside")}
    assert choice_table(runs, ["prompt", "engine"]).loc["B"].tolist() == ["–", "–"]


def test_the_same_settings_are_the_same_run_wherever_it_lies():
    assert identity_of(manifest()) == identity_of(manifest(seed=5)) != identity_of(manifest(identity={"a": 1}))
    assert identity_of(Manifest.of({"a": 1})) != identity_of(Manifest.of({"a": 2}))


def test_runs_that_leave_out_other_narratives_differ():
    run, same, other, whole = (
        choices(identity={"identities": "cccc", **left_out})
        for left_out in ({"left_out": "d1"}, {"left_out": "d1"}, {"left_out": "d2"}, {})
    )
    assert differing_choices([run, same]) == []
    assert differing_choices([run, other]) == differing_choices([run, whole]) == ["identities"]
    assert whole["identities"] == "cccc"
    led_run = run | {"strategy": "perspective", "leading": "1"}
    assert reference_runs({"led": led_run, "plain": same}) == {"led": "plain"}
    assert reference_runs({"led": led_run, "plain": other}) == {"led": ""}
