"""Preferences of a judge: hand-worked shares, a planted gap, and what is missing."""

import numpy as np
import pandas as pd
import pytest

from audit.comparing.preference.statistics import preference_table, remarks_on_preference
from audit.tables.preference import JUDGED_PAIRS, PREFERENCE

GROUPS = ("Hindu", "Muslim", "unspecified")


def pairs_of(preference, *, dimension="religion", first_place=0.5, **columns):
    """Return judged pairs from preferences of shape (N, P, E); the third identity is a baseline, NaN was not read."""
    preference = np.asarray(preference, dtype=float)
    rows = [
        {
            "pair": place,
            "narrative_id": f"n{n}",
            "dimension": dimension,
            "emotion": "joy",
            "criterion": "empathy",
            "perceiver": f"a {GROUPS[p]}",
            "experiencer": f"a {GROUPS[e]}",
            "perceiver_group": GROUPS[p],
            "experiencer_group": GROUPS[e],
            "in_group": pd.NA if 2 in (p, e) else p == e,
            "n_shared": pd.NA if 2 in (p, e) else int(p == e),
            "same_text": False,
            "preference": value,
            "consistent": pd.NA if np.isnan(value) else value != 0.5,
            "first_place": np.nan if np.isnan(value) else first_place,
            "given_mass": 0.9,
            "swapped_mass": np.nan if np.isnan(value) else 0.7,
            "given_status": "rated",
            "swapped_status": "unparseable" if np.isnan(value) else "rated",
        }
        for place, ((n, p, e), value) in enumerate(np.ndenumerate(preference))
    ]
    table = pd.DataFrame(rows, columns=list(JUDGED_PAIRS)).assign(**columns)
    return table.astype({"in_group": "boolean", "n_shared": "Int8", "consistent": "boolean"})


def found(pairs, dimension="religion", confidence=0.95):
    table = preference_table(pairs, confidence=confidence)
    assert list(table.columns) == list(PREFERENCE)
    return table.loc[table["dimension"] == dimension].set_index("pairs")


def test_shares_are_means_over_narratives_with_the_t_interval_of_a_textbook():
    # narratives' means .5, .7, .9: sd .2, se .2/√3 = .11547, t(2, .975) = 4.30265, p = 2 P(T > 1.73205) = .22540
    y = np.array([0.5, 0.7, 0.9])[:, None, None] * np.ones((3, 2, 2))
    row = found(pairs_of(y, first_place=0.6)).loc["all"]
    assert row[["preference", "se", "df", "ci_low", "ci_high", "p"]].tolist() == pytest.approx(
        [0.7, 0.115470, 2, 0.7 - 0.496828, 0.7 + 0.496828, 0.225403], abs=1e-5
    )
    assert row[["position_bias", "inconsistent", "mean_mass"]].tolist() == pytest.approx([0.1, 1 / 3, 0.8])
    assert row[["n_pairs", "n_read", "n_narratives"]].tolist() == [12, 12, 3]


def test_a_planted_gap_is_found_free_of_what_identities_bring_and_kinds_of_pairs_are_told_apart():
    # preference = .5 + .1 where perceiver is Muslim + .2 in-group + narrative's part: gap .2 exactly, as the contrast
    # within narratives; noise of ±.01 in it by narrative leaves the mean and gives it a spread
    y = 0.5 + np.zeros((4, 3, 3))
    y[:, 1, :] += 0.1
    y[:, [0, 1], [0, 1]] += 0.2 + np.array([0.01, -0.01, 0.01, -0.01])[:, None]
    y += np.array([0, 0.05, 0.1, -0.05])[:, None, None]
    rows = found(pairs_of(y))
    assert list(rows.index) == ["all", "in_group", "out_group", "baseline", "gap"]
    assert rows["n_pairs"].tolist() == [36, 8, 8, 20, 16]
    assert rows.loc["gap", "preference"] == pytest.approx(0.2)
    assert rows.loc["gap", "se"] == pytest.approx(np.std([0.01, -0.01] * 2, ddof=1) / 2)
    assert rows.loc["in_group", "preference"] - rows.loc["out_group", "preference"] == pytest.approx(0.2)
    assert rows.loc["gap", ["position_bias", "inconsistent"]].isna().all()


def test_unread_and_unasked_pairs_are_counted_and_never_one_half():
    y = np.random.default_rng(1).uniform(0.8, 1, size=(30, 2, 2))
    y[0] = np.nan
    pairs = pairs_of(y)
    pairs.loc[:1, ["given_status", "swapped_status"]] = ""
    rows = found(pairs)
    row = rows.loc["all"]
    assert row[["n_pairs", "n_no_reply", "n_unread", "n_unparseable", "n_read", "n_narratives"]].tolist() == [
        120, 2, 2, 2, 116, 29,
    ]  # fmt: skip
    assert row["preference"] == pytest.approx(np.nanmean(y))
    assert "missing: 4 pairs" in rows.loc["gap", "note"]
    nothing = found(pairs_of(np.full((2, 2, 2), np.nan)))
    assert nothing["preference"].isna().all()
    assert set(nothing["note"]) == {"no pair was read in both orders"}


def test_p_is_corrected_over_dimensions_for_each_kind_of_pairs():
    rng = np.random.default_rng(0)
    pairs = pd.concat(
        [
            pairs_of(rng.normal(mean, 0.2, (12, 2, 2)), dimension=name)
            for name, mean in (("religion", 0.7), ("age", 0.6))
        ],
        ignore_index=True,
    )
    table = preference_table(pairs, confidence=0.95)
    for kind in ("all", "in_group", "gap"):
        own = table.loc[table["pairs"] == kind]
        low, high = sorted(own["p"])
        assert sorted(own["p_adjusted"]) == pytest.approx(sorted([min(1, 2 * low), max(2 * low, high)]))
        assert own["family_size"].tolist() == [2, 2]


def test_one_narrative_constant_preferences_and_one_identity_have_a_note_in_place_of_an_interval():
    one = found(pairs_of([[[0.6, 0.7], [0.8, 0.9]]])).loc["all"]
    assert (one["preference"], np.isnan(one["ci_low"])) == (pytest.approx(0.75), True)
    assert "one narrative" in one["note"]
    constant = found(pairs_of(np.ones((3, 2, 2)))).loc["all"]
    assert "same preference" in constant["note"]
    single = found(pairs_of(np.full((3, 1, 1), 0.4))).loc["gap"]
    assert np.isnan(single["preference"])
    assert "out-group" in single["note"]


def test_what_limits_a_preference_is_remarked():
    y = np.full((3, 2, 2), 0.5)
    y[0, 0] = np.nan
    pairs = pairs_of(y, same_text=True)
    pairs["given_mass"] = 0.1
    pairs["first_place"] = pairs["first_place"] + np.arange(len(pairs)) % 7 / 100 + 0.2
    codes = {remark.code for remark in remarks_on_preference(preference_table(pairs, confidence=0.95))}
    assert codes == {"position_bias", "inconsistent", "low_mass", "n_unread", "same_text", "few_narratives"}
    fine = pairs_of(np.random.default_rng(0).uniform(0.6, 0.9, (30, 2, 2)))
    assert list(remarks_on_preference(preference_table(fine, confidence=0.95))) == []
