import numpy as np
import pytest
import statsmodels.api as sm
from cubes import contrast_weights, cube_of, mask_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sandwiches import bell_mccaffrey
from scipy import stats

from audit.statistics.families import TWO_GROUPS, adjust_p, family_rows
from audit.statistics.headline import headline_gap
from audit.statistics.incomplete import cell_contrasts
from audit.tables.gap import FAMILIES
from audit.tables.shared import OUTCOME

NAN = np.nan
CLUSTERS = {"A": "north", "B": "north", "C": "south", "D": "south", "E": "west"}
CHANGE = ["delta_rest", "change", "change_se", "change_p", "change_p_adjusted"]
CROSSED = [(race, religion) for race in ("Black", "White") for religion in ("Muslim", "Hindu", "Jew")]


def rows_of(cube, *, valence=(), clusters=(), confidence=0.95):
    """Rows by family, member and, of a pair, partner."""
    rows = list(family_rows(cube, confidence=confidence, valence=dict(valence), clusters=dict(clusters)))
    assert all(list(row) == list(FAMILIES.without(*OUTCOME)) for row in rows)
    by_name = {tuple(filter(None, (row["family"], row["member"], row["partner"]))): row for row in rows}
    assert len(by_name) == len(rows)
    return by_name


def of(family, rows, column="delta"):
    return {name[1:]: row[column] for name, row in rows.items() if name[0] == family}


def random_y(n, k, seed=0):
    """Narratives, main effects and gaps that all differ."""
    rng = np.random.default_rng(seed)
    effects = rng.normal(0, 4, size=(1, k, 1)) + rng.normal(0, 4, size=(1, 1, k))
    return 50 + effects + rng.normal(1, 2, size=(n, 1, 1)) * np.eye(k) + rng.normal(0, 3, size=(n, k, k))


def least_squares(matrix, level):
    """Coefficients of each level from 1 beside perceiver and experiencer effects, by statsmodels."""
    p, e = (axis.ravel() for axis in np.indices(matrix.shape))
    levels = [level.ravel() == each for each in range(1, level.max() + 1)]
    terms = [p == i for i in range(1, len(matrix))] + [e == i for i in range(1, len(matrix))]
    design = np.column_stack([*levels, np.ones(p.size), *terms]).astype(float)
    return sm.OLS(matrix.ravel(), design).fit().params[: level.max()]


# --- Pairs and groups ------------------------------------------------------------------------------------------------


def test_two_groups_worked_by_hand():
    # g = (60 + 70 − 50 − 40)/2 = 20 and (55 + 60 − 50 − 45)/2 = 10: mean 15, sd √50, se √50/√2 = 5, t(1) = 3.
    rows = rows_of(cube_of([[[60, 50], [40, 70]], [[55, 50], [45, 60]]], groups="AB"))
    assert set(rows) == {("pair", "A", "B"), ("group", "A"), ("group", "B")}
    for name, row in rows.items():
        assert (row["delta"], row["se"], row["df"]) == pytest.approx((15, 5, 1))
        assert row["p"] == pytest.approx(2 * stats.t.sf(3, 1))
        assert (row["n_pairs"], row["n_narratives"], row["n_answers"]) == (4, 2, 8)
        assert row["note"] == (TWO_GROUPS if name[0] == "group" else "")
        # 15 ± 5 t(.95) = 6.3138: the interval of 1 − 2 alpha
        assert (row["eq_low"], row["eq_high"]) == pytest.approx((15 - 5 * 6.313752, 15 + 5 * 6.313752))
        assert np.isnan([row[column] for column in ("delta_rest", "change", "change_se", "change_p")]).all()


