"""What users of other tools type is answered by what to type here, and that can be typed."""

import pytest

from audit.cli.main import COMMANDS
from audit.configuration.options import group_rows, option_rows
from audit.configuration.peers import COMMAND_OF, option_here, written_here

TYPED = [
    ("run --model OWNER/NAME", "without dashes: model.path=OWNER/NAME"),
    ("run --model smollm2", "without dashes: model=smollm2"),
    ("run --model=x", "without dashes: model.path=x"),
    ("run model=gpt-4o-mini", "model=openai model.path=gpt-4o-mini"),
    ("run model=OWNER/NAME", "a model without a card: model.path=OWNER/NAME"),
    ("run model=openai", "model.path=VALUE (the model: a hub id,"),
    ("run limit=5", "write stimuli.situations_per_emotion=5"),
    ("run n=10", "write stimuli.situations_per_emotion=10"),
    ("run --limit 10", "write stimuli.situations_per_emotion=10"),
    ("run --num-samples=10", "write stimuli.situations_per_emotion=10"),
    ("run --dry-run", "write python -m audit plan"),
    ("run --temperature 0", "did you mean 'task.temperature'"),
    ("run --max-new-tokens 16", "write elicitation.max_tokens=16"),
    ("run --output results", "write run_dir=results"),
    ("run output_dir='my results'", "write run_dir='my results'"),
    ("run --config audit.yaml", "--config-dir=FOLDER"),
    ("run --resume", "the same command again"),
    ("run --force", "another run_dir=FOLDER"),
    ("run -v", "engine.log"),
    ("run api_key=sk-1234", "model.api_key_env=NAME"),
    ("run --api-base http://localhost:8000/v1", "write model.base_url=http://localhost:8000/v1"),
    ("run --tp 2", "write engine.tensor_parallel_size=2"),
    ("run --max-connections 4", "write engine.server.concurrency=4"),
    ("run dataset=mine.csv", "write stimuli=csv stimuli.path=mine.csv"),
    ("run --tasks reply", "write task=reply"),
    ("run --margin 2", "write statistics.margin=2"),
    ("gate RUN --margin 2", "options are written without dashes: margin=2"),
    ("gate RUN threshold=2", "did you mean margin=2?"),
    ("report RUN --threshold=2", "options are written without dashes: statistics.margin=2"),
    ("eval model=x", "did you mean 'run'?"),
    ("list models", "did you mean 'options'?"),
    ("compare A B", "did you mean 'report'?"),
]


@pytest.mark.parametrize(("typed", "told"), TYPED)
def test_another_tool_s_words_are_answered_by_ours(typed, told, audit, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [word.replace("'", "") for word in typed.replace("my results", "my\N{NO-BREAK SPACE}results").split(" ")]
    assert audit(*[word.replace("\N{NO-BREAK SPACE}", " ") for word in words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert told in line
    assert "sk-1234" not in line
    assert not list(tmp_path.iterdir())


def test_help_and_version_may_be_written_as_commands(audit, capsys):
    assert audit("run", "--help") == 0
    told = capsys.readouterr().out
    assert audit("help", "run") == 0
    assert capsys.readouterr().out == told
    assert audit("version") == 0
    assert capsys.readouterr().out.startswith("empathy-audit ")


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("margin", "statistics.margin"),
        ("limit", "stimuli.situations_per_emotion"),
        ("permutations", "statistics.n_permutations"),
        ("retries", "engine.server.retries"),
        ("GGUF", "model.path"),
    ],
)
def test_options_are_found_by_a_word(word, found, audit, capsys):
    assert audit("options", word) == 0
    assert f"  {found}=" in capsys.readouterr().out


def test_all_that_is_told_exists_and_hides_nothing_of_ours():
    from audit.configuration import peers

    names = {row.name for row in option_rows()}
    groups = {row.name for row in group_rows()}
    for name in peers._OPTION_OF:
        assert option_here(name) in names | groups
        assert name not in names | groups
        assert written_here(name, "1").endswith("=1; ")
    assert set(COMMAND_OF.values()) <= set(COMMANDS)
    assert not set(COMMAND_OF) & set(COMMANDS)
