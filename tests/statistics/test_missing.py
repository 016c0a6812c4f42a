import dataclasses

import numpy as np
import pandas as pd
import pytest
from cubes import contrast_weights, cube_of, mask_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.statistics.missing import missing_rows
from audit.tables.controls import MISSING

NAN = np.nan
RATED, REFUSED, UNPARSEABLE, FAILED, NEVER = 0, 1, 2, 3, -1
OUTCOMES = ["refused", "unparseable", "failed", "missing"]


def cube_with(status, **fields):
    status = np.asarray(status)
    return cube_of(np.where(status == RATED, 50.0, NAN), status=status, **fields)


def table_of(status, confidence=0.95, **fields):
    rows = list(missing_rows(cube_with(status, **fields), confidence=confidence))
    assert all(list(row) == list(MISSING) for row in rows)
    table = pd.DataFrame(rows).set_index("outcome")
    assert table.index.tolist() == OUTCOMES
    return table


def test_refusal_gap_worked_by_hand():
    # w = ±1/2. Refused: first narrative both out-group prompts, (0 + 0 − 1 − 1)/2 = −100 points; second one of them,
    # −50; third none, 0. Mean −50, sd 50, se 50/√3, d_z −1; 0 of 6 in-group and 3 of 6 out-group prompts.
    status = np.zeros((3, 2, 2), dtype=int)
    status[0, [0, 1], [1, 0]] = status[1, 0, 1] = REFUSED
    row = table_of(status).loc["refused"]
    assert row["gap_pp":"df"].tolist() == pytest.approx([-50, 50 / 3**0.5, 2])
    half = stats.t.ppf(0.975, 2) * 50 / 3**0.5
    assert row["ci_low":"d_z"].tolist() == pytest.approx([-50 - half, -50 + half, 2 * stats.t.sf(3**0.5, 2), -1])
    assert row[["rate_in_group", "rate_out_group", "n_narratives", "n_prompts", "n_with_outcome"]].tolist() == [
        0, 0.5, 3, 12, 3,
    ]  # fmt: skip
    assert row["note"] == ""


def test_failed_prompts_are_neither_refusals_nor_answers():
    # Third narrative: an in-group prompt failed, an out-group one was refused. It is in the gaps of failed and missing
    # alone; its other two prompts still count in the refusal rates: in-group 1/5, out-group 2/6.
    status = np.zeros((3, 2, 2), dtype=int)
    status[0, 0, 1] = status[1, 0, 0] = status[2, 0, 1] = REFUSED
    status[2, 1, 1] = FAILED
    table = table_of(status)
    assert table["n_narratives"].tolist() == [2, 2, 3, 3]
    assert table["n_prompts"].tolist() == [11, 11, 12, 12]
    assert table.loc["refused", ["rate_in_group", "rate_out_group"]].tolist() == pytest.approx([1 / 5, 2 / 6])
    # Refused: −50, +50. Failed: 0, 0, +50. Missing: −50, +50 and (1 − 1)/2 = 0.
    assert table["gap_pp"].tolist() == pytest.approx([0, 0, 50 / 3, 0])
    assert table["se"].tolist() == pytest.approx([50, NAN, 50 / 3, 50 / 3**0.5], nan_ok=True)
    assert table["n_with_outcome"].tolist() == [3, 0, 1, 4]
    assert table["note"].tolist() == ["", "none of 11 prompts was unparseable", "", ""]


def test_prompts_that_were_never_asked_are_in_no_rate_and_their_narratives_in_no_gap():
    status = np.zeros((3, 2, 2), dtype=int)
    status[0, 0, 0] = status[1, 1, 0] = REFUSED
    status[2] = [[NEVER, REFUSED], [RATED, RATED]]
    table = table_of(status)
    assert table.loc["refused", ["n_narratives", "n_prompts", "n_with_outcome", "gap_pp"]].tolist() == [2, 11, 3, 0]
    assert table.loc["missing", ["n_narratives", "rate_in_group"]].tolist() == [2, 1 / 5]


