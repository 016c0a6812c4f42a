"""Oracles: least squares of statsmodels on columns laid out by hand, and planted effects of groups, words and forms."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from cubes import cube_of

from audit.errors import NotEstimableError
from audit.statistics.controls import control_rows
from audit.statistics.crossed import crossed_gap
from audit.statistics.echo import Overlap, echo_free, echo_of_words, same_words_cube
from audit.statistics.families import family_rows
from audit.statistics.headline import headline_gap
from audit.tables.controls import ComparedWords

NAN = np.nan
WORDS = ComparedWords()
"""The stems of an earlier version's run that stated none."""
RELIGIONS = {
    "Buddhist": ("a Buddhist", "a follower of the Noble Eightfold Path"),
    "Christian": ("a Christian", "a follower of Jesus"),
    "Hindu": ("a Hindu", "a follower of the Bhagavad Gita"),
    "Muslim": ("a Muslim", "a follower of Islam"),
}
STEMMED = {name: (f"a {name}", f"a {name} person", f"someone who is {name}") for name in ("Hindu", "Veltan", "Dorrish")}
STEMS = {terms[0]: name for name, terms in RELIGIONS.items()} | {
    "a follower of the Noble Eightfold Path": "path",
    "a follower of Jesus": "jesus",
    "a follower of the Bhagavad Gita": "gita",
    "a follower of Islam": "islam",
    **{term: name for name, terms in STEMMED.items() for term in terms},
    "a Muslim person": "Muslim",
}


def terms_of(groups):
    return [term for terms in groups.values() for term in terms], [g for g, terms in groups.items() for _ in terms]


def planted(groups, n=40, *, group=0.0, words=0.0, stem=0.0, form=0.0, sd=1.0, seed=0):
    """Ratings with an effect of the same group, of the same words, of the same stem and of the same form."""
    terms, members = terms_of(groups)
    rng, k = np.random.default_rng(seed), len(terms)
    overlap = Overlap.of(terms, terms, STEMS)
    same = np.equal.outer(np.array(members, dtype=object), np.array(members, dtype=object))
    y = (
        50
        + rng.normal(0, 5, (n, 1, 1))
        + rng.normal(0, 4, k)[:, None]
        + rng.normal(0, 4, k)
        + rng.normal(0, sd, (n, k, k))
    )
    y += group * same + words * overlap.same_words + stem * overlap.same_stem + form * overlap.same_form
    return cube_of(y, groups=members, perceivers=tuple(terms), experiencers=tuple(terms))


def gap(cube):
    return headline_gap(cube, confidence=0.95)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("a Hindu", "a Hindu", "same_words"),
        ("a Hindu", "A  hindu", "same_words"),
        ("a Hindu", "a Hindu person", "same_stem"),
        ("a Hindu", "a believer in Hinduism", "same_stem"),
        ("an American person", "a person from the Americas", "same_stem"),
        ("a Muslim", "a person who follows Islam", None),
        ("a Latina", "a Hispanic person", None),
        ("a person from the United States", "a person from the United Kingdom", None),
        ("a person of group A", "a person of group B", "same_stem"),
        ("a person from Ur", "a person from Us", None),
    ],
)
def test_what_two_wordings_share_in_runs_of_earlier_versions(one, other, shared):
    found = Overlap.of([one], [other], WORDS)
    assert [name for name in ("same_words", "same_stem") if getattr(found, name)[0, 0]] == ([shared] if shared else [])


def test_a_stem_that_is_told_stands_for_the_words():
    terms = ["a French person", "a person from France", "a person from Frankfurt"]
    by_words = Overlap.of(terms, terms, WORDS)
    assert (by_words.same_stem[1, 2], by_words.same_stem[0, 1]) == (True, False)
    stems = {terms[0]: "france", terms[1]: "France", terms[2]: "frankfurt"}
    for told in (Overlap.of(terms, terms, stems), Overlap.of(terms, terms, ComparedWords(stems))):
        assert (told.same_stem[1, 2], told.same_stem[0, 1]) == (False, True)


