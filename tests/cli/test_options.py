import pytest

from audit.cli import judge, people, report
from audit.cli.main import COMMANDS
from audit.cli.terminal.options import (
    Option,
    Usage,
    a_number,
    a_path,
    a_text,
    numbers,
    one_of,
    option_lines,
    true_or_false,
    usage_lines,
    whole_from,
)
from audit.errors import ConfigError
from audit.extras.replication import command as replicate

N = Option("n", whole_from(1), 100, "how many")
OUT = Option("run_dir", a_path, None, "where it is kept", "OUT")
MODEL = Option("model", a_text, None, "which model it is", "PATH")
WAY = Usage("people export", "RUN_DIR ...", needed=(MODEL,), options=(N, OUT))


def test_help_is_made_of_what_is_read():
    assert usage_lines(WAY, Usage("judge", "A B", settings=True)) == (
        "usage: python -m audit people export RUN_DIR ... model=PATH [n=100] [run_dir=OUT]\n"
        "       python -m audit judge A B [statistics.KEY=VALUE ...]\n"
    )
    assert option_lines(*WAY.needed, *WAY.options) == (
        "  model=PATH    which model it is\n  n=100         how many\n  run_dir=OUT   where it is kept"
    )


def test_a_long_usage_breaks_between_options_and_goes_on_below_the_first():
    many = tuple(Option(f"option_{i}", a_text, None, "", "A VALUE") for i in range(9))
    first, *others = usage_lines(Usage("x", "RUN_A RUN_B ...", options=many)).splitlines()
    assert others
    assert max(map(len, (first, *others))) <= 118
    assert all(line.startswith(" " * len("usage: python -m audit x ") + "[") and line.endswith("]") for line in others)
    assert "RUN_A RUN_B ... [option_0=A VALUE]" in first


def test_a_value_is_read_where_it_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = WAY.read(["a", "n=7", "model=a=b", "b", "run_dir=here"])
    assert given.places == ("a", "b")
    assert (given[N], given[MODEL], given[OUT]) == (7, "a=b", a_path("", "here"))
    assert WAY.read([])[N] == 100
    wrong = WAY.read(["n=none"])  # is nobody's fault until it is wanted
    with pytest.raises(ConfigError, match="n=none: must be a whole number of at least 1"):
        wrong[N]


def test_what_lies_there_is_a_place_though_it_has_an_equals_sign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seed=1").mkdir()
    (tmp_path / "anna=1.csv").write_text("")
    (tmp_path / "n=3").write_text("")
    given = WAY.read(["seed=1", "anna=1.csv", "n=3"])
    assert given.places == ("seed=1", "anna=1.csv")
    assert given[N] == 3  # a file does not hide an option


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--all"], "people export has no flag --all; see python -m audit people export --help"),
        (["-1"], "people export has no flag -1; "),
        (["run_dri=x"], "run_dri: people export does not take this option; did you mean 'run_dir'?"),
        (
            ["statistics.margin=2"],
            "statistics.margin: people export does not take this option; there are: model, n, run_dir",
        ),
        (["n=1", "n=2"], "n is given twice, as '1' and '2'; keep one"),
    ],
)
def test_what_a_command_does_not_take_is_named(words, message):
    with pytest.raises(ConfigError) as caught:
        WAY.read(words)
    assert str(caught.value).startswith(message)


def test_what_must_be_given_is_asked_for():
    for words in ([], ["model="]):
        with pytest.raises(ConfigError, match=r"model= must be given to ask it; see python -m audit people export --h"):
            WAY.read(words).need(MODEL, to="ask it")
    assert WAY.read(["model=x"]).need(MODEL, to="ask it") == "x"


def test_settings_are_words_and_null_is_none():
    given = Usage("report", settings=True).read(["statistics.margin=null", "statistics.formula=a ~ b=c"])
    assert given.settings() == {"margin": None, "formula": "a ~ b=c"}


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (a_number, "-1e2", -100.0),
        (numbers, "-1", (-1.0,)),
        (numbers, " [-1, -99] ", (-1.0, -99.0)),
        (numbers, "[]", ()),
        (one_of("yes", "no"), "no", "no"),
        (true_or_false, "true", True),
        (true_or_false, "false", False),
        (whole_from(0), "0", 0),
    ],
)
def test_a_text_becomes_a_value(read, text, value):
    assert read("x", text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (a_number, "nan"),
        (a_number, ""),
        (numbers, "[1"),
        (numbers, "[1,]"),
        (one_of("yes", "no"), "yess"),
        (true_or_false, "True"),
        (whole_from(1), "0"),
        (whole_from(0), "²"),
    ],
)
def test_a_text_that_is_no_such_value_is_named(read, text):
    with pytest.raises(ConfigError, match=r"^x="):
        read("x", text)


@pytest.mark.parametrize("command", [report, people, judge, replicate])
def test_a_command_s_help_tells_of_all_that_it_takes(command):
    usages = [each for each in vars(command).values() if isinstance(each, Usage)]
    said = command.COMMAND.help().splitlines()
    for usage in usages:
        for option in (*usage.needed, *usage.options):
            assert any(line.startswith(f"  {option}   ") for line in said), f"{usage.command}: {option}"


def test_the_help_s_list_of_commands_is_of_all(capsys):
    from audit.cli.main import main

    assert main(["--help"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:3].strip() and line[0] == " "]
    assert listed == list(COMMANDS)


def test_a_default_that_a_stage_knows_is_the_one_that_the_help_shows():
    from audit.people.collection import PER_LIST

    assert str(people._PER_LIST) == f"n={PER_LIST}"


def test_a_word_that_no_file_can_be_called_is_read_like_any_other():
    for place in ("x" * 5000, "a\x00b"):
        assert report._ALL.read([place]).places == (place,)
    assert report._ALL.read([f"ratings={'x' * 5000}"]).texts == {"ratings": "x" * 5000}
    with pytest.raises(ConfigError, match="report does not take this option"):
        report._ALL.read([f"ratings{'x' * 300}=1"])


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 19])
def test_a_number_of_more_digits_than_anything_has_ends_in_one_line(text):
    with pytest.raises(ConfigError, match="must be a whole number of at least 0"):
        whole_from(0)("seed", text)
    assert whole_from(0)("seed", "9" * 18) == 10**18 - 1


def test_an_empty_word_is_not_taken_for_the_folder_that_one_is_in():
    with pytest.raises(ConfigError, match="people export got an empty argument; a shell variable may be unset"):
        WAY.read(["", "model=m"])
    with pytest.raises(ConfigError, match="run_dir= is empty; give a path, or leave it out"):
        WAY.read(["a", "run_dir="])[OUT]


@pytest.mark.parametrize(
    "text", ["1_0", "\N{FULLWIDTH DIGIT ONE}", "0x10", "1e", ".", "", "1,5", "infinity", "1e999", "--1"]
)
def test_what_only_python_takes_for_a_number_is_none(text):
    with pytest.raises(ConfigError, match="must be a number"):
        a_number("margin", text)


@pytest.mark.parametrize(("text", "value"), [("2", 2), (" 2.5 ", 2.5), ("-.5", -0.5), ("+1.", 1), ("1E-3", 0.001)])
def test_a_number_is_read_as_people_write_it(text, value):
    assert a_number("margin", text) == value