def test_three_unequal_groups_worked_by_hand():
    # Means of blocks: AA (60 + 62 + 64 + 58)/4 = 61, AB 52, AC 42, BA 50, BB 70, BC 30, CA 44, CB 36, CC 66
    y = [[60, 62, 50, 40], [64, 58, 54, 44], [48, 52, 70, 30], [42, 46, 36, 66]]
    rows = rows_of(cube_of([y], groups="AABC"))
    # (61 + 70 − 52 − 50)/2, (61 + 66 − 42 − 44)/2, (70 + 66 − 30 − 36)/2
    assert of("pair", rows) == pytest.approx({("A", "B"): 14.5, ("A", "C"): 20.5, ("B", "C"): 35})
    # A pair's gap is the mean of the two groups' own, where no pair differs otherwise: 2 · 14.5 = 0 + 29,
    # 2 · 20.5 = 0 + 41 and 2 · 35 = 29 + 41, so that they are 0, 29 and 41.
    assert of("group", rows) == pytest.approx({("A",): 0, ("B",): 29, ("C",): 41}, abs=1e-9)
    p, e = (axis.ravel() for axis in np.indices((4, 4)))
    label = np.array([0, 0, 1, 2])
    own = [(label[p] == a) & (label[e] == a) for a in range(3)]
    effects = [p == k for k in range(1, 4)] + [e == k for k in range(1, 4)]
    design = np.column_stack([*own, np.ones(16), *effects]).astype(float)
    fitted = sm.OLS(np.ravel(y), design).fit().params[:3]
    assert of("group", rows) == pytest.approx(dict(zip([("A",), ("B",), ("C",)], fitted, strict=True)), abs=1e-9)
    # The pair has 4 + 2 + 2 + 1 cells.
    assert rows["pair", "A", "B"]["n_pairs"] == 9
    assert all("one narrative" in row["note"] and np.isnan(row["p"]) for row in rows.values())


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_mean_of_pair_gaps_is_the_headline_for_groups_of_one_term(k):
    cube = cube_of(random_y(12, k))
    rows, delta = rows_of(cube), headline_gap(cube, confidence=0.95).delta
    assert np.mean(list(of("pair", rows).values())) == pytest.approx(delta, abs=1e-10)
    assert np.mean(list(of("group", rows).values())) == pytest.approx(delta, abs=1e-10)


def test_main_effects_alone_make_no_gap_of_a_pair():
    rng = np.random.default_rng(3)
    y = 50 + rng.normal(0, 20, size=(8, 7, 1)) + rng.normal(0, 20, size=(8, 1, 7))
    rows = rows_of(cube_of(y, groups="AABBBCD"), clusters=CLUSTERS)
    assert {name[0] for name in rows} == {"pair", "group", "cluster"}
    for row in rows.values():
        assert row["delta"] == 0
        assert np.isnan([row["p"], row["p_adjusted"], row["se"]]).all()
        assert row["family_size"] == 0
        assert "spread is 0" in row["note"]


def test_p_and_interval_are_scipy_s_and_families_are_corrected():
    y = random_y(15, 4)
    g = {}
    for a in range(4):
        for b in range(a + 1, 4):
            g["ABCD"[a], "ABCD"[b]] = (y[:, a, a] + y[:, b, b] - y[:, a, b] - y[:, b, a]) / 2
    oracle = {pair: stats.ttest_1samp(contrasts, 0) for pair, contrasts in g.items()}
    rows = rows_of(cube_of(y, groups="ABCD"), confidence=0.9)
    assert of("pair", rows, "p") == pytest.approx({pair: test.pvalue for pair, test in oracle.items()})
    assert of("pair", rows, "ci_low") == pytest.approx(
        {pair: test.confidence_interval(0.9).low for pair, test in oracle.items()}
    )
    by_scipy = stats.false_discovery_control([test.pvalue for test in oracle.values()], method="bh")
    assert list(of("pair", rows, "p_adjusted").values()) == pytest.approx(by_scipy)
    assert {(row["method"], row["family_size"]) for name, row in rows.items() if name[0] == "pair"} == {
        ("Benjamini–Hochberg", 6)
    }
    # Holm: the smallest p times 4, the next times 3, ..., each at least the one before and at most 1
    p = np.array(list(of("group", rows, "p").values()))
    by_hand = np.minimum(1, np.maximum.accumulate(np.sort(p) * [4, 3, 2, 1]))[stats.rankdata(p).astype(int) - 1]
    assert list(of("group", rows, "p_adjusted").values()) == pytest.approx(by_hand)
    assert {(row["method"], row["family_size"]) for name, row in rows.items() if name[0] == "group"} == {("Holm", 4)}