@pytest.mark.parametrize(
    ("one", "other", "stems", "shared"),
    [
        # what four letters miss, and what they find that is not there
        ("a Jew", "a Jewish person", ("jew", "jew"), True),
        ("a Dane", "a Danish person", ("dane", "dane"), True),
        ("a Pole", "a Polish person", ("pole", "pole"), True),
        ("a Welsh person", "a person from Wales", ("wales", "Wales"), True),
        ("an Austrian person", "an Australian person", ("austria", "australia"), False),
        # of two words, one is enough
        ("a European American", "a White American", ("europe+america", "white+america"), True),
        ("a European American", "a Caucasian", ("europe+america", "caucasian"), False),
        ("a Hindu", "a Muslim", ("a Hindu", "a Muslim"), False),
    ],
)
def test_stems_are_stated_and_never_guessed(one, other, stems, shared):
    stated = dict(zip((one, other), stems, strict=True))
    assert Overlap.of([one], [other], stated).same_stem.tolist() == [[shared]]
    assert Overlap.of([one], [other], {}).same_stem.tolist() == [[False]]


def test_where_no_stem_is_stated_there_is_no_echo_free_gap_and_the_terms_are_named():
    """A planted echo of a stem that nobody stated would be taken for a gap."""
    jewish = {name: (f"a {name}", f"a {name} person") for name in ("Dane", "Pole")}
    with pytest.raises(NotEstimableError, match=r"no stem is stated for 'a Dane' and 3 more.*column stem"):
        echo_free(planted(jewish, 5, stem=5.0), {})
    some = {"a Dane": "dane", "a Dane person": "dane", "a Pole": "pole"}
    with pytest.raises(NotEstimableError, match="no stem is stated for 'a Pole person',"):
        echo_free(planted(jewish, 5, stem=5.0), some)


def test_a_group_of_one_term_needs_no_stem():
    """It only ever repeats itself; the gap is that of the groups of two."""
    groups = RELIGIONS | {"Sikh": ("a Sikh",)}
    free = gap(echo_free(planted(RELIGIONS, 60, group=2.0, words=3.0), STEMS))
    assert free.delta == pytest.approx(2.0, abs=0.3)
    with pytest.raises(NotEstimableError, match=r"share a word or its stem in the groups Sikh$"):
        echo_free(planted(groups, 5), STEMS)


