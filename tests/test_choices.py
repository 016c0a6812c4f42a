import pytest

from audit.choices import choice_table, choices_of, differing_choices, identity_of, label_runs, short

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
OUTSIDE = {
    "seed": 0,
    "model": {"name": "gpt.csv", "files": None},
    "elicitation": {"method": "outside"},
    "scale": {"low": 0.0, "high": 100.0},
    "stimuli": {"source": "gpt.csv", "n_narratives": 12},
    "dimensions": ["religion"],
}


def manifest(**changes):
    """Return the base with dotted keys changed, e.g. ``model_name``."""
    changed = {**BASE}
    for key, value in changes.items():
        section, _, name = key.partition("_")
        changed[section] = {**changed[section], name: value} if name else value
    return changed


def choices(variant="origin", **changes):
    return choices_of(manifest(**changes), variant=variant)


def labels(*chosen):
    return label_runs(chosen, [f"folder {number}" for number in range(len(chosen))])


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([choices(), choices("persona-1")], ["origin", "persona-1"]),
        ([choices(), choices(model_name="llama3", model_revision="r2")], ["smollm2", "llama3"]),
        (
            [choices(), choices("named"), choices("named", model_name="llama3")],
            ["smollm2, origin", "smollm2, named", "llama3, named"],
        ),
        ([choices(), choices(seed=1)], ["seed 0", "seed 1"]),
        ([choices(), choices(model_dtype="float32")], ["bfloat16", "float32"]),
        ([choices(), choices("scale-10", scale={"low": 0, "high": 10})], ["origin", "scale-10"]),
        ([choices(), choices(scale={"low": 0, "high": 10})], ["scale 0–100", "scale 0–10"]),
        ([choices(), choices(stimuli_sha256="dddd")], ["narratives aaaa", "narratives dddd"]),
        ([choices(), choices_of(OUTSIDE, variant="outside")], ["smollm2, geneva", "gpt.csv"]),
        (
            [choices(), *(choices(model_name="own", model_path=path) for path in ("/models/tiny", "x/y"))],
            ["smollm2", "tiny", "y"],
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
    assert short("a\tb\n c") == "a b c"


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


def test_what_was_not_recorded_is_a_dash():
    runs = {"A": choices(), "B": choices_of(OUTSIDE, variant="outside")}
    assert choice_table(runs, ["prompt", "engine"]).loc["B"].tolist() == ["–", "–"]


def test_the_same_settings_are_the_same_run_wherever_it_lies():
    assert identity_of(manifest()) == identity_of(manifest(seed=5)) != identity_of(manifest(identity={"a": 1}))
    assert identity_of({"a": 1}) != identity_of({"a": 2})
