"""Whole audits of a scripted model whose gap is planted in each wording: it comes out where it was put in."""

import json
import re
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest
from runs import as_stored, scripted_models
from test_planted_strategy import Scripted

from audit.engines.base import Generated
from audit.extras.gate.judge import gate_run
from audit.report.verdicts import REASONS
from audit.runs.store import RunFolder
from audit.tables.ratings import MANIPULATED
from stimuli.manipulation import LEAST
from stimuli.narratives import load_narratives

pytestmark = pytest.mark.long

V = 4
IN_EIGHT = (0, 6, -3, 9, 2, -5, 4, 1)
"""Points that each of eight wordings adds to the gap."""
EFFECTS = IN_EIGHT[:V]
GAP, LEVELS = 5, (0, 12, 7, -8, 3, -4, 9, -2)
"""Points: the gap, and what a wording adds to every rating."""
N_NARRATIVES, K = 24, 4
N_PROMPTS = V * N_NARRATIVES * K * K
CLUBS = """clubs:
  groups: {Reds: [a Red], Blues: [a Blue], Greens: [a Green], Golds: [a Gold]}
"""
"""Groups of one term, so that the gap is of the very same words, as the scripted model's."""
WORDS = ("stimuli.own_identities=clubs.yaml",
         "stimuli.placebo=0", "stimuli.unspecified=false", "dimensions=clubs", "stimuli.situations_per_emotion=2",
         "elicitation=generate", "elicitation.noise_sample=0", "elicitation.manipulation=0", "model.path=scripted",
         "statistics.n_permutations=100", "stimuli.pairs=all", "stimuli.perceiver_terms=null")  # fmt: skip


def whole(n, *words):
    """Return a whole number from -n to n that is always the same for the same words."""
    return int.from_bytes(sha256("|".join(words).encode()).digest()[:4]) % (2 * n + 1) - n


def own_gap(narrative):
    return whole(3, "gap", narrative)


def pattern(template):
    """Return what finds a template's identity, and its narrative where it shows one, in a text made of it."""
    found = re.escape(template)
    for name, read in (("perceiver", "(?P<perceiver>.+?)"), ("Experiencer", "(?P<experiencer>.+?)"),
                       ("narrative", "(?P<narrative>[^\"]+)"), ("emotion_noun", ".+?"), ("low", "0"), ("high", "100"),
                       ("low_label", "not at all"), ("high_label", "extremely"), ("persona", ".+?")):  # fmt: skip
        found = found.replace(re.escape(f"{{{name}}}"), read)
    return re.compile(found)


@dataclass
class Worded(Scripted):
    """It rates by the wording of all three parts of the prompt, which must be of one number."""

    persona: tuple = ()
    system: tuple = ()
    user: tuple = ()
    refuses: int | None = None

    @classmethod
    def of(cls, variants, **more):
        return cls(**{part: tuple(pattern(getattr(each, part)) for each in variants)
                      for part in ("persona", "system", "user")}, **more)  # fmt: skip

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        return [Generated(self.rate(bytes(ids).decode()), 3, False) for ids in prompts]

    def rate(self, text):
        system, user = re.fullmatch(r"system: (.*)\nuser: (.*)", text, re.DOTALL).groups()
        [wording] = [k for k, each in enumerate(self.user) if each.fullmatch(user)]
        asked = self.user[wording].fullmatch(user)
        assert self.system[wording].fullmatch(system)
        perceiver = self.persona[wording].fullmatch(system.split("\n")[0])["perceiver"]
        experiencer, narrative = asked["experiencer"], asked["narrative"]
        same = perceiver.lower() == experiencer.lower()
        if wording == self.refuses and not same:
            return "I cannot rate this."
        rating = 50 + LEVELS[wording] + whole(4, "level", narrative) + whole(3, "as", perceiver)
        rating += whole(3, "of", experiencer) + same * (GAP + IN_EIGHT[wording] + own_gap(narrative))
        return str(rating)


def wordings_of(n):
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from audit.configuration.composition import conf_folder
    from audit.configuration.schema import load_config

    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        values = OmegaConf.to_container(compose("audit", [f"wordings={n}"]), resolve=True)
    values.pop("experiment", None)
    return load_config(values).prompt_wordings()


