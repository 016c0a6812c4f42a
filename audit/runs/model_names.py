"""What a model is called wherever it is shown: by what was asked, never by the card that it was asked with.

A card such as ``model=openai`` says how to ask, and nothing of who made the model. A model of a server is called by its
id there and the server's host, a model of the hub by its id, a model of this machine by its folder or file. A name that
the user gives with ``model.name`` stands before that, and never instead of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import PurePath
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from audit.configuration.packaged import conf_folder
from audit.tables.formatting import brief, printable

_EMBEDDED: Final = "embedded:"
_HUB_ID: Final = re.compile(r"(?!\.)[\w.-]+/[\w.-]+")
_IN_CACHE: Final = re.compile(r"models--([\w.-]+?)--([\w.-]+)/snapshots/[^/]+/*\Z")
"""A folder of the hub's cache: its last part is a commit, which names no model."""
_LONGEST: Final = 80
"""Letters of what was asked that are shown; the manifest's ``model.path`` has all of them."""


def model_name(
    card: str, path: str, *, is_hub_id: bool | None = None, server: Mapping[str, str] | None = None, full: bool = True
) -> str:
    """Return what a model is called: one line that any page, terminal or file can show.

    Parameters
    ----------
    card
        The card's name, which a user may have set: ``model.name``. It is shown only if no packaged card has it.
    path
        What was asked for: ``model.path``. Empty if nobody knows; then the name is all there is.
    is_hub_id
        Whether ``path`` is an id of the hub. None tells it by its form.
    server
        Of a model at a server: ``base_url`` and, as far as the server says them, ``id`` and ``root``.
    full
        Whether to add which model the server says it is. Without it the name is that of every version there.

    Examples
    --------
    >>> model_name("openai", "qwen-max", server={"base_url": "https://llm.example.org/v1", "id": "qwen-max-0919"})
    'qwen-max at llm.example.org (answers as qwen-max-0919)'
    >>> model_name("llama3", "/models/ours.gguf"), model_name("mine", "/models/ours.gguf")
    ('ours.gguf', 'mine (ours.gguf)')
    """
    given, at = _shown(card), server or {}
    if not path or (path == card and not at.get("base_url")):
        return given
    known = _shown(path if at.get("base_url") else _asked(path, is_hub_id=is_hub_id))
    name = known if not at.get("base_url") else f"{known} at {_shown(host_of(at['base_url']))}"
    if given not in (known, "") and card not in _packaged():
        name = f"{given} ({name})"
    said = stated_by(path, at) if full else ""
    return f"{name} ({said})" if said else name


def stated_by(path: str, server: Mapping[str, str]) -> str:
    """Return which model a server says it is, in words; empty if it says no more than what was asked for."""
    told = {"answers as": server.get("id", ""), "made of": server.get("root", "")}
    return ", ".join(f"{words} {_shown(each)}" for words, each in told.items() if each and each != path)


def host_of(url: str) -> str:
    """Return the host of an address and its port if it names one, without user and password.

    Examples
    --------
    >>> host_of("https://user:secret@llm.example.org:8443/v1?key=secret")
    'llm.example.org:8443'
    """
    return urlsplit(address_of(url)).netloc


def address_of(url: str) -> str:
    """Return an address without user, password and what follows ? or #; empty if it is none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2].lower(), parts.path, "", ""))


def _asked(path: str, *, is_hub_id: bool | None) -> str:
    """Return the name of what was asked for on this machine or the hub."""
    if path.startswith(_EMBEDDED):
        return path.removeprefix(_EMBEDDED)
    if _HUB_ID.fullmatch(path) if is_hub_id is None else is_hub_id:
        return path
    if found := _IN_CACHE.search(path):
        return "/".join(found.groups())
    place = os.path.normpath(path)
    return PurePath(place).name or place


def _shown(text: str) -> str:
    """Write a text that anybody may have chosen on one line of limited length, without what acts on a terminal."""
    return brief(printable(" ".join(text.split())), at_most=_LONGEST)


@cache
def _packaged() -> frozenset[str]:
    """Return the names of the packaged cards: how to ask, not who is asked."""
    return frozenset(path.stem for path in (conf_folder() / "model").glob("*.yaml"))
