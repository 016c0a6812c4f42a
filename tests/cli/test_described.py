"""``options``: what it prints is the table of :mod:`audit.configuration.options`, whole."""

import re

import pytest

from audit.configuration.options import group_rows, option_rows


def test_all_options_and_choices_are_listed_with_their_meanings(audit, capsys):
    assert audit("options") == 0
    out = capsys.readouterr().out
    shown = " ".join(out.split())
    for row in option_rows():
        assert f"\n  {row.name}=" in out
        assert " ".join(row.meaning.split()) in shown
    for group in group_rows():
        assert f"python -m audit options {group.name}" in out
        for choice in group.choices:
            assert f"{choice.name} " in out
    assert max(map(len, out.splitlines())) <= 130


def test_a_group_alone_is_shown_with_its_choices_and_an_option_without(audit, capsys):
    assert audit("options", "thinking") == 0
    out = capsys.readouterr().out
    assert set(re.findall(r"^  (\S+?)=", out, re.M)) == {
        "thinking.mode", "thinking.max_tokens", "thinking.temperature", "thinking.top_p", "thinking.marks"
    }  # fmt: skip
    assert out.startswith("thinking=off\n    budget  ")
    assert audit("options", "statistics.fit=ols") == 0  # what is after the equals sign is nobody's concern
    assert capsys.readouterr().out == (
        "  statistics.fit=mixed\n      how to fit the formula: mixed (random terms for each cluster) "
        "or ols (standard errors by cluster)\n      takes: mixed | ols\n\n"
    )


def test_options_of_no_group_come_with_the_flags(audit, capsys):
    assert audit("options", "run") == 0
    out = capsys.readouterr().out
    assert "  --config-dir=FOLDER\n" in out
    assert "  seed=0\n" in out
    assert "model." not in out


def test_a_value_that_must_be_given_is_no_default(audit, capsys):
    assert audit("options", "model.path") == 0
    assert "  model.path=...\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("statistic", "statistic: unknown group or option; did you mean 'statistics'? groups are: run, "),
        ("mod", "mod: unknown group or option; did you mean 'model'?"),
        ("--all", "options has no flag --all; see python -m audit options --help"),
    ],
)
def test_a_misspelt_group_suggests(asked, said, audit, capsys):
    assert audit("options", asked) == 2
    assert capsys.readouterr().err.startswith(f"audit: {said}")


def test_what_cfg_shows_says_where_options_are_explained_and_stays_yaml(audit, capsys):
    import yaml

    assert audit("run", "--cfg", "job") == 0
    out = capsys.readouterr().out
    assert out.startswith("# What each option means: python -m audit options\n")
    assert yaml.safe_load(out)["seed"] == 0


def test_the_values_of_another_choice_are_told_by_a_command_that_works(audit, capsys):
    import yaml

    assert audit("options", "stimuli=csv") == 0
    out, err = capsys.readouterr()
    assert "  stimuli.columns.narrative_id=null\n" in out  # of stimuli=geneva
    told = re.fullmatch(
        "note: defaults shown are those of stimuli=geneva; for those of stimuli=csv: python -m audit (.+)\n", err
    )
    assert told is not None
    assert audit(*told[1].split()) == 0
    assert yaml.safe_load(capsys.readouterr().out)["columns"]["narrative_id"] == "narrative_id"
    assert audit("options", "stimuli=geneva") == 0
    assert not capsys.readouterr().err
