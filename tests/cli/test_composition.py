"""What Hydra breaks at is said in our words: overrides, and files of a user's own folder of choices."""

import pytest

from audit.cli.terminal.base import LONGEST_LINE, shortened
from audit.configuration.composition import compose
from audit.errors import ConfigError
from stimuli.errors import StimulusError

LAUGHS = "\n".join(
    ["a0: &a0 [ha, ha, ha]", *(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 30)), "name: x"]
)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (f"seed={'9' * 5000}", r"seed=9{55}\.\.\.: has a number with too many digits"),
        (f"dimensions={'[' * 3000}", r"dimensions=\[+\.\.\.: is nested too deeply|is no option"),
    ],
)
def test_a_word_that_the_parser_breaks_at_is_named(word, said):
    with pytest.raises(ConfigError, match=said):
        compose([word], pytest.fail)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b"defaults: {a: 1}",
            "prompt=mine cannot be composed: .*must be a list.*; correct the file named",
        ),
        (b"defaults: [1.5]", "prompt=mine cannot be composed: Unsupported type in defaults"),
        (b"defaults: [null]", "prompt=mine cannot be composed"),
        (b"name: \xff", "prompt=mine cannot be composed: .*utf-8"),
        (b"name: !!timestamp 2020-13-01", "prompt=mine cannot be composed: month must be in"),
        (b"name: " + b"9" * 5000, "prompt=mine cannot be composed"),
        (b"name: [", "mine.yaml: line 1: is not YAML"),
    ],
)
def test_a_file_that_cannot_be_composed_ends_in_one_line(content, said, tmp_path):
    (tmp_path / "prompt").mkdir()
    (tmp_path / "prompt" / "mine.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        compose([f"--config-dir={tmp_path}", "prompt=mine"], lambda each: each.validated())


@pytest.mark.parametrize("words", [["--config-dir={}"], ["--config-dir", "{}"], ["-cd", "{}"]])
def test_a_file_that_would_not_be_read_to_its_end_is_refused_before_it_is_read(words, tmp_path):
    (tmp_path / "strategy").mkdir()
    (tmp_path / "strategy" / "mine.yaml").write_text(LAUGHS)
    with pytest.raises(StimulusError, match=r"mine\.yaml: line \d+: an alias \(\*name\) stands for itself"):
        compose([*(word.format(tmp_path) for word in words), "strategy=mine"], pytest.fail)


def test_a_choice_of_one_s_own_that_fails_is_not_said_to_be_absent(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text("defaults: [base@model, nothing]")
    with pytest.raises(ConfigError, match="Could not load 'model/nothing'"):
        compose([f"--config-dir={tmp_path}", "model=mine"], pytest.fail)


def test_an_error_of_what_is_done_with_a_configuration_is_its_own():
    def fail(_):
        raise ValueError("of the job")

    with pytest.raises(ValueError, match="of the job") as raised:
        compose([], fail)
    assert not isinstance(raised.value, ConfigError)


def test_a_line_about_a_long_value_keeps_its_beginning_and_its_end():
    line = shortened(f"prompts.csv: line 3: no column {'9' * 9000}; rename it\x1b")
    assert len(line) <= LONGEST_LINE + 10
    assert line.startswith("prompts.csv: line 3: no column 999")
    assert line.endswith("999; rename it\\x1b")
    assert " [...] " in line
    assert shortened("a\nb") == "a b"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("defaults: [origin]\nname: mine\nusr: x\n",
         "own/prompt/mine.yaml: line 3: prompt.usr: unknown option; did you mean 'user'?"),
        ("defaults: [origin]\nname: mine\nscale:\n  low: 0\n  high: many\n",
         "own/prompt/mine.yaml: line 5: prompt.scale.high: must be a whole number (given: 'many')"),
        ("defaults: [origin]\nname: [mine\n", "own/prompt/mine.yaml: line 3: is not YAML ("),
        ("defaults: [origin]\n\tname: mine\n", "own/prompt/mine.yaml: line 2: is not YAML ("),
    ],
)  # fmt: skip
def test_a_fault_of_a_file_of_ones_own_names_file_and_line(text, said, tmp_path, audit, capsys):
    folder = tmp_path / "own" / "prompt"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(text)
    assert audit("prompts", "--config-dir=own", "prompt=mine", "out=p.jsonl") == 2
    assert said in capsys.readouterr().err


def test_a_fault_of_the_command_line_is_not_blamed_on_a_file(tmp_path, audit, capsys):
    folder = tmp_path / "own" / "prompt"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("defaults: [origin]\nname: mine\n")
    assert audit("prompts", "--config-dir=own", "prompt=mine", "prompt.name=''", "out=p.jsonl") == 2
    assert capsys.readouterr().err.startswith("audit: prompt.name: must not be empty")
