"""empathy-audit: measures whether a model that speaks as one group feels less with another.

The public names are :func:`run`, :func:`open_run`, :func:`compare`, :func:`empathy_gap` and :func:`disparity`, what
they return, and :class:`AuditError`, which all that a user can mend is raised as. docs/python.md shows them at work.
"""

from typing import TYPE_CHECKING, Any

from audit.tables.version import __version__ as __version__

if TYPE_CHECKING:
    from audit.api import AuditError as AuditError
    from audit.api import Compared as Compared
    from audit.api import Gap as Gap
    from audit.api import Run as Run
    from audit.api import Tables as Tables
    from audit.api import compare as compare
    from audit.api import disparity as disparity
    from audit.api import empathy_gap as empathy_gap
    from audit.api import open_run as open_run
    from audit.api import run as run

__all__ = ["AuditError", "Compared", "Gap", "Run", "Tables", "compare", "disparity", "empathy_gap", "open_run", "run"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: pandas and its like take a second."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from audit import api

    return getattr(api, name)
