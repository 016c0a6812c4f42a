"""Everything that a command can tell its user stands in ``messages.txt``, so that wording is reviewed as a whole."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from messages import FILE, messages, written

SAID = [line for line in FILE.read_text("utf-8").splitlines() if line and not line.startswith(("#", "=="))]


def test_the_file_has_every_message_of_the_sources_and_no_other():
    was, now = FILE.read_text("utf-8"), written()
    changed = [line for line in difflib.unified_diff(was.splitlines(), now.splitlines(), n=0, lineterm="")][2:]
    assert changed == [], "read these as a user would, then: python tests/cli/messages.py"


def test_messages_are_collected_wherever_they_stand():
    source = """
def f(say):
    say("one of a function's own")
    fault = StoreError(f"{path}: made and raised later")
    try:
        raise errors.ConfigError(f"{a}" + " added" if b else "or this")
    except ValueError as error:
        raise StimulusError(f"{x!r} in " f"{len(y):,} parts; {d['k']}") from error
    raise ValueError(text)
    warn("no message of ours")
    note(f"{a}: {b}")
"""
    assert messages(source) == [
        "one of a function's own",
        "{path}: made and raised later",
        "{a} added | or this",
        "{x} in {...} parts; {d['k']}",
    ]


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (r"\b[Ii]nstance of\b|\bdict(ionary)?\b|\b[Bb]oolean\b|\bno mapping\b|\b[Ee]xtra inputs\b", "the user's words"),
        (r"\b(can't|won't|doesn't|isn't|don't|it's)\b", "the whole words"),
        (r"\bcan not\b", "cannot"),
        (r"(?<!\.)\.$", "a message that ends as a line, without a full stop"),
        (r"!\s*$|\b(oops|sorry|please)\b", "what is wrong, and the remedy"),
        (r"\be\.g\.,|\bi\.e\.", "plain words"),
    ],
)
def test_no_message_has_words_of_programmers_or_manners_of_machines(words, instead):
    assert [line for line in SAID if re.search(words, line)] == [], f"say {instead}"


def test_what_a_user_must_mend_has_a_remedy_or_says_what_is_wanted():
    """Of the modules that read what a user wrote: each fault tells more than that something is wrong."""
    text = FILE.read_text("utf-8")
    for module in ("stimuli/tables.py", "stimuli/spreadsheets.py", "stimuli/identities.py", "stimuli/yaml_files.py"):
        block = text[text.index(f"== {module}\n") :].split("\n\n")[0].splitlines()[1:]
        assert block
        bare = [line for line in block if not re.search(r";|\{\.\.\.\}|\{error\}|wanted|must|needs|give|Write", line)]
        assert bare == []
