"""Links lead somewhere: to headings of pages, to files of the repository; addresses of the web are well-formed."""

import posixpath
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from documents import BESIDE, PAGES, ROOT, anchors, inline, links

SOURCES = [*PAGES, *BESIDE]
FOLDERS = "docs|benchmarks|tests|conf|notebooks|release|locks|stimuli/data|audit"
NAMED = re.compile(rf"(?:{FOLDERS})/[\w./-]*\w\.(?:md|py|yaml|yml|csv|txt)\b")


def fault_of(target: str, page: Path) -> str:
    """What is wrong with a link's target; empty if nothing is."""
    parts = urlsplit(target)
    if parts.scheme or target.startswith("//"):
        host = parts.hostname or ""
        good = parts.scheme == "https" and re.fullmatch(r"[\w-]+(\.[\w-]+)+", host) and not re.search(r"\s", target)
        return "" if good else "no well-formed address that begins with https://"
    place = page if not parts.path else Path(posixpath.normpath(page.parent / unquote(parts.path)))
    if not place.is_relative_to(ROOT):
        return "leads out of the repository"
    if not place.exists():
        return "is not there"
    if parts.fragment and place.suffix == ".md" and parts.fragment not in anchors(place):
        return f"has no heading #{parts.fragment}"
    return ""


@pytest.mark.parametrize("page", SOURCES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_links_of_a_page_lead_somewhere(page):
    faults = {target: fault_of(target, page) for target in links(page)}
    assert {target: fault for target, fault in faults.items() if fault} == {}


@pytest.mark.parametrize("page", SOURCES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_files_of_the_repository_that_a_page_names_are_there(page):
    named = {found for token in inline(page) if token.type == "code_inline" for found in NAMED.findall(token.content)}
    told = sorted(name for name in named if "NAME" not in name)
    assert [name for name in told if not any(place.exists() for place in (ROOT / name, page.parent / name))] == []


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("no.md", "is not there"),
        ("use.md#no-such-heading", "no heading"),
        ("#no-such-heading", "no heading"),
        ("../../elsewhere", "out of the repository"),
        ("../reports/no/report.html", "is not there"),
        ("http://example.org", "https"),
        ("https://example", "https"),
        ("https://exa mple.org/", "https"),
    ],
)
def test_a_link_that_leads_nowhere_is_seen(target, said):
    assert said in fault_of(target, ROOT / "docs" / "gate.md")


def test_links_that_lead_somewhere_are_left_alone():
    page = ROOT / "docs" / "gate.md"
    good = [
        "use.md",
        "use.md#when-something-goes-wrong",
        "#files",
        "../conf/prompt",
        "https://arxiv.org/abs/2503.01030",
    ]
    assert [fault_of(target, page) for target in good] == [""] * len(good)


def test_pages_are_named_in_code_and_configuration_only_where_they_are_there():
    texts = [*(ROOT / "audit").rglob("*.py"), *(ROOT / "conf").rglob("*.yaml"), *(ROOT / "audit").rglob("*.j2")]
    named = {name for path in texts for name in re.findall(r"\bdocs/\w[\w-]*\.md\b", path.read_text(encoding="utf-8"))}
    assert len(named) > 5
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