@pytest.mark.parametrize(
    "cube",
    [
        cube_of(random_y(6, 3)[:, :, :2], groups="ABC"),
        cube_of(random_y(6, 3), experiencer_groups=tuple("XYZ")),
        cube_of(random_y(6, 3), [[0, 1, 0], [0, 0, 1], [1, 0, 0]], groups="ABC"),
        cube_of(random_y(6, 4), mask_of(list("NNSS")), groups="ABCD"),
    ],
    ids=["a group on one side", "other names", "listed pairs", "same cluster is in-group"],
)
def test_families_of_groups_need_in_group_to_be_the_same_group(cube):
    assert rows_of(cube, clusters=CLUSTERS) == {}


# --- Clusters --------------------------------------------------------------------------------------------------------


def test_clusters_equal_explicit_least_squares_and_means_of_pair_gaps():
    groups = "AABCDDE"
    y = random_y(20, 7)
    rows = rows_of(cube_of(y, groups=groups), clusters=CLUSTERS)
    level = mask_of(list(groups)) + mask_of([CLUSTERS[group] for group in groups])
    ours = [rows["cluster", member]["delta"] for member in ("same cluster", "same group")]
    np.testing.assert_allclose(ours, least_squares(y.mean(axis=0), level), atol=1e-10)
    g = of("pair", rows)
    by_hand = {
        "north": (g["A", "C"] + g["A", "D"] + g["A", "E"] + g["B", "C"] + g["B", "D"] + g["B", "E"]) / 6,
        "south": (g["A", "C"] + g["A", "D"] + g["B", "C"] + g["B", "D"] + g["C", "E"] + g["D", "E"]) / 6,
        "west": (g["A", "E"] + g["B", "E"] + g["C", "E"] + g["D", "E"]) / 4,
    }
    assert {member: rows["cluster", member]["delta"] for member in by_hand} == pytest.approx(by_hand)
    assert {row["family_size"] for name, row in rows.items() if name[0] == "cluster"} == {5}


def test_a_group_without_a_cluster_is_alone():
    y = random_y(9, 4)
    some = rows_of(cube_of(y, groups="ABCD"), clusters={"A": "north", "B": "north"})
    every = rows_of(cube_of(y, groups="ABCD"), clusters={"A": "north", "B": "north", "C": "c", "D": "d"})
    assert set(of("cluster", some)) == {("same cluster",), ("same group",), ("north",)}
    assert of("cluster", some) == pytest.approx({name: of("cluster", every)[name] for name in of("cluster", some)})


@pytest.mark.parametrize(
    ("clusters", "unknown", "known"),
    [
        ({"A": "one", "B": "one", "C": "one"}, {"same cluster", "same group"}, set()),
        ({"A": "one", "B": "two", "C": "three"}, {"same cluster"}, {"same group", "one", "two", "three"}),
        ({"elsewhere": "one"}, set(), set()),
    ],
    ids=["one cluster", "a cluster each", "clusters of another dimension"],
)
def test_clusters_that_do_not_divide_the_groups(clusters, unknown, known):
    rows = rows_of(cube_of(random_y(9, 3), groups="ABC"), clusters=clusters)
    noted = {member for (member,), note in of("cluster", rows, "note").items() if note}
    assert (noted, {member for (member,) in of("cluster", rows)} - noted) == (unknown, known)
    assert all("cannot tell it from" in rows["cluster", member]["note"] for member in unknown)
    assert all(rows["cluster", member]["family_size"] == len(known) for member in unknown | known)


# --- Emotions and valences -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [False, True])
def test_an_emotion_s_gap_is_the_headline_of_its_narratives(missing):
    y = random_y(30, 3)
    if missing:
        y[::10, 0, 1] = NAN  # narratives 0, 10, 20 of anger, joy and calm; fear keeps all its ratings
    emotions = np.array(["anger", "joy", "fear", "calm", ""] * 6)
    emotions[[10, 20]] = "joy", "calm"
    valence = {"anger": "negative", "fear": "negative", "joy": "positive"}
    rows = rows_of(cube_of(y, emotions=emotions), valence=valence)
    expected = {("emotion", each): emotions == each for each in ("anger", "joy", "fear", "calm")}
    expected["valence", "negative"] = np.isin(emotions, ["anger", "fear"])
    expected["valence", "positive"] = emotions == "joy"
    assert set(expected) == {name for name in rows if name[0] in ("emotion", "valence")}
    for name, chosen in expected.items():
        oracle = headline_gap(cube_of(y[chosen]), confidence=0.95)
        assert rows[name]["estimator"] == "contrast"
        for field in ("delta", "se", "df", "ci_low", "ci_high", "p", "d_z", "n_narratives", "n_answers"):
            assert rows[name][field] == pytest.approx(getattr(oracle, field), rel=1e-9), field
        assert (rows[name]["family_size"], rows[name]["method"]) == ({"emotion": 4, "valence": 2}[name[0]], "Holm")
    weights = headline_gap(cube_of(y[emotions == "joy"]), confidence=0.95).weights
    assert (np.ptp(weights) > 1e-6) == missing