def test_forms_are_what_is_left_of_a_wording_without_its_group():
    terms = ["a follower of Jesus", "a follower of the Noble Eightfold Path", "a Hindu", "an Indian person"]
    assert Overlap.of(terms, terms, STEMS).same_form.astype(int).tolist() == [
        [1, 1, 0, 0],
        [1, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
    ]


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_coefficients_are_those_of_least_squares_within_narratives(missing):
    cube = planted(RELIGIONS, 6, group=1.0, words=2.0, form=0.7)
    y = cube.y.copy()
    y[np.random.default_rng(1).random(y.shape) < missing] = NAN
    cube = cube_of(y, groups=cube.perceiver_groups, perceivers=cube.perceivers, experiencers=cube.experiencers)
    terms, members = terms_of(RELIGIONS)
    overlap = Overlap.of(terms, terms, STEMS)
    i, p, e = (each.ravel() for each in np.indices(y.shape))
    table = pd.DataFrame({"y": y.ravel(), "i": i, "p": p, "e": e})
    same = np.equal.outer(np.array(members), np.array(members))
    for name, mask in (("g", same), ("s", overlap.same_words), ("f", overlap.same_form)):
        table[name] = mask[p, e].astype(float)
    for narrative, free, echo in zip(
        range(6), gap(echo_free(cube, STEMS)).by_narrative, gap(echo_of_words(cube, STEMS)).by_narrative, strict=True
    ):
        fit = smf.ols("y ~ g + s + f + C(p) + C(e)", table[(table["i"] == narrative)].dropna()).fit()
        assert (free, echo) == pytest.approx((fit.params["g"], fit.params["s"]), abs=1e-8)


def test_effects_of_group_words_and_form_are_told_apart():
    cube = planted(RELIGIONS, 200, group=1.5, words=2.0, form=3.0)
    free, echo, repeated = (gap(each(cube, STEMS)) for each in (echo_free, echo_of_words, same_words_cube))
    assert free.delta == pytest.approx(1.5, abs=0.15)
    assert echo.delta == pytest.approx(2.0, abs=0.15)
    assert repeated.delta == pytest.approx(3.5, abs=0.15)
    assert gap(cube).delta == pytest.approx(2.5, abs=0.1)  # half of the in-group pairs repeat their words


def test_the_gap_of_two_groups_is_that_beside_the_words_of_their_terms():
    free = echo_free(planted(RELIGIONS, 60, group=1.5, words=4.0, sd=0.1), STEMS)
    rows = family_rows(free, confidence=0.95, valence={}, clusters={})
    pairs = [row["delta"] for row in rows if row["family"] == "pair"]
    assert len(pairs) == 6
    assert pairs == pytest.approx([1.5] * 6, abs=0.1)


def test_a_preference_for_like_forms_is_no_gap():
    free = gap(echo_free(planted(RELIGIONS, 100, form=5.0), STEMS))
    assert free.ci_low < 0 < free.ci_high


def test_terms_of_one_stem_leave_no_echo_free_gap_but_the_echo_of_the_words_beyond_it():
    cube = planted(STEMMED, 100, group=1.0, stem=0.5, words=2.0)
    with pytest.raises(NotEstimableError, match="every two terms of a group share a word"):
        echo_free(cube, STEMS)
    # in other words of one stem a pair gains group and stem, in the same words group and words
    assert gap(echo_of_words(cube, STEMS)).delta == pytest.approx(1.5, abs=0.2)


def test_a_group_without_such_terms_is_named():
    groups = RELIGIONS | {"Muslim": ("a Muslim", "a Muslim person")}
    with pytest.raises(NotEstimableError, match=r"groups Muslim$"):
        echo_free(planted(groups, 3), STEMS)


def test_one_term_a_group_has_no_echo():
    with pytest.raises(NotEstimableError, match="one term"):
        echo_of_words(planted({name: terms[:1] for name, terms in RELIGIONS.items()}, 3), STEMS)


def test_perceivers_of_one_term_do():
    cube = planted(RELIGIONS, 200, group=1.5, words=2.0, form=3.0)
    few = cube.select(np.arange(8) % 2 == 0, np.ones(8, dtype=bool))
    assert gap(echo_free(few, STEMS)).delta == pytest.approx(1.5, abs=0.2)
    assert gap(echo_of_words(few, STEMS)).delta == pytest.approx(2.0, abs=0.2)


# --- Invented groups -------------------------------------------------------------------------------------------------

LABELS = {name: terms[:1] for name, terms in RELIGIONS.items()}
INVENTED = {name: (f"a {name}",) for name in ("Veltan", "Dorrish", "Kessolti", "Omlunder")}


def controls(cube, *placebos, n_missing=0):
    sets = {f"invented_{place}": each for place, each in enumerate(placebos)}
    rows = control_rows(cube, stems=STEMS, placebos=sets, placebo_stems={}, confidence=0.95, n_missing=n_missing)
    return {row["control"]: row for row in rows}


def test_the_difference_from_invented_groups_is_paired_by_narrative():
    real, invented = planted(LABELS, 30, words=3.0, seed=1), planted(INVENTED, 30, words=2.0, seed=2)
    found = controls(real, invented)
    d = gap(real).by_narrative - gap(invented).by_narrative
    row = found["placebo_difference"]
    assert row["delta"] == pytest.approx(d.mean(), abs=1e-10)
    assert row["se"] == pytest.approx(d.std(ddof=1) / 30**0.5, rel=1e-9)
    assert (row["n_answers"], row["levels"], row["headline"]) == (2 * 30 * 16, 1, True)
    assert found["placebo"]["delta"] == pytest.approx(gap(invented).delta, abs=1e-10)
    assert "share a word" in found["echo_free"]["note"]
    assert np.isnan(found["echo_free"]["delta"])


def test_narratives_are_matched_by_name_and_not_by_place():
    real, invented = planted(LABELS, 30, seed=1), planted(INVENTED, 30, seed=2)
    turned = invented.of_narratives(np.arange(30) != 4)
    order = np.arange(29)[::-1]
    backwards = cube_of(
        turned.y[order], groups=turned.perceiver_groups, perceivers=turned.perceivers, experiencers=turned.experiencers,
        narrative_ids=tuple(turned.narrative_ids[k] for k in order),
    )  # fmt: skip
    kept = np.arange(30) != 4
    d = (gap(real).by_narrative - gap(invented).by_narrative)[kept]
    row = controls(real, backwards)["placebo_difference"]
    assert (row["delta"], row["n_narratives"]) == (pytest.approx(d.mean(), abs=1e-10), 29)


def test_four_sets_are_a_sample_of_sets():
    real = planted(LABELS, 30, words=2.0, seed=1)
    sets = [planted(INVENTED, 30, words=words, seed=place) for place, words in enumerate((0.0, 1.0, 3.0, 5.0))]
    row = controls(real, *sets)["placebo_difference"]
    gaps = np.column_stack([gap(each).by_narrative for each in sets])
    crossed = crossed_gap(gap(real).by_narrative[:, None] - gaps, confidence=0.95, n_answers=0).estimate
    assert [row[name] for name in ("delta", "se", "df")] == pytest.approx([crossed.delta, crossed.se, crossed.df])
    assert row["se"] > 0.8  # sets differ by 2 points; three of them would be held to be all there are
    assert controls(real, *sets[:3])["placebo_difference"]["se"] < 0.2


def test_the_echo_free_gap_decides_where_there_is_one():
    real, invented = planted(RELIGIONS, 30, words=3.0), planted(INVENTED, 30, words=2.0)
    found = controls(real, invented)
    assert [name for name, row in found.items() if row["headline"]] == ["echo_free"]
    assert found["same_words"]["delta"] == pytest.approx(3.0, abs=0.4)


def test_without_invented_groups_or_other_terms_nothing_decides():
    found = controls(planted(LABELS, 5))
    assert np.isnan(found["placebo_difference"]["ci_low"])
    assert "no invented groups" in found["placebo_difference"]["note"]


# --- Cues ------------------------------------------------------------------------------------------------------------


def test_the_gap_of_each_cue_is_that_of_its_experiencers():
    cube = planted(RELIGIONS, 60, sd=0.5)
    cues = {term: "label" if place % 2 == 0 else "context" for place, term in enumerate(cube.experiencers)}
    own = np.equal.outer(np.array(cube.perceiver_groups), np.array(cube.experiencer_groups))
    of_context = np.array([cues[term] == "context" for term in cube.experiencers])
    y = cube.y + 4.0 * own * of_context
    cube = cube_of(y, groups=cube.perceiver_groups, perceivers=cube.perceivers, experiencers=cube.experiencers)
    rows = family_rows(cube, confidence=0.95, valence={}, clusters={}, cues=cues)
    found = {row["member"]: row["delta"] for row in rows if row["family"] == "cue"}
    assert found == {"label": pytest.approx(0, abs=0.1), "context": pytest.approx(4, abs=0.1)}
    rows = family_rows(cube, confidence=0.95, valence={}, clusters={}, cues=dict.fromkeys(cues, "label"))
    assert "cue" not in {row["family"] for row in rows}
