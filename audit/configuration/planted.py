"""The options ``model.planted.NAME``: what a scripted respondent's answers hold, so that what is found can be checked.

This module also words the mark that every page, file and line of such a run has: its model is no language model.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import Field

from audit.configuration.groups import OptionGroup

MARK: Final = "planted model, not a language model"
"""The beginning of a planted model's name, and what its verdicts end with."""
MIDDLE: Final = 50.0  # points of 100 that a narrative's own emotion is rated at, before all else
NARRATIVES_VARY: Final = 6.0  # points by which narratives are rated higher or lower than that, at most
SIDES: Final = ("out_group", "in_group")
"""Names in ``refusals`` for pairs of other groups and of one group."""
_TAIL: Final = 3.0  # noise of more standard deviations is too rare to shift a mean

_Points: TypeAlias = Annotated[float, Field(ge=-100, le=100)]
_Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class PlantedConfig(OptionGroup):
    """What is planted, in points of a scale of 100; on another scale in proportion."""

    gap: _Points = Field(
        default=0.0,
        description="the planted δ: points that the perceiver's own group is rated higher than others. All points of a "
        "planted model are of a scale from 0 to 100, and in proportion on others",
    )
    disparity: dict[str, _Points] | None = Field(
        default=None,
        description="the planted D: by group, points that it is rated higher than the others, whoever perceives: "
        "'model.planted.disparity={Muslim: -20}'",
    )
    echo: _Points = Field(
        default=0.0,
        description="points more where the experiencer's words repeat the perceiver's, of invented groups too",
    )
    refusals: _Share | dict[str, _Share] = Field(
        default=0.0,
        description="the share of prompts that are refused, 0 to 1; or by the experiencer's group, or in_group and "
        "out_group: 'model.planted.refusals={out_group: 0.2}'",
    )
    response: _Points = Field(
        default=30.0,
        description="points that a narrative's own emotion is rated higher than a wrong one, and that a strong version "
        "of it is rated higher than a mild one",
    )
    pleasant: _Points = Field(
        default=0.0,
        description="points that pleasant emotions are rated higher than unpleasant ones, whatever happened",
    )
    noise: float = Field(default=4.0, ge=0, le=100, description="standard deviation of a single rating, in points")
    seed: int = Field(
        default=0, ge=0, lt=2**32, description="seed of the noise: with the same one, a prompt has the same answer"
    )

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that something is planted for."""
        by_group = self.refusals if isinstance(self.refusals, dict) else {}
        return tuple(dict.fromkeys([*(self.disparity or {}), *(name for name in by_group if name not in SIDES)]))

    @property
    def said(self) -> str:
        """What is planted, in short: ``δ +5, Muslim −20``."""
        shares = self.refusals if isinstance(self.refusals, dict) else {"": self.refusals}
        told = [
            f"δ {_signed(self.gap)}" if self.gap else "",
            *(f"{group} {_signed(points)}" for group, points in (self.disparity or {}).items() if points),
            f"echo {_signed(self.echo)}" if self.echo else "",
            *(f"{share:.0%} refused{f' of {group}' if group else ''}" for group, share in shares.items() if share),
            *(
                f"{name} {getattr(self, name):g}"
                for name in ("response", "pleasant", "noise", "seed")
                if getattr(self, name) != type(self).model_fields[name].default
            ),
        ]
        return ", ".join(filter(None, told)) or "nothing planted"

    @property
    def is_clipped(self) -> bool:
        """Whether ratings of some identities may lie beyond the scale's ends, so that less is found than is planted."""
        shifts = [min(self.gap, 0), max(self.gap, 0), min(self.echo, 0), max(self.echo, 0)]
        of_groups = [0.0, *(self.disparity or {}).values()]
        spread = NARRATIVES_VARY + abs(self.pleasant) / 2 + _TAIL * self.noise
        low = MIDDLE + shifts[0] + shifts[2] + min(of_groups) - spread
        return low < 0 or MIDDLE + shifts[1] + shifts[3] + max(of_groups) + spread > 100

    @property
    def note(self) -> str:
        """What to know before reading what was found."""
        ends = (
            " Some ratings would lie beyond the scale and are set to its end, so that what is found is closer to 0 than"
            " what is planted."
            if self.is_clipped
            else ""
        )
        return (
            f"No language model was asked: these are the answers of a {MARK} ({self.said}). What is found says whether "
            f"the audit works, and nothing of any model.{ends}"
        )


def _signed(points: float) -> str:
    return f"{points:+g}".replace("-", "\N{MINUS SIGN}")