def test_one_emotion_or_one_valence_is_no_family():
    y = random_y(6, 3)
    assert {name[0] for name in rows_of(cube_of(y))} == {"pair", "group"}
    both = cube_of(y, emotions=["joy", "anger"] * 3)
    assert of("valence", rows_of(both, valence={"joy": "positive", "calm": "neutral"})) == {}


def test_an_emotion_without_enough_ratings_is_noted_and_not_counted():
    y = random_y(9, 3)
    y[0, 0, 0] = NAN
    rows = rows_of(cube_of(y, emotions=["fear", *["joy", "anger"] * 4]))
    fear = rows["emotion", "fear"]
    assert np.isnan([fear[column] for column in ("se", "ci_low", "p", "p_adjusted")]).all()
    assert (fear["estimator"], fear["n_narratives"], fear["family_size"]) == ("contrast", 1, 2)
    assert fear["note"] == "one narrative says nothing about how narratives differ"
    y[0] = NAN
    fear = rows_of(cube_of(y, emotions=["fear", *["joy", "anger"] * 4]))["emotion", "fear"]
    assert (np.isnan(fear["delta"]), fear["note"]) == (True, "no pair of identities has a rating")


# --- Degrees of sharing ----------------------------------------------------------------------------------------------


def test_degrees_of_an_intersection_equal_explicit_least_squares():
    n_shared = np.array([[sum(a == b for a, b in zip(p, e, strict=True)) for e in CROSSED] for p in CROSSED])
    y = random_y(10, 6)
    rows = rows_of(cube_of(y, n_shared, groups=[" ".join(pair) for pair in CROSSED]))
    assert list(of("degree", rows)) == [("1",), ("2",)]
    np.testing.assert_allclose(list(of("degree", rows).values()), least_squares(y.mean(axis=0), n_shared), atol=1e-10)
    # Pairs of crossed groups take partial sharing as it is.
    g = (y[:, 0, 0] + y[:, 1, 1] - y[:, 0, 1] - y[:, 1, 0]).mean() / 2
    assert rows["pair", "Black Muslim", "Black Hindu"]["delta"] == pytest.approx(g)


def test_a_degree_that_no_pair_has_is_noted():
    rows = rows_of(cube_of(random_y(10, 3), 2 * np.eye(3, dtype=int)))
    assert "cannot tell it from" in rows["degree", "1"]["note"]
    assert rows["degree", "2"]["delta"] == pytest.approx(np.mean(list(of("pair", rows).values())))
    assert rows["degree", "2"]["family_size"] == 1


def test_degrees_that_nothing_is_compared_with_are_noted():
    rows = rows_of(cube_of(random_y(10, 3), 1 + np.eye(3, dtype=int)))  # no pair shares none
    assert ["cannot tell it from" in note for note in of("degree", rows, "note").values()] == [True, True]


# --- Uplift and dampening --------------------------------------------------------------------------------------------


def test_uplift_and_dampening_worked_by_hand():
    # Without a group 50; in-group 58, out-group 47: 8 points up for one's own, 3 points down for others, δ = 11.
    y = np.where(mask_of(list("AABC")), 58.0, 47.0)
    y = np.concatenate([np.concatenate([y, np.full((1, 4), 50.0)]), np.full((5, 1), 99.0)], axis=1)
    rows = rows_of(cube_of(np.stack([y, y]), groups=[*"AABC", "unspecified"]))
    assert of("uplift", rows) == pytest.approx({("in-group uplift",): 8, ("out-group dampening",): 3})


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from("ABCD"), min_size=2, max_size=7).filter(lambda groups: len(set(groups)) > 1),
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from(["unspecified", "no persona"]), max_size=1),
)
def test_uplift_and_dampening_add_up_to_the_gap(groups, seed, more):
    """Whatever the groups' sizes and wherever the baselines stand; the oracle is the headline without baselines."""
    groups = [*more, *groups[:1], "unspecified", *groups[1:]] if not more else [*groups, "unspecified", "no persona"]
    cube = cube_of(np.random.default_rng(seed).normal(50, 20, size=(4, len(groups), len(groups))), groups=groups)
    headline = headline_gap(cube, confidence=0.95)
    assert sum(of("uplift", rows_of(cube)).values()) == pytest.approx(headline.delta, abs=1e-9)


