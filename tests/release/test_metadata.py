"""A package names the repository that built it, and no other."""

import importlib.util
import re

import pytest
from locking import ROOT

pytest.importorskip("hatchling", reason="pip install '.[release]'")
_SPEC = importlib.util.spec_from_file_location("release_metadata", ROOT / "release" / "metadata.py")
metadata = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(metadata)

BUILT = {"GITHUB_REPOSITORY": "owner/name", "GITHUB_SERVER_URL": "https://example.org", "GITHUB_SHA": "abc123"}


def test_a_build_elsewhere_names_no_address():
    assert metadata.urls({}) == {}
    assert metadata.urls({"GITHUB_SHA": "abc123"}) == {}


def test_a_build_in_a_repository_names_that_repository_and_commit():
    found = metadata.urls(BUILT)
    assert found["Homepage"] == "https://example.org/owner/name"
    assert found["Source"] == "https://example.org/owner/name/tree/abc123"
    assert all(address.startswith("https://example.org/owner/name") for address in found.values())


@pytest.mark.parametrize("repository", ["owner", "https://evil.example/x", "a/b/c", "a/b\n", "-a/b"])
def test_what_is_no_repository_is_refused(repository):
    with pytest.raises(ValueError, match="GITHUB_REPOSITORY"):
        metadata.urls({"GITHUB_REPOSITORY": repository})


def test_links_into_the_checkout_lead_to_the_commit_and_others_stay():
    text = "[a](docs/a.md) [b](https://b.example/x) [c](#start) [![p](p.png)](q.html)"
    assert metadata.readme(text, metadata.urls(BUILT)) == (
        "[a](https://example.org/owner/name/blob/abc123/docs/a.md) [b](https://b.example/x) [c](#start) "
        "[![p](https://example.org/owner/name/blob/abc123/p.png?raw=true)](https://example.org/owner/name/blob/abc123/q.html)"
    )


def test_without_a_repository_no_link_of_the_readme_leads_nowhere():
    shown = metadata.readme((ROOT / "README.md").read_text(encoding="utf-8"), {})
    assert re.findall(r"\]\((?!https://|#)[^)]*\)", shown) == []
    assert "# empathy-audit" in shown
    assert "commands, stimuli" in shown


def test_the_files_that_the_readme_links_to_are_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = {
        target.split("#")[0] for _, _, target in metadata._LINK.findall(text) if not re.match(r"[a-z]+:|#", target)
    }
    assert targets
    assert [target for target in sorted(targets) if not (ROOT / target).exists()] == []
