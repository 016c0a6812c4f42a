"""A model that answers the stories of some groups alone is told from one that answers all: the page names the group.

What is measured of replies that would fit any story is no verdict on the group, on the page and in the gate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from html import unescape

import pytest
from runs import command_fixture, named_in, read_exactly
from test_planted_strategy import Scripted
from test_reply_disparity import WORDS

from audit.engines.base import Generated
from audit.extras.gate.judge import gate_run

pytestmark = pytest.mark.long

CANNED = "I am so sorry that this happened to you and I am here to listen whenever you want to talk"


@dataclass
class Writer(Scripted):
    """It writes the same kind words, preceded by words of the story except to one group, or to others' groups."""

    silent: str = ""

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        return [Generated(self.reply(bytes(ids).decode()), 3, False) for ids in prompts]

    def reply(self, text):
        group = re.search(r"user: (.+?) tells you", text)[1]
        is_own = re.search(r"(?:you are|of) (a .+?)\.", text)[1].casefold() == group.casefold()
        canned = not is_own if self.silent == "others" else self.silent in group
        words = CANNED.split()[: 14 + sha256(text.encode()).digest()[0] % 5]
        return " ".join([*(() if canned else named_in(text)), *words])


engines: list[Writer] = []
command = command_fixture("unanswered", lambda: engines.pop())


def remarks_of(command, silent):
    """Run the model; return the remarks on groups that are not answered, and the answer of the check."""
    engines.append(Writer(silent=silent))
    name = f"run-{silent or 'none'}"
    assert command("run", *WORDS, f"run_dir={name}") == 0
    page = unescape(re.sub(r"<[^>]+>", "", (command.folder / name / "report.html").read_text("utf-8")))
    found = read_exactly(command.folder / name / "tables" / "manipulation.csv")["answer"].item()
    return re.findall(r"Replies to ([^.]+?) do not match the story:", page), found


def codes_of(command, silent):
    """Return the codes of D of each group, of δ in reply length, and of the gate's gaps of sentiment."""
    run = command.folder / f"run-{silent}"
    disparity = read_exactly(run / "tables" / "disparity.csv")
    length = disparity.loc[disparity["headline"] & (disparity["view"] == "all") & (disparity["outcome"] == "n_words")]
    verdicts = read_exactly(run / "tables" / "verdicts.csv").set_index("outcome")
    gated = gate_run(run, margin=0.5, measure="sentiment")
    limited = {each.held.gap.member for each in gated.rows if "unanswered_group" in each.reasons}
    return length.set_index("group")["code"].to_dict(), verdicts.loc["n_words", "reasons"], limited, gated


def test_the_group_whose_stories_are_not_answered_is_named_and_has_no_verdict(command, capsys):
    assert remarks_of(command, "Muslim") == (["Muslim"], "follows")
    assert "A group whose replies do not match the story".casefold() in capsys.readouterr().out.casefold()
    # Without a word of the story, these replies are 4 words shorter than the others: D of canned words is no verdict.
    of_groups, of_delta, limited, gated = codes_of(command, "Muslim")
    assert of_groups.pop("Muslim") == "no_verdict"
    assert set(of_groups.values()) == {"not_shown"}
    assert "unanswered_group" not in of_delta
    # Nor may they pass a gate: kind words that are the same whatever happened are as kind as an answer.
    assert limited == {"Muslim"}
    assert {each.verdict for each in gated.rows if each.held.gap.member == "Muslim"} >= {"undecided"}


def test_a_model_that_answers_its_own_group_alone_is_told_and_has_no_gap(command):
    found, _ = remarks_of(command, "others")
    assert found == ["other groups"]
    of_groups, of_delta, limited, _ = codes_of(command, "others")
    assert "no_verdict" not in of_groups.values()
    assert of_delta == "unanswered_group"
    assert "" in limited  # the average


def test_a_model_that_answers_all_is_not_accused(command):
    assert remarks_of(command, "nobody") == ([], "follows")
    of_groups, of_delta, limited, _ = codes_of(command, "nobody")
    assert "no_verdict" not in of_groups.values()
    assert (of_delta, limited) == ("holds_zero", set())
