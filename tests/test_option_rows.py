"""Every option is explained, by the schema and the files of ``conf/``; the oracle is what these say, read by hand."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import audit
from audit.configuration.options import choices, conf_folder, group_rows, option_rows
from audit.configuration.packaged import read_packaged
from audit.configuration.schema import option_types
from audit.errors import ConfigError

ROWS = {row.name: row for row in option_rows()}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_option_has_a_meaning_that_is_no_type_and_no_name(name):
    row = ROWS[name]
    assert row.meaning.strip(), f"{name} has no meaning: write it as the description of its field in the schema"
    assert len(row.meaning.split()) > 2
    assert row.type


def test_every_choice_of_a_group_has_a_meaning():
    bare = [(group.name, choice.name) for group in group_rows() for choice in group.choices if not choice.meaning]
    assert bare == [], "write what it is as the first line of its file"


def test_no_option_of_the_schema_is_left_out_but_those_that_only_another_option_can_hold():
    left_out = {name for name in option_types() if name not in ROWS and name not in choices()}
    parents = {name for name in left_out if any(other.startswith(f"{name}.") for other in option_types())}
    held = {name for name in left_out - parents if "names with values" in ROWS[name.rpartition(".")[0]].type}
    assert left_out - parents - held == set()
    assert held == {
        *(f"measures.regard.labels.{label}" for label in ("negative", "neutral", "positive", "other")),
        *(f"measures.epitome.{mechanism}.{part}" for part in ("model", "revision")
          for mechanism in ("emotional_reactions", "interpretations", "explorations")),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "type_", "default", "words"),
    [
        ("seed", "whole number, at least 0, below 4294967296", "0", ()),
        ("run_dir", "path, or null", "null", ()),
        ("dimensions", "list, or null", "null", ()),
        ("model.path", "text, not empty", "", ()),
        ("model.dtype", "one of the choices", "auto", ("auto", "bfloat16", "float16", "float32")),
        ("statistics.confidence", "number, above 0.5, below 1", "0.95", ()),
        ("statistics.margin", "number, above 0, or null", "null", ()),
        ("stimuli.situations_per_emotion", "whole number or one of the choices", "all", ("all", "enough")),
        ("stimuli.columns.neutral", "text, or null", "null", ()),
        ("thinking.max_tokens", "whole number, at least 1", "256 (budget), 1024 (on)", ()),
        ("thinking.mode", "one of the choices", "off", ("off", "on", "budget")),
        ("strategy.stages.NAME.max_tokens", "whole number, at least 1", "200", ()),
        (
            "task.kind",
            "one of the choices",
            "intensity",
            ("intensity", "reply", "emotion", "cause", "entailment", "inventory"),
        ),
        ("measures.epitome.explorations", "text or names with values, or null", "null", ()),
        ("prompt.scale.high", "whole number", "100", ()),
        ("elicitation.prefill", "text", "auto", ()),
    ],
)
def test_type_default_and_choices_are_those_of_schema_and_files(name, type_, default, words):
    row = ROWS[name]
    assert (row.type, row.default, row.choices) == (type_, default, words)


def test_an_option_stands_in_its_group_and_one_of_none_under_run():
    assert ROWS["seed"].group == "run"
    assert ROWS["stimuli.columns.neutral"].group == "stimuli"
    assert {row.group for row in option_rows()} == {"run", *choices()} - {"experiment", "preset"}


def test_a_group_an_option_or_the_beginning_of_names_chooses_its_options():
    assert {row.group for row in option_rows("thinking")} == {"thinking"}
    assert [row.name for row in option_rows("model.dtype")] == ["model.dtype"]
    assert [row.name for row in option_rows("prompt.scale")] == [
        f"prompt.scale.{name}" for name in ("low", "high", "low_label", "high_label")
    ]
    assert "seed" in [row.name for row in option_rows("run")]
    assert option_rows("experiment") == option_rows("preset") == ()


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("modle", "'model'"), ("statistic", "'statistics'"), ("stimuli.colums", "'stimuli.columns'"),
     ("wordngs", "'wordings'"), ("statistics.margn", "'statistics.margin'")],
)  # fmt: skip
def test_a_misspelt_group_or_option_suggests(asked, meant):
    with pytest.raises(ConfigError, match=f"{asked}: unknown .*did you mean {meant}"):
        option_rows(asked)


def test_the_default_choice_of_each_group_is_one_of_its_choices():
    assert group_rows()[0].name == "run"
    for group in group_rows()[1:]:
        assert group.default in [choice.name for choice in group.choices]


def test_a_packaged_file_is_read_as_it_is_typed_and_comments_are_no_values(tmp_path: Path):
    file = tmp_path / "planted.yaml"
    file.write_text(
        "# The head. And more of it.\n"
        "#   a command: x\n"
        "first: 1\n"
        'quoted: "a # b"  # beside\n'
        "bare: a#b\n"
        "# above, over\n"
        "# two lines\n"
        "under: 2\n"
        "block: |-  # of a block\n"
        "  # text of the block\n"
        "  text\n"
        "\n"
        "# apart from what follows\n"
        "\n"
        "apart: 3\n"
        "nest:  # of a nest\n"
        "  inner: [a, b]  # of a list\n"
        "  other: {c: null}\n"
        "last: true # one blank\n",
        "utf-8",
    )
    read = read_packaged(file, group="g")
    assert read.head == "The head"
    assert read.values == {
        "g.first": "1",
        "g.quoted": "a # b",
        "g.bare": "a#b",
        "g.under": "2",
        "g.block": "# text of the block text",
        "g.apart": "3",
        "g.nest": "{inner: [a, b], other: {c: null}}",
        "g.nest.inner": "[a, b]",
        "g.nest.other": "{c: null}",
        "g.nest.other.c": "null",
        "g.last": "true",
    }


def test_a_file_of_full_names_has_no_prefix_and_its_defaults_are_no_options(tmp_path: Path):
    file = tmp_path / "planted.yaml"
    file.write_text(
        "# @package _global_\n# A preset, e.g. of a study. More.\ndefaults:\n  - override prompt: own\n"
        '  - task: reply\n  - base\nseed: 3\nempty: ""\n',
        "utf-8",
    )
    read = read_packaged(file, group="g")
    assert (read.head, read.defaults) == ("A preset, e.g. of a study", {"task": "reply"})
    assert read.values == {"seed": "3", "empty": '""'}


def test_a_card_of_a_model_sets_no_default_of_other_groups():
    card = (conf_folder() / "model" / "smollm2.yaml").read_text("utf-8")
    assert "unspecified: false" in card
    assert ROWS["stimuli.unspecified"].default == "true"


@pytest.mark.process
def test_importing_the_table_imports_no_hydra_no_schema_and_no_torch():
    script = "import json, sys, audit.configuration.options; print(json.dumps(list(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(audit.__file__).parents[1]
    )
    assert {"hydra", "omegaconf", "pydantic", "yaml", "torch", "numpy"} & set(json.loads(ran.stdout)) == set()


@pytest.mark.process
def test_making_the_table_imports_no_hydra_and_no_torch():
    made = "from audit.configuration.options import *; option_rows(); group_rows()"
    script = f"import json, sys; {made}; print(json.dumps(list(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(audit.__file__).parents[1]
    )
    assert {"hydra", "omegaconf", "torch", "pandas", "transformers"} & set(json.loads(ran.stdout)) == set()
