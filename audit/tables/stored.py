"""All tables that folders keep, by their files, whichever task a command has loaded.

A folder is merged, hashed and recovered by this mapping, so every module with a table that is kept is imported here.
"""

from __future__ import annotations

from audit.tables import answers, people, people_of_replies, preference, ratings, replies, stages
from audit.tables.base import KEPT

__all__ = ["KEPT"]
_DECLARING = (answers, people, people_of_replies, preference, ratings, replies, stages)
