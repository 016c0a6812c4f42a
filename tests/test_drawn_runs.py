"""Runs with the default identities and pairs: prompts are counted alike everywhere, the planted gap comes out."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import sha256

import pytest
from runs import command_fixture
from test_comparison import table_of
from test_planted_strategy import Scripted

from audit.engines.base import Generated
from audit.runs.prompts import PromptsAsked
from audit.runs.store import RunFolder
from stimuli.identities import load_dimensions

GAP = 9
N = 8
"""Narratives, of two emotions."""
[RELIGION] = load_dimensions("six-groups", names=["religion"], perceiver_terms=1)
GROUP_OF = {each.term.casefold(): each.group for each in RELIGION.experiencers}
WORDS = ("dimensions=[religion]", "stimuli.emotions=[sad,happy]", f"stimuli.situations_per_emotion={N // 2}",
         "stimuli.placebo=1", "stimuli.unspecified=false", "elicitation=generate", "elicitation.prefill=",
         "elicitation.noise_sample=0", "elicitation.manipulation=0",
         "model.path=scripted", "statistics.n_permutations=100")  # fmt: skip


@dataclass
class Drawn(Scripted):
    """It rates one's own group higher, by narrative and identity otherwise; and refuses some prompts."""

    refuses: int = 0

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        return [Generated(self.rate(bytes(ids).decode()), 3, False) for ids in prompts]

    def rate(self, text):
        asked = re.search(r"you are (an? .+?)\.", text)[1].casefold()
        told = re.search(r"user: (.+?) tells of a situation", text)[1].casefold()
        own = GROUP_OF.get(asked) is not None and GROUP_OF.get(asked) == GROUP_OF.get(told)
        draws = sha256(text.split("\n")[-2].encode()).digest()
        level, of_narrative = draws[0] % 40, draws[1] % 3 - 1
        if self.refuses and sha256(text.encode()).digest()[1] < self.refuses:
            return "I cannot say."
        return str(30 + level + len(asked) % 3 + 2 * (len(told) % 4) + (GAP + of_narrative) * own)


REFUSING = {"prompts": 0}
command = command_fixture("drawn", lambda: Drawn(refuses=REFUSING["prompts"]))


@pytest.fixture(scope="module")
def run(command):
    assert command("run", *WORDS, "run_dir=run") == 0
    return command.folder / "run"


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text("utf-8"))


def test_the_prompts_are_those_of_the_design_and_are_counted_alike_everywhere(run, command, capsys):
    # of 12 in-group pairs and 6 x 3 x 2 others; of four invented groups 4 and 4 x 2
    each = 48 + 12
    manifest = manifest_of(run)
    assert manifest["n_prompts"] == N * each
    assert manifest["pairs_drawn"] == ["religion", *manifest["placebo"]]
    assert manifest["identity"]["pairs"] == "balanced"
    assert manifest["counts"]["rated"] == N * each
    capsys.readouterr()
    assert command("run", *WORDS, "run_dir=run") == 0
    assert f"each asked about {each} of them (stimuli.pairs=balanced) = {N * each:,} prompts" in capsys.readouterr().err
    assert command("prompts", *WORDS, "out=prompts.jsonl") == 0
    assert len((command.folder / "prompts.jsonl").read_text("utf-8").splitlines()) == N * each
    asked = PromptsAsked.read(run)
    assert len(asked.grid) == N * each
    rows = RunFolder(run).read_ratings(n_prompts=N * each)
    told = [(cell.perceiver.term, cell.experiencer.term, cell.narrative.narrative_id) for cell in asked.grid]
    assert told == list(zip(rows["perceiver"], rows["experiencer"], rows["narrative_id"], strict=True))


def test_the_planted_gap_comes_out_between_groups_and_nothing_is_missing(run):
    gap = table_of(run, "gap")
    own = gap[(gap["dimension"] == "religion") & (gap["estimator"] == "contrast")].set_index("scope")
    found = own.loc["narratives", "delta"]
    assert found == pytest.approx(GAP, abs=1)
    assert own.loc["narratives_and_terms", "delta"] == pytest.approx(found)
    assert own.loc["narratives", "n_missing"] == 0
    checks = table_of(run, "sensitivity").set_index("check")
    assert checks.loc["worst_case_low", "delta"] == pytest.approx(found)
    # That most pairs were not asked in a narrative is the design, and limits nothing.
    limits = set("; ".join(table_of(run, "verdicts")["limits"]).split("; "))
    assert not {"incomplete_narratives", "many_missing"} & limits
    assert "never asked" not in (run / "report.html").read_text("utf-8")


def test_a_run_of_other_pairs_is_another_run(run, command, capsys):
    assert command("run", *WORDS, "stimuli.pairs=all", "run_dir=run") == 2
    assert "pairs is 'balanced' there and 'all' here" in capsys.readouterr().err
    assert command("run", *WORDS, "run_dir=run") == 0


def test_all_pairs_are_asked_on_demand_and_have_the_study_s_number(command, run):
    assert command("run", *WORDS, "stimuli.pairs=all", "run_dir=all") == 0
    manifest = manifest_of(command.folder / "all")
    assert manifest["n_prompts"] == N * (72 + 16)
    assert "pairs_drawn" not in manifest
    assert "pairs" not in manifest["identity"]  # the run that earlier versions would have made
    gap = table_of(command.folder / "all", "gap")
    assert gap.loc[gap["estimator"] == "published", "delta_z"].notna().all()
    assert command("report", "run", "all", "run_dir=both") == 0


def test_a_gate_takes_refusals_at_their_worst_and_not_what_was_not_asked(command, run, capsys, monkeypatch):
    def decided(said):
        return next(line for line in said.splitlines() if line.startswith("religion (origin): δ average"))

    command("gate", "run", "margin=20", "strict_average=true")
    whole = decided(capsys.readouterr().out)
    monkeypatch.setitem(REFUSING, "prompts", 4)
    assert command("run", *WORDS, "run_dir=refused") == 0
    assert 400 < manifest_of(command.folder / "refused")["counts"]["rated"] < 478
    capsys.readouterr()
    command("gate", "refused", "margin=20", "strict_average=true")
    out, err = capsys.readouterr()
    assert "never asked" not in out + err
    assert "has no bound" not in out + err
    assert decided(out) != whole


def test_the_pieces_of_a_drawn_run_can_be_had_back(command, run, capsys):
    assert command("verify", "run") == 0
    assert command("report", "run") == 0


def test_what_a_run_cannot_say_is_told_before_it_asks(command, capsys):
    assert command("run", *WORDS, "stimuli.identities=geneva", "run_dir=four") == 0
    err = capsys.readouterr().err
    assert (
        "note: religion: 4 groups; a result holds for these pairs of words, not for groups; for groups, use at"
    ) in err
    assert command("run", *WORDS, "run_dir=run") == 0
    assert "not for groups; for groups, use at" not in capsys.readouterr().err
