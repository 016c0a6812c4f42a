"""What is wrong with a word of the command line is said in our words, and its remedy works when it is typed."""

import re
import shlex
import subprocess
import sys

import pytest

from audit.configuration.composition import compose
from audit.errors import ConfigError

PATHS = [
    "größe", "日本", "🙂", "a=b", "a==b", "it's", 'say "x"', "a,b", "a,", ",", "[x]", "[a,b]", "a[1]", "a]b", "{a}",
    "{a:1}", "a}b", "(a)", "a(b)", "f(x)", "my run (2)", "a&b;c", "a#b", "x!", "'a", '"a', "a'b'c", 'a"b', "1", "1e3",
    "1_000", "true", "inf", "nan", "a=b\\", 'a\\"b', "/a/[b]/c, d=e's \"f\"", "${x}", "a/${x}", "a=${x}", "~x", "Ä ö,ü",
    "a\u00a0b", "${", "a${b", "x${ y",
]  # fmt: skip
"""Names of folders that people have, and that are not taken as they stand."""
UNREAD = re.compile(
    r"(?:quote it|quote its value|to use it as text, [^:]*): (?P<last>.*)$|each; for one text, write (?P<text>.*)$"
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Work in an empty folder: Hydra leaves a file of a sweep there."""
    monkeypatch.chdir(tmp_path)


def given(*words):
    """Return the configuration that words make."""
    made = []
    compose(list(words), lambda composed: made.append(composed.validated()))
    return made


def refused(*words):
    """Return the line in which words are refused."""
    with pytest.raises(ConfigError) as raised:
        given(*words)
    line = str(raised.value)
    assert "\n" not in line
    for hydras in ("mismatched", "viable", "extraneous", "token", "EOF", "EQUAL", "class '", "Could not", "usage:"):
        assert hydras not in line
    return line


def typed(shown):
    """Return the words that a shell makes of what is shown."""
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {shown}"], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


def mended(words):
    """Return the words with the one that is refused as a shell makes it of what the refusal shows."""
    try:
        given(*words)
    except ConfigError as error:
        said = str(error)
    else:
        return words
    shown = UNREAD.search(said)
    assert shown is not None, said
    [word] = typed(shown["last"] or shown["text"])
    return [*words[:-1], word]


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="needs bash")
@pytest.mark.parametrize("value", PATHS)
def test_a_path_that_is_not_taken_names_the_form_in_which_it_is(value):
    line = refused(f"run_dir={value}")
    assert f"run_dir={value}" in line or repr(f"run_dir={value}") in line
    words = mended(mended([f"run_dir={value}"]))  # one with a quote and ${ needs both remedies, one after the other
    assert str(given(*words)[0].run_dir) == value


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="needs bash")
@pytest.mark.parametrize("value", ["größe", "a=b", "it's a, b", "[x]", "1e3"])
def test_so_do_models_and_stimuli(value):
    assert given(*mended([f"model.path={value}"]))[0].model.path == value
    assert str(given(*mended(["stimuli=csv", f"stimuli.path={value}"]))[0].stimuli.path) == value


def test_a_home_folder_is_written_out(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    line = refused("run_dir=~/my run")
    [word] = shlex.split(line.rpartition("of a word: ")[2])
    assert given(word)[0].run_dir == tmp_path / "my run"


@pytest.mark.parametrize("name", ["run_dir", "model.path", "stimuli.path"])
def test_an_empty_path_and_one_that_is_no_text_are_named(name):
    assert refused(f"{name}=") == f"{name}= is empty; give a path, or leave it out"
    assert refused(f"{name}=a\udcff").startswith(
        f"{name}='a\\udcff': the path is not valid UTF-8, so a manifest cannot record it"
    )


@pytest.mark.parametrize("value", ["a b", "a:b", "a\\b", "C:\\x y\\z", "a@b", "-x", "50%", "a*b?", "$x", "yes", "0x1"])
def test_what_is_taken_as_it_stands_still_is(value):
    assert str(given(f"run_dir={value}")[0].run_dir) == value


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-x", "-x: unknown flag; there are: --cfg, --config-dir, --multirun, "),
        ("--foo", "--foo: unknown flag; "),
        ("-m -x", "-x: unknown flag; "),
        ("-mx", "-mx: unknown flag; did you mean '-m'?"),
        ("--mulitrun", "--mulitrun: unknown flag; did you mean '--multirun'?"),
        ("--", "--: it is not needed; leave it out"),
        ("-", "-: unknown flag; "),
        ("-=1", "-=1: unknown flag; "),
        ("--info", "--info is a flag of Hydra's that has no use here; python -m audit options explains every"),
        ("--info all", "--info is a flag of Hydra's"),
        ("--info=all", "--info is a flag of Hydra's"),
        ("--hydra-help", "--hydra-help is a flag of Hydra's"),
        ("--config-path=x", "--config-path is a flag of Hydra's"),
        ("-m=1", "-m=1: -m takes no value; write -m"),
        ("--multirun=true", "--multirun=true: --multirun takes no value; write --multirun"),
        ("--cfg job --resolve=1", "--resolve=1: --resolve takes no value"),
        ("--cfg", "--cfg needs a value: --cfg=job"),
        ("-c", "-c needs a value: -c=job"),
        ("--cfg prompt=origin", "--cfg needs a value: --cfg=job"),
        ("--cfg=", "--cfg needs a value"),
        ("--cfg foo", "--cfg=foo: must be job, hydra or all; --cfg job shows all options"),
        ("-p", "-p needs a value: -p=GROUP"),
        ("-p model", "--package changes what --cfg shows; add --cfg job"),
        ("--resolve", "--resolve changes what --cfg shows; add"),
        ("--config-dir", "--config-dir needs a value: --config-dir=FOLDER"),
        ("--config-dir -m", "--config-dir needs a value: --config-dir=FOLDER"),
        ("-cd /nope", "-cd=/nope does not exist; give a folder with your own groups, such as FOLDER/prompt/mine.yaml"),
        ("--config-dir=/etc/passwd", "--config-dir=/etc/passwd is a file; give a"),
        ("-m --cfg job", "-m and --cfg cannot be combined; keep one"),
        ("origin", "'origin' is not an option; options are written KEY=VALUE; did you mean prompt=origin?"),
        (
            "model",
            "'model' is not an option; options are written KEY=VALUE; it has no value; write model=VALUE, without",
        ),
        (
            "run_dir =x",
            "'run_dir' is not an option; options are written KEY=VALUE; it has no value; write run_dir=VALUE, without",
        ),
        (
            "rundir",
            "'rundir' is not an option; options are written KEY=VALUE; did you mean 'run_dir'? see python -m",
        ),
        ("run_dir:x", "'run_dir:x' is not an option; options are written KEY=VALUE; did you mean 'run_dir'?"),
        ("=x", "'=x' is not an option: nothing stands before the equals sign"),
        (".x=y", "'.x=y' is not an option; options are written KEY=VALUE; '.x' is not an option"),
        ("model..path=x", "'model..path' is not an option; did you mean 'model.path'?"),
        ("grösse=x", "'grösse' is not an option"),
        ("RUN_DIR=x", "RUN_DIR: unknown option; did you mean 'run_dir'?"),
        ("~run_dir", "~run_dir: options cannot be removed; run_dir=null empties an option that may be empty"),
        (
            "-m prompt=origin,",
            "'prompt=origin,' is not an option; options are written KEY=VALUE; prompt= needs one name; did you m",
        ),
        ("-m prompt=range(3)", "prompt=range(3): unknown choice"),
        ("statistics.n_permutations=1,2", "several values; run -m statistics.n_permutations=1,2 runs each"),
        ("-m hydra.sweeper=nan", "hydra.sweeper=nan is one of Hydra's own settings, and Hydra cannot use this value ("),
        ("-m run_dir=1,2", "run_dir: must be a path (given: 1)"),
        (
            "seed=[1",
            "'seed=[1' is not an option; options are written KEY=VALUE; its value is not closed, or has spaces",
        ),
        ("statistics.formula=a~b=c", "quote its value: 'statistics.formula=\"a~b=c\"'"),
    ],
)
def test_what_hydra_cannot_take_is_said_in_our_words(words, said):
    assert said in refused(*words.split())


@pytest.mark.parametrize(
    ("words", "dimensions"),
    [
        ("dimensions=[religion", ("religion",)),
        ("dimensions=religion]", ("religion",)),
        ("dimensions=[religion, nationality]", ("religion", "nationality")),
        ("dimensions=religion,nationality", ("religion", "nationality")),
    ],
)
def test_a_list_that_is_not_closed_or_lies_in_several_words_is_shown_whole(words, dimensions):
    line = refused(*words.split())
    shown = re.search(r"has spaces: (.*)$|did you mean (\S+)\? run -m", line)
    [word] = shlex.split(shown[1] or shown[2])
    assert given(word)[0].dimensions == dimensions


def test_several_values_are_the_runs_of_a_sweep_that_is_shown(audit, capsys):
    for word, n in (("seed=range(1,3)", 2), ("run_dir=a,b", 2), ("prompt=origin,persona-1", 2)):
        line = refused(word)
        shown = re.search(r"run (-m .*?) runs each", line)[1]
        assert len(given(*shlex.split(shown))) == n


def test_a_flag_may_have_its_value_in_a_word_of_its_own(audit, capsys, tmp_path):
    (tmp_path / "own=x" / "prompt").mkdir(parents=True)
    (tmp_path / "own=x" / "prompt" / "mine.yaml").write_text("defaults: [origin]\nname: mine\n")
    for flag in (["--config-dir", "own=x"], ["-cd", "own=x"], ["--config-dir=own=x"]):
        assert audit("run", *flag, "prompt=mine", "--cfg", "job") == 0
        assert "  name: mine\n" in capsys.readouterr().out
        assert audit("run", "prompt=mine", "-c=job", *flag, "-p", "prompt") == 0
        assert "# @package prompt\n" in capsys.readouterr().out


def test_a_flag_may_stand_anywhere():
    assert len(given("prompt=origin,persona-1", "-m")) == 2
    assert len(given("-m", "prompt=origin,persona-1", "--multirun")) == 2


@pytest.mark.process
def test_a_list_that_ends_with_a_comma_is_shown_without_it():
    line = refused("stimuli.emotions=[sad, happy,]")
    assert line.endswith("a list must not end with a comma: 'stimuli.emotions=[sad, happy]'")
    [config] = given(*typed(line.rpartition("a comma: ")[2]))
    assert list(config.stimuli.emotions) == ["sad", "happy"]


@pytest.mark.parametrize("word", ["dimensions={a:1}", "hydra.job_logging=x"])
def test_a_value_of_another_kind_is_said_in_our_words(word):
    assert refused(word) == (
        f"{word}: its value has the wrong type; python -m audit options lists every option and its values"
    )


@pytest.mark.parametrize("value", ["a\nb", "\x1b[2J", "a\x00b", "a\u2028b", "x \x07"])
def test_what_a_terminal_does_not_show_is_not_said_to_be_a_remedy(value):
    with pytest.raises(ConfigError) as raised:
        given(f"run_dir={value}")
    assert "run_dir=" not in str(raised.value).partition("KEY=VALUE")[2]


def test_an_option_that_is_given_again_is_said_and_the_last_one_counts(capsys):
    [config] = given("seed=1", "seed=2")
    assert config.seed == 2
    assert capsys.readouterr().out == "note: seed is given more than once; the last one is used: seed=2\n"
    [config] = given("seed=1", "seed=2", "++seed=1")
    assert config.seed == 1
    assert capsys.readouterr().out == "note: seed is given more than once; the last one is used: seed=1\n"
    given("seed=2", "model=smollm2")
    assert not capsys.readouterr().out
