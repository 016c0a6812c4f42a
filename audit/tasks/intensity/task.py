"""``task=intensity``: how intense the experiencer's emotion was."""

from __future__ import annotations

from typing import ClassVar

from audit.configuration.task import IntensityTask
from audit.people.questions import Form
from audit.tasks.intensity.rated_task import Ratings


class Intensity(Ratings):
    """The perceiver rates the intensity of the experiencer's emotion; people may do so too."""

    kind = "intensity"
    settings = IntensityTask
    asked_to = "rate how intensely that person felt an emotion"
    forms: ClassVar[tuple[Form, ...]] = ("intensity", "norming")
