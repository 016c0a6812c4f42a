"""A δ that asking again could have made is said to be that, and no other one is."""

import pandas as pd
import pytest

from audit.tasks.intensity.publish import _below_noise


@pytest.mark.parametrize(("delta", "noise", "codes"), [
    (0.3, 0.2, ["noise_floor"]), (-0.3, 0.2, ["noise_floor"]), (0.5, 0.2, []), (-0.5, 0.2, []), (0.3, float("nan"), []),
])  # fmt: skip
def test_a_gap_below_twice_the_noise_is_named(delta, noise, codes):
    key = {"dimension": "religion", "variant": "origin"}
    gap = pd.DataFrame([{**key, "headline": True, "scope": "narratives", "delta": delta}])
    controls = pd.DataFrame([{**key, "control": "noise", "se": noise}])
    assert [remark.code for remark in _below_noise(gap, controls)] == codes
