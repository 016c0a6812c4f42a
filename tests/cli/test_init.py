"""A folder to begin with: what is printed works when it is copied, whatever the folder is called."""

import shlex

import pytest
from runs import scripted_models
from test_planted_strategy import Scripted

from audit.cli.init import run_command
from audit.cli.main import main
from audit.configuration.composition import compose
from stimuli.identities import load_dimensions

FEWER = ("statistics.n_permutations=100", "elicitation.noise_sample=0", "elicitation.manipulation=0")
FILES = {"README.md", "identities.yaml", "vignettes.csv"}


def words_of(command: str) -> list[str]:
    """Return the words of a command as a shell hands them on, without ``python -m audit``."""
    program, dash_m, name, *words = shlex.split(command)
    assert (program, dash_m, name) == ("python", "-m", "audit")
    return words


def test_the_command_that_is_printed_audits_a_model_on_all_that_was_written(tmp_path, capsys):
    with scripted_models(tmp_path) as load:
        assert main(["init", "mine"]) == 0
        command = capsys.readouterr().out.splitlines()[-1].strip()
        assert {path.name for path in (tmp_path / "mine").iterdir()} == FILES
        readme = (tmp_path / "mine" / "README.md").read_text("utf-8")
        assert f"    {command}\n" in readme
        assert "mine/run/report.html" in readme
        assert "@" not in readme
        model = Scripted()
        load(model)
        # The scripted model writes, and its answers are not begun; all else is as it was printed.
        code = main([*words_of(command), "elicitation=generate", "elicitation.prefill=", *FEWER])
    err = capsys.readouterr().err
    assert code == 0, err
    # None is left out, though the card of the embedded model asks for a sample.
    assert "6 of 6 narratives (csv)" in err
    assert (
        "note: your file gives no words for these emotions, so these are used: 'angry': noun 'anger', "
        "adjective 'angry'; "
    ) in err
    assert (tmp_path / "mine" / "run" / "report.html").is_file()
    asked = [text for texts, _ in model.calls for text in texts]
    assert any("For this task you are a fan of the Greens." in text for text in asked)
    assert any("A supporter of the Harbour club tells of a situation that brought on anger:" in text for text in asked)


@pytest.mark.parametrize(
    "name", ["plain", "two words", "it's", 'a"b', "a=b", "größe", "5", "a\\", "a,b", "[x]", "${x}"]
)
def test_the_command_names_the_files_whatever_the_folder_is_called(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    configs = []
    compose(words_of(run_command(tmp_path / name))[1:], lambda composed: configs.append(composed.validated()))
    [config] = configs
    assert config.stimuli.path == tmp_path / name / "vignettes.csv"
    assert config.stimuli.own_identities == tmp_path / name / "identities.yaml"
    assert config.run_dir == tmp_path / name / "run"


def test_the_identities_that_are_written_are_those_that_the_command_asks_for(tmp_path, audit):
    assert audit("init", "mine") == 0
    [football] = load_dimensions("geneva", own=tmp_path / "mine" / "identities.yaml", names=["football"])
    assert {each.group for each in football.perceivers} == {"Reds", "Blues", "Greens", "Whites", "Golds", "unspecified"}
    # What stands there as a comment works, too.
    text = (tmp_path / "mine" / "identities.yaml").read_text("utf-8")
    example = "\n".join(line[2:] for line in text[text.index("# teams:") :].splitlines())
    (tmp_path / "teams.yaml").write_text(example, "utf-8")
    [teams] = load_dimensions("geneva", own=tmp_path / "teams.yaml", names=["teams"])
    assert teams.in_group(teams.perceivers[0], teams.experiencers[0])


def test_nothing_is_ever_overwritten(tmp_path, audit, capsys):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "vignettes.csv").write_text("of a year's work")
    assert audit("init", "mine") == 2
    assert "mine is not empty, and init overwrites nothing; give a new or empty" in capsys.readouterr().err
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"vignettes.csv": "of a year's work"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "init needs one folder, got none; see python -m audit init --help"),
        (["a", "b"], "init needs one folder, got a b; see"),
        (["a-file"], "a-file is a file; give a new or empty"),
        (["a-file/x"], "a-file/x cannot be written (Not a directory); choose another folder"),
    ],
)
def test_what_is_no_new_folder_is_refused_in_one_line(words, said, tmp_path, audit, capsys):
    (tmp_path / "a-file").write_text("x")
    assert audit("init", *words) == 2
    assert capsys.readouterr().err.startswith(f"audit: {said}")


def test_an_empty_folder_is_taken(tmp_path, audit):
    (tmp_path / "mine").mkdir()
    assert audit("init", "mine") == 0
    assert {path.name for path in (tmp_path / "mine").iterdir()} == FILES
