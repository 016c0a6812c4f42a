"""Whole runs of replies in which one group gets less, whoever writes: tables, page, terminal, and runs that go on."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from html import unescape

import pandas as pd
import pytest
from runs import FOUR_RELIGIONS, command_fixture, named_in
from test_comparison import table_of
from test_planted_strategy import Scripted

from audit import open_run
from audit.engines.base import Generated

pytestmark = pytest.mark.long

WORDS = (
    "task=reply", "model.path=scripted", *FOUR_RELIGIONS, "measures.names=[lexical]", "stimuli.unspecified=false",
    "stimuli.emotions=[sad,happy,worried]", "stimuli.situations_per_emotion=8", "statistics.n_permutations=100",
)  # fmt: skip
N_NARRATIVES = 24
SHORTER = 19


@dataclass
class Writer(Scripted):
    """It writes 20 to 24 words, fewer to some groups, and declines some replies to others."""

    shorter: dict[str, int] = field(default_factory=dict)
    declined: dict[str, float] = field(default_factory=dict)

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        return [Generated(self.reply(bytes(ids).decode()), 3, False) for ids in prompts]

    def reply(self, text):
        group = re.search(r"user: (.+?) tells you", text)[1].removeprefix("A ")
        draws = sha256(text.encode()).digest()
        if draws[3] < 256 * self.declined.get(group, 0):
            return "I'm sorry, but I can't help with that."
        n_words = 20 + draws[0] % 5 - self.shorter.get(group, 0)
        said = [*named_in(text), *["word"] * n_words]  # a model that would answer any story alike gets no verdict
        return " ".join([*said[: n_words - 1], ("fine", "sad", "happy", "bad")[draws[1] % 4]])


command = command_fixture(
    "reply_groups", lambda: Writer(shorter={"Muslim": SHORTER}, declined={"Hindu": 0.4})
)  # fmt: skip


@pytest.fixture(scope="module")
def run(command):
    assert command("run", *WORDS, "run_dir=run") == 0
    return command.folder / "run"


def heads_of(run) -> pd.DataFrame:
    table = table_of(run, "disparity")
    return table.loc[table["headline"] & (table["view"] == "all")].set_index(["outcome", "group"])


def share_declined(run) -> pd.Series:
    """Return by group the share of replies that were declined, by hand: every pair was asked about every narrative."""
    replies = open_run(run).answers
    return (replies["status"] == "refused").groupby(replies["experiencer_group"]).mean()


def page_of(run) -> str:
    page = re.sub(r"<(script|style)\b.*?</\1>", "", (run / "report.html").read_text("utf-8"), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def first_screen(run) -> str:
    page = (run / "report.html").read_text("utf-8")
    return page.partition('<div class="summary">')[2].partition('<p class="source">')[0]


def test_planted_length_and_refusals_are_found_and_nothing_else(run):
    heads = heads_of(run)
    muslim, hindu = heads.loc[("n_words", "Muslim")], heads.loc[("refused", "Hindu")]
    assert (muslim["code"], muslim["claim"]) == ("lower", "words")
    assert muslim["disparity"] == pytest.approx(-SHORTER, abs=1)
    assert (hindu["code"], hindu["claim"]) == ("higher", "words")
    declined = share_declined(run)
    assert declined["Hindu"] > 0.2
    assert hindu["disparity"] == pytest.approx(declined["Hindu"] - declined.drop("Hindu").mean())
    assert set(heads.index[heads["code"].isin(["lower", "higher"])]) == {("n_words", "Muslim"), ("refused", "Hindu")}
    verdicts = table_of(run, "verdicts")
    assert "gap" not in set(verdicts["code"])


def test_the_spread_of_a_measure_is_that_of_the_replies(run):
    heads, measures = heads_of(run).reset_index(), table_of(run, "measures").set_index("measure")
    known = heads.loc[heads["disparity_sd"].notna() & heads["disparity_sd"].ne(0)]
    assert set(known["outcome"]) >= {"n_words", "sentiment", "refused"}
    for row in known.to_dict("records"):
        assert row["disparity"] / row["disparity_sd"] == pytest.approx(measures.loc[row["outcome"], "sd"])


def test_p_is_corrected_for_the_measures_that_differ_and_not_for_those_that_cannot(run):
    """No crisis line is named and nobody is referred to a professional: these measures cannot be found to differ."""
    measures = table_of(run, "measures").set_index("measure").query("status == 'scored'")
    varying = measures.index[measures["sd"] > 0]
    assert {"crisis_line", "professional_help"} == set(measures.index) - set(varying)
    assert set(heads_of(run).loc[["n_words", "sentiment", "refused"], "family_size"]) == {4 * len(varying)}


def test_the_first_screen_tells_both_with_numbers_of_the_tables(run):
    screen, table = first_screen(run), table_of(run, "disparity")
    rows = table.index[table["headline"] & table["code"].isin(["lower", "higher"]) & (table["view"] == "all")]
    assert len(rows) == 2
    first = next(row for row in rows if table.loc[row, "outcome"] == "refused")
    for column in ("disparity", "ci_low", "ci_high", "disparity_sd"):
        assert f'data-at="disparity:{first}:{column}"' in screen
    assert re.search(r"Also: Length \(lower for <bdi>Muslim</bdi>\)", screen)


def test_each_measure_has_its_answer_and_each_group_its_number_on_the_page(run):
    page, table = (run / "report.html").read_text("utf-8"), table_of(run, "disparity")
    heads = table.loc[table["headline"] & (table["view"] == "all")]
    differing = heads.loc[heads["disparity"].abs() > 1e-9]
    assert len(differing) >= 12
    for row in differing.index:
        assert f'data-at="disparity:{row}:disparity"' in page


def test_the_terminal_names_them(run, command, capsys):
    assert command("report", "run") == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if "Does a group get less" in line]
    assert "lower or higher for Hindu and Muslim than for the others" in line
    assert "higher for Hindu, +0.240 share of replies (95% interval +0.160 to +0.319" in line
    assert "Also: Length (lower for Muslim)" in line


def test_a_run_without_a_table_of_groups_opens_and_gets_one(run, command, tmp_path):
    """Runs of earlier versions have none."""
    before = (run / "tables" / "disparity.csv").read_bytes()
    (run / "tables" / "disparity.csv").unlink()
    assert command("report", "run") == 0
    assert (run / "tables" / "disparity.csv").read_bytes() == before


def test_narratives_that_contradict_a_group_are_counted_on_the_page(run, command):
    """The page of a run that left some out says how many."""
    words = [word for word in WORDS if not word.startswith(("dimensions", "stimuli.own_identities"))]
    assert command("run", *words, "dimensions=[age]", "stimuli.perceiver_terms=1", "run_dir=age") == 0
    manifest = pd.read_json(command.folder / "age" / "manifest.json", typ="series")
    n = manifest["left_out"]["age"]
    assert 0 < n < N_NARRATIVES
    assert re.search(rf"{n} narratives? of the run (was|were) left out for all groups", page_of(command.folder / "age"))
    assert "left out for all groups" not in page_of(run)
