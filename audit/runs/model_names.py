"""A model's display name: what was asked, never the card that it was asked with.

A card such as ``model=openai`` says how to ask, not who made the model. A server's model is named by its id and the
server's host, a hub model by its id, a local model by its folder or file. A name that the user gives as ``model.name``
comes before that, and never replaces it.
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
from audit.configuration.planted import MARK, PlantedConfig
from audit.tables.formatting import brief, printable

_EMBEDDED: Final = "embedded:"
_HUB_ID: Final = re.compile(r"(?!\.)[\w.-]+/[\w.-]+")
_IN_CACHE: Final = re.compile(r"models--([\w.-]+?)--([\w.-]+)/snapshots/[^/]+/*\Z")
"""A folder of the hub's cache: its last part is a commit, which names no model."""
_PARAMETERS: Final = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)\s?([BM])(?![A-Za-z0-9])", re.IGNORECASE)
_TIMES: Final = {"B": 1e9, "M": 1e6}
_LONGEST: Final = 80  # characters of the name to show; the manifest's `model.path` has all


def model_name(
    card: str,
    path: str,
    *,
    is_hub_id: bool | None = None,
    server: Mapping[str, str] | None = None,
    full: bool = True,
    planted: PlantedConfig | None = None,
) -> str:
    """Return a model's display name: one line that is safe on any page, terminal or file.

    ``card`` is shown only if no packaged card has that name. ``path`` may be empty; ``is_hub_id`` None decides by its
    form. ``server`` has ``base_url`` and, if stated, ``id`` and ``root``. ``full`` adds the model that the server
    states; without it all versions there have one name. The name of a ``planted`` model begins by saying that it is
    none, so that nothing that shortens a name hides it.

    Examples
    --------
    >>> model_name("openai", "qwen-max", server={"base_url": "https://llm.example.org/v1", "id": "qwen-max-0919"})
    'qwen-max at llm.example.org (answers as qwen-max-0919)'
    >>> model_name("llama3", "/models/ours.gguf"), model_name("mine", "/models/ours.gguf")
    ('ours.gguf', 'mine (ours.gguf)')
    """
    given, at = _shown(card), server or {}
    if planted is not None:
        own = "" if card in _packaged() else f"{given}; "
        return f"{MARK} ({_shown(f'{own}{planted.said}')})"
    if not path or (path == card and not at.get("base_url")):
        return given
    known = _shown(path if at.get("base_url") else _asked(path, is_hub_id=is_hub_id))
    name = known if not at.get("base_url") else f"{known} at {_shown(host_of(at['base_url']))}"
    if given not in (known, "") and card not in _packaged():
        name = f"{given} ({name})"
    said = stated_by(path, at) if full else ""
    return f"{name} ({said})" if said else name


def stated_by(path: str, server: Mapping[str, str]) -> str:
    """Return the model that a server states, in words; empty if that adds nothing to the name asked for."""
    told = {"answers as": server.get("id", ""), "made of": server.get("root", "")}
    return ", ".join(f"{words} {_shown(each)}" for words, each in told.items() if each and each != path)


def parameters_in(name: str) -> float:
    """Return the number of parameters that a model's name has; 0 if it has none, or several.

    Examples
    --------
    >>> parameters_in("Qwen2.5-1.5B-Instruct"), parameters_in("pythia-160m")
    (1500000000.0, 160000000.0)
    >>> parameters_in("Mixtral-8x7B"), parameters_in("gpt-4o"), parameters_in("Qwen2.5-7B-Instruct-1M")
    (0.0, 0.0, 0.0)
    """
    found = {float(number) * _TIMES[unit.upper()] for number, unit in _PARAMETERS.findall(name)}
    return found.pop() if len(found) == 1 else 0.0


def host_of(url: str) -> str:
    """Return a URL's host and port, without user and password.

    Examples
    --------
    >>> host_of("https://user:secret@llm.example.org:8443/v1?key=secret")
    'llm.example.org:8443'
    """
    return urlsplit(address_of(url)).netloc


def address_of(url: str) -> str:
    """Return a URL without user, password, query and fragment; empty if it is not a URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2].lower(), parts.path, "", ""))


def _asked(path: str, *, is_hub_id: bool | None) -> str:
    """Return the name of a local model or hub id."""
    if path.startswith(_EMBEDDED):
        return path.removeprefix(_EMBEDDED)
    if _HUB_ID.fullmatch(path) if is_hub_id is None else is_hub_id:
        return path
    if found := _IN_CACHE.search(path):
        return "/".join(found.groups())
    place = os.path.normpath(path)
    return PurePath(place).name or place


def _shown(text: str) -> str:
    """Return a text, which anyone may have chosen, as one short line without terminal control characters."""
    return brief(printable(" ".join(text.split())), at_most=_LONGEST)


@cache
def _packaged() -> frozenset[str]:
    """Return the names of the packaged cards, which say how to ask, not who is asked."""
    return frozenset(path.stem for path in (conf_folder() / "model").glob("*.yaml"))
