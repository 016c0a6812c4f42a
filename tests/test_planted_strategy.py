"""Whole audits of a scripted model that strategies lead: a planted change is found, and calls come in their order."""

import json
import re
import shutil
from dataclasses import dataclass, field
from hashlib import sha256
from statistics import NormalDist

import pandas as pd
import pytest
from runs import FOUR_RELIGIONS, SMALL_IDENTITIES, collected, in_parts, scripted_models
from test_comparison import Numbers, files_of, table_of

from audit.engines.base import EngineFacts, Generated
from audit.engines.local import TokenEngine
from audit.runs.store import RunFolder
from audit.tables.stages import STAGES
from audit.tasks.reply.scoring import read_scores
from stimuli.sentences import words as words_of

pytestmark = pytest.mark.long

GAP, SHRINKS, RAISES = 8, 5, 6
"""Points: the gap, what two-stage takes off it, and what basic-empathy adds to every rating."""
INFERRED = "Sorrow. Something was lost."
DIMENSIONS = ("heritage", "faith")
N_PROMPTS = 2 * 16 * 24  # dimensions x pairs of four identities x narratives


def uniform(*words):
    """Return a number between 0 and 1 that is always the same for the same words."""
    return (int.from_bytes(sha256("|".join(words).encode()).digest()[:6]) + 0.5) / 2**48


def draw(sd, *words):
    return NormalDist(0, sd).inv_cdf(uniform(*words))


@dataclass
class Scripted(TokenEngine):
    """A model whose tokens are bytes; it rates by who it is and who it is asked about, as it reads them."""

    stop_at: int | None = None
    calls: list[tuple[list[str], list[int] | None]] = field(default_factory=list)
    n_refused: int = 0
    facts = EngineFacts("scripted", "1", "cpu", "float32")
    max_model_len = 100_000

    template = None

    @property
    def tokenizer(self):
        return self

    def render(self, prompt):
        messages = [("system", prompt.system), *prompt.turns, ("user", prompt.user)]
        return "\n".join(f"{role}: {text}" for role, text in messages)

    def encode(self, text):
        return list(text.encode())

    def encode_prompts(self, prompts):
        return [self.encode(self.render(prompt)) for prompt in prompts]

    def forget(self):
        pass

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        if len(self.calls) == self.stop_at:
            self.stop_at = None
            raise KeyboardInterrupt
        texts = [bytes(ids).decode() for ids in prompts]
        self.calls.append((texts, seeds))
        return [
            Generated(self.says(text, seed), 3, False)
            for text, seed in zip(texts, seeds or [None] * len(texts), strict=True)
        ]

    def says(self, text, seed):
        question = (
            r'^(?:user: )?(.+) tells of .*:\n"([^"]+)"\nFrom 0 to 100, how much .* did the person feel\? Number:\Z'
        )
        asked = re.search(question, text, re.MULTILINE)
        if asked is None:
            return f"{INFERRED} {uniform(text, str(seed))}"
        told_by, narrative = asked.groups()
        experiencer = told_by[0].lower() + told_by[1:]
        perceiver = re.match(r"system: For this task you are (.+)\.\n", text)[1]
        led = "two-stage" if f"understood them: {INFERRED}" in text else ""
        led = "basic-empathy" if "be empathetic" in text else led
        if led == "two-stage" and uniform("refused", text) < 0.04:  # whatever the rating would be
            self.n_refused += 1
            return "I cannot rate this."
        gap = GAP - SHRINKS * (led == "two-stage")
        rating = 45 + draw(8, narrative) + draw(4, "as", perceiver) + draw(4, "of", experiencer)
        # Noise that all runs share, and noise of this conversation.
        rating += draw(2, perceiver, experiencer, narrative) + draw(2, "noise", text)
        return str(round(rating + gap * (perceiver == experiencer) + RAISES * (led == "basic-empathy")))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a function that runs the command on a scripted model, in one folder and without figures."""
    folder = tmp_path_factory.mktemp("audits")
    with scripted_models(folder) as load:

        def run_on(engine, run_dir, *words, code=0):
            from audit.cli.main import main

            load(engine)
            settings = ("model.path=scripted", "elicitation=generate", "statistics.n_permutations=100")
            settings += ("elicitation.noise_sample=0", "elicitation.manipulation=0")
            assert main(["run", *words, *settings, "stimuli.unspecified=false", f"run_dir={run_dir}"]) == code
            return folder / run_dir

        yield run_on


@pytest.fixture(scope="module")
def compared(run):
    """Three audits of 24 narratives: the comparison's folder, and how often the model refused, led by two-stage."""
    engine = Scripted()
    # At 99%, since there are a dozen intervals, and the noise is one draw.
    words = ("-m", "strategy=none,two-stage,basic-empathy", "stimuli.situations_per_emotion=2",
             "statistics.confidence=0.99")  # fmt: skip
    swept = run(engine, "sweep", *words, *SMALL_IDENTITIES, f"dimensions=[{','.join(DIMENSIONS)}]")
    return swept / "comparison", engine.n_refused


