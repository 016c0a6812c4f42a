"""What commands print, in a terminal of any encoding, and whatever the names of files and groups are."""

import io
import subprocess
import sys

import pandas as pd
import pytest

from audit.cli.terminal.printing import print_table, say, speak_any_encoding, tell


@pytest.fixture
def terminal(monkeypatch):
    """Return a function that gives a command a terminal of an encoding, and what it has printed by then."""

    def of(encoding):
        streams = io.BytesIO(), io.BytesIO()
        for name, stream in zip(("stdout", "stderr"), streams, strict=True):
            monkeypatch.setattr(sys, name, io.TextIOWrapper(stream, encoding=encoding, write_through=True))
        speak_any_encoding()
        return lambda: tuple(stream.getvalue().decode(encoding) for stream in streams)

    return of


@pytest.mark.parametrize(
    ("encoding", "printed"),
    [("utf-8", "δ \N{MINUS SIGN}2.30 … × – ü 😀"), ("latin-1", "delta -2.30 ... × - ü \\U0001f600"),
     ("ascii", "delta -2.30 ... x - \\xfc \\U0001f600")],
)  # fmt: skip
def test_what_an_encoding_lacks_is_said_in_other_letters(encoding, printed, terminal):
    seen = terminal(encoding)
    line = "δ \N{MINUS SIGN}2.30 … × – ü 😀"
    tell(line)
    say(line)
    print_table([("gap",), (line,)])
    assert seen() == (f"{printed}\ngap\n{printed}\n", f"{printed}\n")


def test_what_would_act_in_a_terminal_is_escaped(terminal):
    seen = terminal("utf-8")
    tell("report: \x1b[2Ja\udcff\u202e/report.html")
    assert seen()[0] == "report: \\x1b[2Ja\\udcff\\u202e/report.html\n"


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_report_is_made_in_a_terminal_that_has_no_minus(encoding, tmp_path, child_environment):
    ratings = pd.DataFrame(
        {"perceiver": perceiver, "experiencer": experiencer, "narrative_id": narrative, "emotion": "sad",
         "dimension": "faith", "variant": "v", "rating": 40 + number % 7 - 9 * (perceiver == experiencer)}
        for number, (perceiver, experiencer, narrative) in enumerate(
            (p, e, n) for p in ("a Hindu", "a Jew") for e in ("a Hindu", "a Jew") for n in "abcdef"
        )
    )  # fmt: skip
    ratings.to_csv(tmp_path / "ratings.csv", index=False)
    groups = pd.DataFrame({"dimension": "faith", "term": ["a Hindu", "a Jew"], "group": ["Hindu", "Jew"]})
    groups.to_csv(tmp_path / "groups.csv", index=False)
    words = ["report", "ratings=ratings.csv", "groups=groups.csv", "low=0", "high=100", "run_dir=run"]
    done = subprocess.run(
        [sys.executable, "-m", "audit", *words],
        env=child_environment | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}, cwd=tmp_path, capture_output=True,
    )  # fmt: skip
    said = done.stdout.decode(encoding) + done.stderr.decode(encoding)
    assert done.returncode == 0, said
    assert " -" in said
    assert "\N{MINUS SIGN}" not in said