def test_uplift_needs_the_unspecified_perceiver_and_an_in_group():
    y = random_y(6, 3)
    assert of("uplift", rows_of(cube_of(y, groups=["A", "B", "no persona"]))) == {}
    baselines_as_experiencers = cube_of(y, groups="ABC", experiencer_groups=("A", "B", "unspecified"))
    assert of("uplift", rows_of(baselines_as_experiencers)) == {}
    nothing = cube_of(y, groups=["A", "B", "unspecified"], in_group=np.zeros((3, 3), dtype=bool))
    assert ["nothing is in-group" in note for note in of("uplift", rows_of(nothing), "note").values()] == [True, True]


# --- Multiplicity ----------------------------------------------------------------------------------------------------


def test_benjamini_hochberg_s_own_example():
    """Benjamini and Hochberg (1995), section 3.2: at .05 four are found, of which Bonferroni finds three."""
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528]
    p += [0.7590, 1.0]
    adjusted, size = adjust_p(p, method="Benjamini–Hochberg")
    assert size == 15
    assert np.count_nonzero(adjusted <= 0.05) == 4
    # p(i) · 15/i: .0095 · 15/4; .0201 · 3; .0278 · 15/6 = .0695 but .0298 · 15/7 is less and takes its place
    assert adjusted[3:7] == pytest.approx([0.035625, 0.0603, 0.0298 * 15 / 7, 0.0298 * 15 / 7])
    assert np.count_nonzero(adjust_p(p, method="Holm")[0] <= 0.05) == 3


def test_holm_by_hand_without_what_was_not_tested():
    # Sorted .01, .02, .03, .5: times 4, 3, 2, 1 = .04, .06, .06, .5
    adjusted, size = adjust_p([0.03, NAN, 0.01, 0.5, 0.02], method="Holm")
    np.testing.assert_allclose(adjusted, [0.06, NAN, 0.04, 0.5, 0.06])
    assert size == 4


def test_no_test_at_all_is_a_family_of_none():
    adjusted, size = adjust_p([NAN, NAN], method="Holm")
    assert np.isnan(adjusted).all()
    assert size == 0


# --- Missing ratings, order, and what is left alone ------------------------------------------------------------------


def test_missing_ratings_leave_every_other_rating_in_use():
    y = random_y(10, 4)
    missing = y.copy()
    missing[:3, 0, 1] = NAN  # A about B
    missing[:, 2, 3] = NAN  # C about D: in no narrative
    rows = rows_of(cube_of(missing, groups="ABCD"), clusters=CLUSTERS)
    whole = rows_of(cube_of(y, groups="ABCD"), clusters=CLUSTERS)
    assert of("pair", rows, "estimator")["A", "B"] == of("group", rows, "estimator")["A",] == "pairs"
    assert rows["pair", "A", "C"] == whole["pair", "A", "C"] | {
        column: rows["pair", "A", "C"][column] for column in ("p_adjusted", "family_size", *CHANGE)
    }
    assert rows["pair", "A", "B"]["n_narratives"] == 10
    assert rows["pair", "A", "B"]["n_answers"] == 37
    none = rows["pair", "C", "D"]
    assert np.isnan([none[column] for column in ("delta", "se", "df", "ci_high", "p", "p_adjusted")]).all()
    assert none["note"] == "the ratings of the 4 pairs of identities that it needs do not determine it"
    assert (none["n_pairs"], none["family_size"]) == (4, 5)
    # A and B are one cluster, C and D another: "same group" and the clusters' own rows give A about B and C about D no
    # weight, "same cluster" does.
    estimated = {name: np.isfinite(value) for name, value in of("cluster", rows, "delta").items()}
    assert estimated == {("same cluster",): False, ("same group",): True, ("north",): True, ("south",): True}


