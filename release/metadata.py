"""The addresses in a package's metadata: those of the repository that builds it.

A build by GitHub's workflow names its repository (``GITHUB_REPOSITORY``), and the package's page then links to it. A
build elsewhere does not know of one, and an address that nobody checked would send reports of weaknesses to strangers:
so it has none. The README's links into the checkout become links to the same files of the commit that was built, or,
without a repository, their text alone.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

_REPOSITORY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\](?:\([^()]*\))?)*)\]\(([^()\s]+)\)")


def urls(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses by their names; none if the environment names no repository.

    Raises
    ------
    ValueError
        If ``GITHUB_REPOSITORY`` is no OWNER/NAME.
    """
    repository = environment.get("GITHUB_REPOSITORY", "")
    if not repository:
        return {}
    if not _REPOSITORY.fullmatch(repository):
        raise ValueError(f"GITHUB_REPOSITORY={repository!r} is no OWNER/NAME")
    home = f"{environment.get('GITHUB_SERVER_URL', 'https://github.com')}/{repository}"
    at = environment.get("GITHUB_SHA", "HEAD")
    return {
        "Homepage": home,
        "Documentation": f"{home}/blob/{at}/docs/use.md",
        "Changelog": f"{home}/blob/{at}/CHANGELOG.md",
        "Issues": f"{home}/issues",
        "Security": f"{home}/security",
        "Source": f"{home}/tree/{at}",
    }


def readme(text: str, found: Mapping[str, str]) -> str:
    """Return the README with its links into the checkout as links of the repository, or as their text alone."""
    files = found.get("Source", "").replace("/tree/", "/blob/")

    def absolute(match: re.Match[str]) -> str:
        picture, shown, target = match.groups()
        shown = _LINK.sub(absolute, shown)
        if re.match(r"[a-z]+:|#", target):
            return f"{picture}[{shown}]({target})"
        if not files:
            return "" if picture else shown
        return f"{picture}[{shown}]({files}/{target}{'?raw=true' if picture else ''})"

    return _LINK.sub(absolute, text)


class AddressesHook(MetadataHookInterface):
    """What hatchling asks for ``urls`` and ``readme``."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both to the metadata of pyproject.toml."""
        found = urls(os.environ)
        if found:
            metadata["urls"] = found
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme(text, found)}