def rows_of(compared, strategy):
    table = table_of(compared[0], "strategies")
    return table.loc[table["strategy"] == strategy].set_index("dimension")


# --- A planted effect ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [*DIMENSIONS, "all"])
def test_a_planted_change_of_the_gap_is_found_within_its_interval(compared, dimension):
    none, led = (rows_of(compared, strategy).loc[dimension] for strategy in ("none", "two-stage"))
    assert none["ci_low"] < GAP < none["ci_high"]
    assert led["ci_low"] < GAP - SHRINKS < led["ci_high"]
    assert led["change_low"] < -SHRINKS < led["change_high"] < 0
    assert led["change_high"] - led["change_low"] < SHRINKS
    assert not led["change_low"] < -2 * SHRINKS < led["change_high"]  # another amount would not have been found
    assert led["p_adjusted"] < 0.001
    assert (led["reference"], led["n_calls"], none["n_calls"]) == ("none", 2, 1)


@pytest.mark.parametrize("dimension", [*DIMENSIONS, "all"])
def test_a_strategy_that_raises_all_ratings_changes_the_mean_and_not_the_gap(compared, dimension):
    raised = rows_of(compared, "basic-empathy").loc[dimension]
    assert raised["change_low"] < 0 < raised["change_high"]
    assert not raised["change_low"] < -SHRINKS < raised["change_high"]
    assert raised["mean_change"] == pytest.approx(RAISES, abs=0.5)  # 3.5 SE: 2 points of noise twice, 384 prompts
    # A quarter of the pairs are in-group, so that two-stage takes off a quarter; which prompts it refuses adds noise.
    assert rows_of(compared, "two-stage").loc[dimension, "mean_change"] == pytest.approx(-SHRINKS / 4, abs=1)


def test_refusals_are_those_that_the_model_gave(compared):
    refused = table_of(compared[0], "strategies").query("dimension == 'all'").set_index("strategy")["refusal_rate"]
    assert (refused * N_PROMPTS).to_dict() == pytest.approx({"none": 0, "two-stage": compared[1], "basic-empathy": 0})
    assert 10 < compared[1] < 60


def test_the_page_shows_the_table_s_numbers(compared):
    page = (compared[0] / "comparison.html").read_text("utf-8")
    section = page.partition('<h2 id="worth">')[2].partition("</section>")[0]
    written = pd.read_csv(compared[0] / "tables" / "strategies.csv", dtype=str, keep_default_na=False)
    in_tables = {place for place, _ in Numbers("".join(re.findall("<table.*?</table>", section, re.DOTALL))).found}
    for place, value in Numbers(section).found:
        name, line, column = place.split(":")
        assert (name, written[column][int(line)]) == ("strategies", value), place
    for line, row in written.iterrows():
        columns = ["delta", "ci_low", "ci_high", "mean_rating", "refusal_rate", "n_calls"]
        columns += ["delta_change", "change_low", "change_high", "p_adjusted", "mean_change"] * bool(row["reference"])
        assert {f"strategies:{line}:{column}" for column in columns} <= in_tables


def test_two_settings_of_one_strategy_have_labels_that_name_what_differs(run):
    words = ("stimuli.emotions=[sad]", "stimuli.situations_per_emotion=3", *FOUR_RELIGIONS)
    variants = "strategy.stages.day.max_tokens=250,20"
    out = run(Scripted(), "variants", "-m", "strategy=perspective", variants, *words)
    runs = table_of(out / "comparison", "runs")
    assert runs["run"].tolist() == [f"perspective, stages.day.max_tokens {n}" for n in (250, 20)]
    assert runs["leading"].nunique() == 2


# --- The order of calls ----------------------------------------------------------------------------------------------

ECN = ("strategy=ecn", "stimuli.emotions=[sad]", "stimuli.situations_per_emotion=1", *FOUR_RELIGIONS,
       "shard_size=6")  # fmt: skip