@pytest.mark.parametrize("member", [("pair", "A", "B"), ("group", "C", ""), ("uplift", "in-group uplift", "")])
def test_a_contrast_of_incomplete_narratives_equals_least_squares_on_dummies(member):
    """Oracle: statsmodels on narrative and pair dummies, and Bell and McCaffrey's covariance written out."""
    y = random_y(12, 5)
    groups = [*"ABCC", "unspecified"]
    y[np.random.default_rng(1).random(y.shape) < 0.25] = NAN
    row = rows_of(cube_of(y, groups=groups))[tuple(filter(None, member))]
    if member[0] != "uplift":  # the unspecified identity is no part of the others
        y = y[:, :4, :4]
    k = y.shape[1]
    i, c = np.nonzero(~np.isnan(y.reshape(12, -1)))
    design = np.column_stack([np.eye(12)[i], np.eye(k * k)[c][:, 1:]])
    fit = sm.OLS(y.reshape(12, -1)[i, c], design).fit()
    in_group = mask_of("ABCC")
    # Groups count alike: C has two terms, so that its cells count for a half, and for a quarter among themselves.
    root = np.sqrt(1 / np.outer([1, 1, 2, 2], [1, 1, 2, 2])).ravel()
    effects = [np.kron(np.eye(4), np.ones((4, 1))), np.tile(np.eye(4), (4, 1)), in_group.reshape(-1, 1)]
    w = (np.linalg.pinv(np.hstack(effects) * root[:, None]) * root)[-1].reshape(4, 4)
    p, e = (axis.ravel() for axis in np.indices((4, 4)))
    label = np.array([0, 1, 2, 2])
    own = [(label[p] == a) & (label[e] == a) for a in (2, 0, 1)]
    terms = np.column_stack([*own, *(p == each for each in range(4)), *(e == each for each in range(4))])
    of_own_group = np.linalg.pinv(terms.astype(float))[0].reshape(4, 4)
    weights = {
        "pair": lambda m: (m[0, 0] + m[1, 1] - m[0, 1] - m[1, 0]) / 2,
        "group": lambda m: (of_own_group * m).sum(),
        "uplift": lambda m: (np.where(in_group, w, 0) * (m[:4, :4] - m[4, :4])).sum(),
    }
    contrast = np.array([weights[member[0]](cell.reshape(k, k)) for cell in np.eye(k * k)])[1:]
    gradient = np.concatenate([np.zeros(12), contrast])
    assert row["delta"] == pytest.approx(gradient @ fit.params, abs=1e-9)
    se, df = bell_mccaffrey(design, y.reshape(12, -1)[i, c], i, gradient)
    assert (row["se"], row["df"]) == pytest.approx((se, df), rel=1e-7)
    assert row["df"] < row["n_narratives"] - 1


def test_complete_narratives_have_one_answer_by_either_way():
    y = random_y(15, 4).reshape(15, -1)
    weights = np.random.default_rng(0).normal(size=(3, 16))
    weights -= weights.mean(axis=1, keepdims=True)
    found = cell_contrasts(y, weights)
    np.testing.assert_allclose(found.by_narrative, weights @ y.T, atol=1e-10)
    by_t = [stats.ttest_1samp(row, 0) for row in weights @ y.T]
    np.testing.assert_allclose(found.delta / found.se, [t.statistic for t in by_t], rtol=1e-9)
    np.testing.assert_allclose(found.df, 14, rtol=1e-9)


def test_many_narratives_have_their_correction_by_pairs(monkeypatch):
    """Where CR2 in full would cost too much: within 1% of it at 60 narratives with 30% missing, and of complete ratings
    the plain t-test.
    """
    y = random_y(60, 4).reshape(60, -1)
    weights = np.random.default_rng(1).normal(size=(3, 16))
    weights -= weights.mean(axis=1, keepdims=True)
    holed = np.where(np.random.default_rng(2).random(y.shape) < 0.3, NAN, y)
    exact = cell_contrasts(holed, weights)
    monkeypatch.setattr("audit.statistics.incomplete._EXACT_NARRATIVES", 10)
    quick, whole = cell_contrasts(holed, weights), cell_contrasts(y, weights)
    np.testing.assert_array_equal(quick.delta, exact.delta)
    np.testing.assert_allclose(quick.se, exact.se, rtol=0.01)
    np.testing.assert_allclose(stats.t(quick.df).ppf(0.975), stats.t(exact.df).ppf(0.975), rtol=0.01)
    by_t = [stats.ttest_1samp(row, 0) for row in weights @ y.T]
    np.testing.assert_allclose(whole.delta / whole.se, [t.statistic for t in by_t], rtol=1e-9)
    np.testing.assert_allclose(whole.df, 59, rtol=1e-9)


