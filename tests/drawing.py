"""How much of its figures a run of the tests draws."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_every = False


@contextmanager
def svg_alone() -> Iterator[None]:
    """Draw figures as SVG alone, which is all that a page has; PNG and PDF take most of the time of a report."""
    from audit.report.figures import style

    draw = style.figure_bytes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "audit.report.figures.style.figure_bytes",
            # With more said of how, it is a figure for a journal, which somebody has asked for.
            lambda figure, form, **how: draw(figure, form, **how) if _every or form == "svg" or how else b"",
        )
        yield


@contextmanager
def every_format() -> Iterator[None]:
    """Within `svg_alone`, draw figures in every form after all."""
    global _every
    _every = True
    try:
        yield
    finally:
        _every = False