@pytest.fixture(scope="module")
def originals():
    return wordings_of(V)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a function that runs the command on a scripted model, in one folder."""
    folder = tmp_path_factory.mktemp("wordings")
    (folder / "clubs.yaml").write_text(CLUBS)
    with scripted_models(folder, figures=True) as load:

        def run_on(engine, *words, code=0):
            from audit.cli.main import main

            load(engine)
            assert main(["run", *WORDS, *words]) == code
            return folder

        yield run_on


@pytest.fixture(scope="module")
def worded(run, originals):
    """Folder of a run in four wordings."""
    return run(Worded.of(originals), f"wordings={V}", "run_dir=worded") / "worded"


def table_of(folder, name):
    return pd.read_csv(folder / "tables" / f"{name}.csv")


def narratives_of(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    with RunFolder(folder) as entered:
        return entered.read_ratings(n_prompts=manifest["n_prompts"])


def gaps_of_narratives(folder):
    """Each narrative's planted gap over the run's own, by its text."""
    from audit.asking.plan import make_plan
    from audit.configuration.schema import load_config

    manifest = json.loads((folder / "manifest.json").read_text())
    plan = make_plan(load_config(manifest["config"]))
    return np.array([own_gap(each.neutral) for each in plan.grid.narratives.narratives])


def control_and_headline(folder):
    """Return the row of any such wordings, and the headline's."""
    gap = table_of(folder, "gap")
    headline = gap.loc[gap["headline"] & (gap["scope"] == "narratives")].iloc[0]
    return table_of(folder, "controls").set_index("control").loc["wording"], headline


