"""Reads answers by two rules side by side: the published study's and ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.asking.elicitation.parsing import parse_response, parse_response_hou2025
from audit.asking.elicitation.phrases import ParsedResponse

OF_ANSWERS: Final = ("released_answers", "intensity_differs")  # codes of remarks on released answers


def study_intensities(responses: pd.Series) -> npt.NDArray[np.float64]:
    """Read answers by the study's rule, in points; NaN if it reads no number."""
    codes, texts = pd.factorize(responses.to_numpy(dtype=object))
    return np.array([parse_response_hou2025(str(text)).intensity for text in texts], dtype=np.float64)[codes]


def read_by_both(responses: pd.Series, *, low: float, high: float) -> pd.DataFrame:
    """Read answers by the study's rule and by ours; equal answers are read once.

    Returns the columns ``study`` and ``ours`` (``rated``, ``refused`` or ``unparseable``), and ``study_intensity`` and
    ``our_intensity`` in points, NaN unless rated, on the index of ``responses``. The study's rule accepts numbers up to
    100 on any scale. Ours does not know the narrative here, so a number that the answer repeats from it may count.
    """
    codes, texts = pd.factorize(responses.to_numpy(dtype=object))
    rules: dict[str, Callable[[str], ParsedResponse]] = {
        "study": parse_response_hou2025,
        "our": lambda text: parse_response(text, low=low, high=high),
    }
    columns: dict[str, Any] = {}
    for name, rule in rules.items():
        read = [rule(str(text)) for text in texts]
        status = pd.Categorical([each.status.value for each in read])
        columns["ours" if name == "our" else name] = status.take(codes)
        columns[f"{name}_intensity"] = np.array([each.intensity for each in read], dtype=np.float64)[codes]
    return pd.DataFrame(columns, index=responses.index)