OPENINGS = ("Imagine for a moment", "was in this situation", "Think about", "Bring together", "tells of a situation")
SHARDS = (6, 6, 4)  # 16 pairs


@pytest.fixture(scope="module")
def whole(run):
    """An audit by ECN that nothing interrupts: its calls and its folder."""
    engine = Scripted()
    return engine.calls, run(engine, "whole", *ECN)


def test_an_audit_asks_four_stages_in_order_shard_by_shard_and_then_the_question(whole, tmp_path):
    calls, folder = whole
    asked = [(len(texts), {text.rpartition("\nuser: ")[2] for text in texts}) for texts, _ in calls]
    assert [n for n, _ in asked] == [n for n in SHARDS for _ in OPENINGS]
    for (_, last), begins in zip(asked, OPENINGS * len(SHARDS), strict=True):
        assert all(begins in text.partition("\n")[0] for text in last)
    for place, (texts, seeds) in enumerate(calls):
        n_earlier = place % len(OPENINGS)
        assert {text.count("\nassistant: ") for text in texts} == {n_earlier}
        assert (seeds is None) == (n_earlier == 4)  # ECN's stages are sampled, the rating is not
    assert len(collected(in_parts(shutil.copytree(folder, tmp_path / "parts")), "stages")) == 4 * len(SHARDS)


REPLIES = (*ECN[1:-1], "shard_size=40", "task=reply", "measures.names=[lexical]")


def test_an_audit_of_replies_by_ecn_takes_the_fourth_call_for_the_reply_and_asks_no_fifth(run, tmp_path):
    engine = Scripted()
    engine.says = lambda text, seed: f"Wrote {text.count('assistant: ') + 1}: {uniform(text, str(seed))}"
    lexicon = tmp_path / "lexicon.txt"
    lexicon.write_text("sad\tsadness\t1\nwrote\tsadness\t1\nwrote\tfear\t1\n")
    held = (
        "measures.names=[lexical,lexicon]",
        f"measures.lexicon.path={lexicon}",
        "measures.lexicon.narrative=emotion",
    )
    folder = run(engine, "replies", "strategy=ecn", *REPLIES[:-1], *held)
    begins = (*OPENINGS[:3], "Bring together")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert sum(len(texts) for texts, _ in engine.calls) == 4 * manifest["n_prompts"]
    for place, (texts, seeds) in enumerate(engine.calls):
        assert all(begins[place % 4] in text.rpartition("\nuser: ")[2].partition("\n")[0] for text in texts)
        assert not any("Write back to them" in text for text in texts)  # the task's own system message
        assert seeds is not None  # each is sampled, as the paper's four calls are
    with RunFolder(folder) as kept:
        replies, stages = kept.read("replies", n_prompts=manifest["n_prompts"]), kept.parts(STAGES).frame()
        scores = read_scores(kept).pivot(index="prompt_index", columns="measure", values="value")
    assert replies["text"].str.startswith("Wrote 4: 0.").all()
    assert list(stages["stage"].astype(str).unique()) == ["perspective", "resonance", "reflection"]
    assert scores["n_words"].tolist() == [len(words_of(text)) for text in replies["text"]]
    assert scores["lexicon_distance"].tolist() == [0.5] * len(replies)  # sadness alone, against sadness and fear
    assert manifest["strategy"]["reply"] == "synthesis"


def test_without_the_synthesis_ecn_s_reply_is_asked_for_by_the_task(run):
    engine = Scripted()
    folder = run(engine, "no-synthesis", "strategy=ecn-no-synthesis", *REPLIES)
    manifest = json.loads((folder / "manifest.json").read_text())
    last = [text for texts, _ in engine.calls[3::4] for text in texts]
    assert len(last) == manifest["n_prompts"]
    assert all(text.endswith("Your reply:") for text in last)
    assert "reply" not in manifest["strategy"]
    assert "could not be built again" not in (folder / "report.html").read_text()


@pytest.mark.parametrize("nth", [7, 9], ids=["stage 3 of shard 2", "the question of shard 2"])
def test_an_interrupted_audit_asks_exactly_what_is_missing(whole, run, nth):
    engine = Scripted(stop_at=nth)
    run(engine, f"stopped-{nth}", *ECN, code=130)
    assert engine.calls == whole[0][:nth]
    again = Scripted()
    folder = run(again, f"stopped-{nth}", *ECN)
    assert again.calls == whole[0][nth:]
    for part in ("stages", "ratings"):
        assert collected(folder, part) == collected(whole[1], part) != {}
    assert files_of(folder / "tables") == files_of(whole[1] / "tables")