def test_none_seen_is_a_gap_of_0_without_certainty():
    table = table_of(np.zeros((4, 3, 3)))
    assert table["gap_pp"].tolist() == table["rate_in_group"].tolist() == [0, 0, 0, 0]
    assert table[["se", "ci_low", "ci_high", "p", "d_z"]].isna().all(axis=None)
    assert table["note"].tolist() == [
        f"none of 36 prompts {what}" for what in ("was refused", "was unparseable", "failed", "lacks a rating")
    ]


def test_everything_failed():
    table = table_of(np.full((2, 2, 2), FAILED))
    assert table["rate_in_group"].tolist() == pytest.approx([NAN, NAN, 1, 1], nan_ok=True)
    assert table["gap_pp"].tolist() == pytest.approx([NAN, NAN, 0, 0], nan_ok=True)
    assert table["n_narratives"].tolist() == [0, 0, 2, 2]
    assert table.loc["refused", "note"] == (
        "none of 2 narratives was asked and answered for all 2 × 2 pairs of identities"
    )
    assert table.loc["failed", "note"] == "all 2 narratives give the same contrast, so their spread is 0"


@pytest.mark.parametrize(
    ("status", "fields", "note"),
    [
        ([[[REFUSED, RATED], [RATED, RATED]]], {}, "one narrative says nothing"),
        (np.full((3, 2, 2), REFUSED), {"groups": "AA"}, "nothing is out-group"),
        (np.full((3, 2, 2), REFUSED), {"n_shared": np.zeros((2, 2))}, "nothing is in-group"),
        (np.full((3, 2, 1), REFUSED), {}, "ask at least two perceivers"),
        (np.full((3, 2, 2), REFUSED), {"groups": ["unspecified"] * 2}, "nothing is in-group"),
        (np.full((3, 2, 2), NEVER), {}, "none of 3 narratives was asked for all 2 × 2 pairs"),
    ],
    ids=["one narrative", "one group", "none in-group", "one experiencer", "baselines only", "never asked"],
)
def test_what_can_not_be_estimated_says_so(status, fields, note):
    if "n_shared" in fields:
        fields = fields | {"in_group": fields["n_shared"] == 1}
    row = table_of(status, **fields).loc["missing"]
    assert note in row["note"]
    assert row[["se", "ci_low", "p"]].isna().all()


def test_an_intersection_without_a_pair_that_shares_all_has_no_gap():
    n_shared = np.array([[1, 0], [0, 1]])
    cube = cube_with(np.full((3, 2, 2), REFUSED), n_shared=n_shared, in_group=n_shared == 2)
    rows = list(missing_rows(cube, confidence=0.95))
    assert rows
    assert all("nothing is in-group" in row["note"] for row in rows)


def test_baselines_are_left_out():
    status = np.random.default_rng(1).integers(0, 3, size=(6, 4, 4))
    with_baselines = table_of(status, groups=["unspecified", "A", "B", "C"])
    pd.testing.assert_frame_equal(with_baselines, table_of(status[:, 1:, 1:], groups=["A", "B", "C"]))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.integers(2, 5), st.floats(0.5, 0.999))
def test_gap_is_the_t_test_of_the_contrasts_of_the_indicator(seed, n, k, confidence):
    """scipy's one-sample t-test and its interval, of indicators weighed by the contrast, in percentage points."""
    status = np.random.default_rng(seed).integers(0, 3, size=(n, k, k))
    contrasts = 100 * ((status > 0) * contrast_weights(mask_of(range(k)))[-1]).sum(axis=(1, 2))
    row = table_of(status, confidence=confidence).loc["missing"]
    assert row["gap_pp"] == pytest.approx(contrasts.mean(), abs=1e-9)
    if np.ptp(contrasts) > 1e-9:
        test = stats.ttest_1samp(contrasts, 0)
        interval = test.confidence_interval(confidence)
        assert row[["p", "ci_low", "ci_high"]].tolist() == pytest.approx([test.pvalue, *interval], rel=1e-7, abs=1e-9)
    else:
        assert np.isnan(row["se"])


def test_the_cube_is_not_modified():
    cube = cube_with(np.random.default_rng(1).integers(0, 4, size=(3, 2, 2)))
    before = dataclasses.replace(cube, status=cube.status.copy(), y=cube.y.copy())
    list(missing_rows(cube, confidence=0.95))
    np.testing.assert_array_equal(cube.status, before.status)
    np.testing.assert_array_equal(cube.y, before.y)