def test_every_narrative_meets_every_wording_and_the_table_of_ratings_tells_which(worded):
    ratings = narratives_of(worded)
    assert len(ratings) == N_PROMPTS
    assert ratings["wording"].value_counts().to_dict() == dict.fromkeys(range(V), N_PROMPTS // V)
    assert (ratings.groupby(["wording", "perceiver", "experiencer"], observed=True)["narrative_id"].nunique()
            == N_NARRATIVES).all()  # fmt: skip
    assert ratings["wording"].is_monotonic_increasing  # slowest, so that prompts that begin alike stand together


def test_the_gap_of_each_wording_is_the_one_that_was_planted(worded):
    own = gaps_of_narratives(worded)
    wordings = table_of(worded, "wordings")
    assert wordings["wording"].tolist() == list(range(V))
    np.testing.assert_allclose(wordings["delta"], GAP + own.mean() + np.array(EFFECTS), atol=1e-9)
    # A wording adds the same to every narrative, so that they differ alike in each.
    np.testing.assert_allclose(wordings["se"], own.std(ddof=1) / N_NARRATIVES**0.5, atol=1e-9)


def test_the_headline_is_the_mean_and_fewer_than_eight_wordings_speak_of_no_others(worded):
    own = gaps_of_narratives(worded)
    row, headline = control_and_headline(worded)
    delta = GAP + own.mean() + np.mean(EFFECTS)
    assert row["delta"] == pytest.approx(delta)
    assert headline["delta"] == pytest.approx(delta)
    assert headline["se"] == pytest.approx(own.std(ddof=1) / N_NARRATIVES**0.5)
    assert row[["se", "ci_low", "ci_high", "p"]].isna().all()
    assert f"{V} wordings" in row["note"]
    assert (row["levels"], row["n_narratives"], row["n_answers"]) == (V, N_NARRATIVES, N_PROMPTS)
    assert not row["headline"]
    # The gate tests this mean, and says so.
    assert [note for note in gate_run(worded, margin=50).notes if f"{V} wordings" in note]


def test_from_eight_wordings_on_the_control_widens_the_interval(run):
    folder = run(Worded.of(wordings_of(8)), "wordings=8", "run_dir=eight") / "eight"
    own = gaps_of_narratives(folder)
    row, headline = control_and_headline(folder)
    assert row["delta"] == pytest.approx(GAP + own.mean() + np.mean(IN_EIGHT))
    # d_iv = a_i + b_v exactly: MS_R is 0, and the variance of the mean var(a)/N + var(b)/V.
    planted = own.var(ddof=1) / N_NARRATIVES + np.var(IN_EIGHT, ddof=1) / 8
    assert row["se"] == pytest.approx(planted**0.5)
    assert row["ci_low"] < headline["ci_low"] < headline["ci_high"] < row["ci_high"]
    assert headline["se"] == pytest.approx(own.std(ddof=1) / N_NARRATIVES**0.5)
    assert (row["levels"], row["n_narratives"], row["n_answers"]) == (8, N_NARRATIVES, 2 * N_PROMPTS)
    assert not row["headline"]


def test_the_shares_of_variance_are_the_planted_ones(worded):
    own = gaps_of_narratives(worded)
    shares = table_of(worded, "wording_shares").set_index("part")
    np.testing.assert_allclose(
        shares.loc[["narratives", "wordings", "rest"], "variance"], [own.var(ddof=1), np.var(EFFECTS, ddof=1), 0],
        atol=1e-9,
    )  # fmt: skip
    assert shares["share"].sum() == pytest.approx(1)


def test_the_page_shows_the_wordings_and_the_figure_is_there(worded):
    page = (worded / "report.html").read_text()
    assert "wordings like these" in page
    assert (worded / "figures" / "wordings-clubs-origin.svg").exists()
    assert len(table_of(worded, "cells")["n_prompts"].unique()) == 1
    assert table_of(worded, "outcomes").set_index("pairs").loc["all", "n_prompts"] == N_PROMPTS


def test_a_wording_that_refuses_out_group_pairs_shifts_the_mean_but_not_the_gaps_of_the_others(run, originals):
    folder = run(Worded.of(originals, refuses=1), f"wordings={V}", "run_dir=refuses") / "refuses"
    own = gaps_of_narratives(folder)
    wordings = table_of(folder, "wordings").set_index("wording")
    assert np.isnan(wordings.loc[1, "delta"])
    assert wordings.loc[1, "note"]
    others = [0, 2, 3]
    planted = GAP + own.mean() + np.array(EFFECTS)[others]
    np.testing.assert_allclose(wordings.loc[others, "delta"], planted, atol=1e-9)
    control = table_of(folder, "controls").set_index("control").loc["wording"]
    assert np.isnan(control["delta"])
    missing = table_of(folder, "missing").set_index("outcome").loc["refused"]
    # One wording of four, in every out-group pair and in no other.
    assert missing[["rate_in_group", "rate_out_group", "gap_pp"]].tolist() == pytest.approx([0, 0.25, -25])
    assert missing["n_with_outcome"] == N_NARRATIVES * K * (K - 1)


def test_a_folder_of_one_wording_is_no_folder_of_several(worded, run, originals, capfd):
    run(Worded.of(originals), "wordings=1", "run_dir=worded", code=2)
    assert "wordings is 4 there and 1 here" in capfd.readouterr().err


def test_a_run_in_one_wording_has_no_section_and_no_control(run, originals):
    folder = run(Worded.of(originals), "run_dir=single") / "single"
    assert not (folder / "tables" / "wordings.csv").exists()
    assert "wording" not in set(table_of(folder, "controls")["control"])
    assert "wordings like these" not in (folder / "report.html").read_text()
    assert set(narratives_of(folder)["wording"]) == {0}
    assert not [note for note in gate_run(folder, margin=50).notes if "wording" in note]


# --- Group, words and wording together -------------------------------------------------------------------------------

TWO_TERMS = {"Reds": ("a Red", "a fan of Rotspor"), "Blues": ("a Blue", "a fan of Blavi"),
             "Greens": ("a Green", "a fan of Verdan"), "Golds": ("a Gold", "a fan of Aurell")}  # fmt: skip
GROUP_OF = {term.lower(): group for group, terms in TWO_TERMS.items() for term in terms}
GROUP, ECHO, FORM, INVENTED_ECHO, OWN_EMOTION = 4, 7, 3, 5, 20
NOUN_OF = {narrative.neutral: narrative.words.noun for narrative in load_narratives("geneva").narratives}


@dataclass
class Echoing(Worded):
    """It has a gap between groups, an echo of the very same words, and a liking for like forms; of any group.

    Unless it is deaf, it rates a narrative's own emotion higher than a wrong one.
    """

    deaf: bool = False

    def rate(self, text):
        system, user = re.fullmatch(r"system: (.*)\nuser: (.*)", text, re.DOTALL).groups()
        [wording] = [k for k, each in enumerate(self.user) if each.fullmatch(user)]
        told = self.persona[wording].fullmatch(system.split("\n")[0])
        asked = self.user[wording].fullmatch(user)
        experiencer, narrative = asked["experiencer"].lower(), asked["narrative"]
        level = 30 + LEVELS[wording] + whole(4, "level", narrative)
        level += OWN_EMOTION * (not self.deaf and NOUN_OF[narrative] in user)
        if told is None:  # without identities
            return str(level)
        perceiver = told["perceiver"].lower()
        rating = level + whole(3, "as", perceiver) + whole(3, "of", experiencer)
        if perceiver not in GROUP_OF:
            return str(rating + INVENTED_ECHO * (perceiver == experiencer))
        group = (GROUP + EFFECTS[wording] + own_gap(narrative)) * (GROUP_OF[perceiver] == GROUP_OF[experiencer])
        form = FORM * (("fan" in perceiver) == ("fan" in experiencer))
        return str(rating + group + form + ECHO * (perceiver == experiencer))


@pytest.fixture(scope="module")
def echoing(run, originals):
    """Folder of a run in four wordings of groups with two terms, with invented groups beside them."""
    groups = "".join(
        f"    {name}: [{', '.join(f'{{term: {term}, stem: {term.split()[-1].lower()}}}' for term in terms)}]\n"
        for name, terms in TWO_TERMS.items()
    )
    folder = run(Worded.of(originals), "run_dir=none", "stimuli.emotions=[sad]")  # where files are
    (folder / "fans.yaml").write_text(f"fans:\n  groups:\n{groups}")
    words = ("stimuli.own_identities=fans.yaml", "dimensions=fans", "stimuli.placebo=2", f"wordings={V}",
             "elicitation.manipulation=8")  # fmt: skip
    return run(Echoing.of(originals), *words, "run_dir=echoing") / "echoing"


def test_group_echo_wording_and_invented_groups_come_out_where_they_were_put_in(echoing):
    own = gaps_of_narratives(echoing)
    controls = table_of(echoing, "controls").set_index("control")
    group = GROUP + np.mean(EFFECTS) + own.mean()
    found = {name: controls.loc[name, "delta"] for name in controls.index}
    assert found["echo_free"] == pytest.approx(group)
    assert found["echo"] == pytest.approx(ECHO)
    assert found["same_words"] == pytest.approx(group + ECHO)
    assert found["placebo"] == pytest.approx(INVENTED_ECHO)
    assert found["placebo_difference"] == pytest.approx(group + ECHO - INVENTED_ECHO)
    assert found["wording"] == pytest.approx(group)
    np.testing.assert_allclose(table_of(echoing, "wordings")["delta"], GROUP + own.mean() + np.array(EFFECTS))
    assert controls.index[controls["headline"]].tolist() == ["echo_free"]
    assert controls.loc["placebo", "levels"] == 2


def test_invented_groups_are_in_the_controls_and_marked_in_disparities_and_in_no_other_table(echoing):
    manifest = json.loads((echoing / "manifest.json").read_text())
    assert len(manifest["placebo"]) == 2
    for file in (echoing / "tables").glob("*.csv"):
        table = pd.read_csv(file)
        if file.name == "disparity.csv":
            assert set(table.loc[table["invented"], "dimension"]) == set(manifest["placebo"])
            assert set(table.loc[table["headline"], "dimension"]) == {"fans"}
            table = table.loc[~table["invented"]]
        if "dimension" in table and len(table):
            assert set(table["dimension"]) <= {"fans", "all"}, file.name


def test_a_model_that_follows_what_is_told_passes_and_has_a_verdict(echoing):
    [row] = table_of(echoing, "manipulation").to_dict("records")
    assert (row["check"], row["n_pairs"], row["difference"]) == ("emotion", 24, OWN_EMOTION)
    assert row["answer"] == "follows"
    assert "no_verdict" not in set(table_of(echoing, "verdicts")["code"])
    assert REASONS["manipulation"] not in (echoing / "report.html").read_text()


def test_a_model_that_does_not_follow_what_is_told_has_no_verdict(run, originals):
    folder = run(Echoing.of(originals, deaf=True), "elicitation.manipulation=8", "run_dir=deaf") / "deaf"
    [row] = table_of(folder, "manipulation").to_dict("records")
    assert (row["n_pairs"], row["difference"], row["answer"]) == (24, 0, "does_not_follow")
    [verdict] = table_of(folder, "verdicts").to_dict("records")
    assert (verdict["code"], verdict["reasons"], verdict["next_step"]) == ("no_verdict", "manipulation", "other_model")
    assert (verdict["direction"], verdict["response"]) == (0, 0)
    assert pd.isna(verdict["claim"])
    page = (folder / "report.html").read_text()
    assert f"No verdict: {REASONS['manipulation']}" in page
    assert "An average gap" not in page.partition('id="gaps"')[0]


def asked_without(folder):
    """Return the narratives that were asked without identities, in order, and what the manifest notes."""
    with RunFolder(folder) as kept:
        rows = kept.table(MANIPULATED).frame().astype(object)
    return rows, json.loads((folder / "manifest.json").read_text())["checks"]["manipulation"]


def test_a_check_of_more_narratives_than_the_run_has_goes_on_where_it_stopped(run, originals, capsys):
    words = ("elicitation.manipulation=60", "shard_size=50", "run_dir=sixty")
    folder = run(Echoing.of(originals), *words) / "sixty"
    rows, noted = asked_without(folder)
    own = set(narratives_of(folder)["narrative_id"].astype(str))
    assert (len(rows), rows["narrative_id"].nunique()) == (120, 60)
    assert own < set(rows["narrative_id"])
    assert noted == {"n_prompts": 120, "n_wanted": 60, "n_available": 408}
    assert (len(own), table_of(folder, "manipulation")["n_pairs"].tolist()) == (24, [60])
    capsys.readouterr()
    run(Echoing.of(originals), *words)
    assert "asking without identities" not in capsys.readouterr().err
    run(Echoing.of(originals), *words, "elicitation.manipulation=61")
    more, noted = asked_without(folder)
    pd.testing.assert_frame_equal(more[:120], rows)
    assert (len(more), noted["n_wanted"]) == (122, 61)


def test_a_run_of_an_earlier_version_keeps_what_it_asked_until_more_is_asked_for(run, originals, capsys):
    words = ("elicitation.manipulation=8", "run_dir=earlier")
    folder = run(Echoing.of(originals), *words) / "earlier"
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["checks"]["manipulation"] = {"n_prompts": 16}
    with RunFolder(folder) as kept:
        rows = kept.table(MANIPULATED).frame().astype(object)[:16]
        kept.table(MANIPULATED).write(rows.to_dict("records"))
    (folder / "manifest.json").write_text(json.dumps(manifest))
    as_stored(folder)
    capsys.readouterr()
    run(Echoing.of(originals), *words, "elicitation.manipulation=60")
    assert "asking without identities" not in capsys.readouterr().err
    assert len(asked_without(folder)[0]) == 16
    run(Echoing.of(originals), *words, "elicitation.manipulation=70")
    more, _ = asked_without(folder)
    pd.testing.assert_frame_equal(more[:16], rows)
    assert (len(more), more["narrative_id"].nunique()) == (140, 70)


def test_the_response_to_the_story_stands_beside_the_gap(echoing):
    """All ratings of an own emotion are 20 points higher; of that the gap is its share."""
    page = (echoing / "report.html").read_text()
    [row] = table_of(echoing, "manipulation").to_dict("records")
    gap = table_of(echoing, "gap").query("headline and scope == 'narratives'")["delta"].iloc[0]
    assert row["share_higher"] == 1
    told = re.search(r'data-at="verdicts:\d+:percent_of_response">([\d.]+)</data>% of the model’s response', page)
    assert float(told[1]) == pytest.approx(100 * abs(gap) / OWN_EMOTION, rel=0.01)
    assert 'data-at="manipulation:0:difference">20.00</data> points higher' in page


def test_by_default_sixty_narratives_are_checked_whatever_the_card(originals):
    from hydra import compose, initialize_config_dir

    from audit.configuration.composition import conf_folder

    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        for words in ([], ["model=smollm2"], ["model=gemma3-270m"]):
            assert compose("audit", words)["elicitation"]["manipulation"] == LEAST == 60