def test_nothing_rated_is_noted_everywhere():
    y = np.full((4, 5, 5), NAN)
    rows = rows_of(cube_of(y, groups=[*"ABCD", "unspecified"], emotions=["joy", "fear"] * 2), clusters=CLUSTERS)
    assert {name[0] for name in rows} == {"pair", "group", "cluster", "emotion", "uplift"}
    assert all(row["note"] and np.isnan(row["delta"]) and row["n_answers"] == 0 for row in rows.values())


def test_baselines_alone_have_nothing_to_compare():
    rows = rows_of(cube_of(random_y(4, 1), [[0]], groups=["unspecified"], emotions=["joy", "fear"] * 2))
    assert {name[0] for name in rows} == {"emotion", "uplift"}
    assert all(row["note"] for row in rows.values())


def test_a_member_without_spread_is_not_counted():
    y = random_y(8, 3)
    y[:, :2, :2] = [[60, 50], [40, 70]]
    rows = rows_of(cube_of(y, groups="ABC"))
    assert rows["pair", "A", "B"]["delta"] == pytest.approx(20)
    assert np.isnan([rows["pair", "A", "B"][column] for column in ("p", "p_adjusted", "se")]).all()
    assert rows["pair", "A", "B"]["note"] == "all 8 narratives give the same contrast, so their spread is 0"
    assert set(of("pair", rows, "family_size").values()) == {2}


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(6)), st.booleans())
def test_the_order_of_identities_does_not_matter(order, missing):
    groups = np.array([*"AABCD", "unspecified"])
    y = random_y(9, 6, seed=5)
    if missing:
        y[0, 0, 2] = y[4, 3, 3] = NAN
    emotions = ["joy", "fear", "anger"] * 3
    ours, other = (
        {
            (name[0], *sorted(name[1:])): row
            for name, row in rows_of(
                cube_of(y[:, places][:, :, places], groups=groups[places], emotions=emotions), clusters=CLUSTERS
            ).items()
        }
        for places in (np.arange(6), np.array(order))
    )
    assert set(ours) == set(other)
    for name, row in ours.items():
        for field in ("delta", "se", "p_adjusted", "n_narratives"):
            assert row[field] == pytest.approx(other[name][field], rel=1e-4, abs=1e-6, nan_ok=True), (name, field)


def test_the_cube_is_not_modified():
    y = random_y(6, 4)
    y[0, 0, 0] = NAN
    cube = cube_of(y, groups=[*"ABC", "unspecified"])
    cube.y.flags.writeable = cube.n_shared.flags.writeable = cube.in_group.flags.writeable = False
    assert rows_of(cube, clusters=CLUSTERS)


@pytest.mark.simulation
@pytest.mark.parametrize(("n", "missing"), [(6, 0.2), (12, 0.4)])
def test_contrasts_of_few_incomplete_narratives_hold_their_level(n, missing):
    """Mean of all pair gaps in 500 data sets without one: 5% has a standard error of 1; 8% is three of them above."""
    weights = contrast_weights(mask_of("ABCD")).reshape(1, -1)
    rejected = []
    for seed in range(500):
        rng = np.random.default_rng([n, seed])
        y = 50 + rng.normal(0, 6, (n, 1, 1)) + rng.normal(0, 4, (4, 1)) + rng.normal(0, 4, 4)
        y = y + rng.normal(0, 2, (n, 1, 1)) * np.eye(4) + rng.normal(0, 8, (n, 4, 4))
        y[rng.random(y.shape) < missing] = NAN
        found = cell_contrasts(y.reshape(n, -1), weights)
        if np.isfinite(found.df[0]):
            rejected.append(2 * stats.t.sf(abs(found.delta[0]) / found.se[0], found.df[0]) < 0.05)
    assert len(rejected) > 490
    assert 0.02 < np.mean(rejected) < 0.08
