"""The site is built without a network and without a warning, and loads nothing that is not part of it."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from documents import DOCS, PAGES, ROOT

from audit.cli.main import COMMANDS
from audit.comparing.preference.human_choices import PEOPLE_PREFERENCE_TABLES
from audit.comparing.preference.judging import PREFERENCE_TABLES
from audit.comparing.tables import COMPARISON_TABLES, REPLY_COMPARISON_TABLES
from audit.configuration.options import option_rows
from audit.tables.run_of_ratings import OF_RATINGS, TABLES
from audit.tables.run_of_replies import OF_REPLIES, REPLY_TABLES
from audit.tables.validation import VALIDATION_TABLES
from audit.tasks.inventory.tables import AFFECT_TABLES, INVENTORY_TABLES, OF_ANSWERS

pytestmark = pytest.mark.process

for needed in ("sphinx", "myst_parser", "furo"):
    pytest.importorskip(needed, reason="the extra docs is not installed")

NOWHERE = "http://127.0.0.1:9"
LOADS = {
    "script": ("src",), "img": ("src", "srcset"), "iframe": ("src",), "source": ("src", "srcset"), "audio": ("src",),
    "video": ("src", "poster"), "embed": ("src",), "object": ("data",), "input": ("src",), "use": ("href",),
    "image": ("href",), "base": ("href",), "track": ("src",),
}  # fmt: skip
"""What a browser loads by itself when it shows a page, by tag and attribute; of `link` it depends on its `rel`."""
NOT_LOADED = {"next", "prev", "canonical", "author", "help", "license"}


class Page(HTMLParser):
    """What a page loads, links and says."""

    def __init__(self, path: Path):
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.text = ""
        self._style = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self._style = tag == "style"
        self.ids.add(given.get("id") or "")
        self.loads += [given[name] for name in LOADS.get(tag, ()) if given.get(name)]
        if tag == "link" and not set((given.get("rel") or "").split()) & NOT_LOADED:
            self.loads.append(given.get("href") or "")
        self.loads += loaded_by_css(given.get("style") or "")
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])

    def handle_endtag(self, tag):
        self._style = self._style and tag != "style"

    def handle_data(self, text):
        self.text += text
        if self._style:
            self.loads += loaded_by_css(text)


def loaded_by_css(text: str) -> list[str]:
    """What a style sheet loads."""
    found = re.findall(r"""(?:url\(\s*|@import\s+)["']?([^"')\s;]+)""", text)
    return [target for target in found if not target.startswith("#")]


def outside(target: str, of: Path, site: Path) -> bool:
    """Whether what is loaded is no file of the site, and not in the page itself."""
    if target.startswith("data:"):
        return False
    if urlsplit(target).scheme or target.startswith("//"):
        return True
    return not (of.parent / unquote(urlsplit(target).path)).resolve().is_relative_to(site.resolve())


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    nowhere = {name: NOWHERE for each in ("http_proxy", "https_proxy", "all_proxy") for name in (each, each.upper())}
    built = ["-q", "-W", "--keep-going", "-b", "html", "-d", out / "doctrees", DOCS, out / "html"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *built],
        cwd=ROOT, env=os.environ | nowhere | {"NO_COLOR": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return out / "html"


@pytest.fixture(scope="module")
def pages(site):
    return {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}


def test_no_page_loads_anything_from_outside(site, pages):
    loaded = [(site / name, target) for name, page in pages.items() for target in page.loads]
    loaded += [(path, target) for path in site.rglob("*.css") for target in loaded_by_css(path.read_text("utf-8"))]
    assert len(loaded) > 3 * len(PAGES)
    assert [(str(path), target) for path, target in loaded if outside(target, path, site)] == []


def test_what_a_page_loads_from_outside_is_seen(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        '<link rel="stylesheet" href="https://cdn.example/a.css"><script src="//cdn.example/b.js"></script>'
        '<link rel="preconnect" href="https://fonts.example"><img src="here.png"><img src="data:image/png;base64,AA">'
        '<style>@import "http://c.example/c.css"; b { background: url(../../d.png) }</style><a href="https://e.example">'
        '<p style="background: url(https://f.example/f.png)"></p><link rel="canonical" href="https://g.example">'
    )
    found = [target for target in Page(page).loads if outside(target, page, tmp_path)]
    assert found == [
        "https://cdn.example/a.css", "//cdn.example/b.js", "https://fonts.example", "http://c.example/c.css",
        "../../d.png", "https://f.example/f.png",
    ]  # fmt: skip


def test_every_link_between_pages_of_the_site_leads_to_a_page_and_a_place_in_it(site, pages):
    lost = []
    for name, page in pages.items():
        if name.startswith("reports/"):
            continue
        for target in page.links:
            parts = urlsplit(target)
            if parts.scheme or not (parts.path or parts.fragment):
                continue
            place = (site / name).parent / unquote(parts.path) if parts.path else site / name
            found = pages.get(os.path.relpath(place, site))
            if not place.is_file() or (parts.fragment and found and unquote(parts.fragment) not in found.ids):
                lost.append((name, target))
    assert lost == []


def test_every_page_is_in_the_navigation(pages):
    named = {urlsplit(target).path for target in pages["index.html"].links}
    assert {f"{page.stem}.html" for page in PAGES} - named == {"index.html"}


def test_the_navigation_has_the_four_kinds_of_pages(pages):
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    kinds = ["Tutorials", "How to", "Reference", "Explanation"]
    assert re.findall(r"^:caption: (.*)$", index, flags=re.MULTILINE) == kinds
    assert all(kind in pages["index.html"].text for kind in kinds)


def said(meaning: str) -> str:
    """A description as a page shows it: words in backticks are code there."""
    return " ".join(meaning.replace("`", "").split())


def test_the_reference_has_every_option_with_its_meaning(pages):
    text = " ".join(pages["reference-options.html"].text.split())
    assert [row.name for row in option_rows() if row.name not in text or said(row.meaning) not in text] == []


def test_the_reference_has_every_column_with_its_meaning(pages):
    text = " ".join(pages["reference-columns.html"].text.split())
    folders = [OF_RATINGS, OF_REPLIES, OF_ANSWERS]
    folders += [
        each.values()
        for each in (
            TABLES, REPLY_TABLES, INVENTORY_TABLES, AFFECT_TABLES,
            COMPARISON_TABLES, REPLY_COMPARISON_TABLES, PREFERENCE_TABLES,
            PEOPLE_PREFERENCE_TABLES, VALIDATION_TABLES,
        )
    ]  # fmt: skip
    columns = [(name, column) for folder in folders for table in folder for name, column in table.items()]
    assert len(columns) > 1000
    assert [name for name, column in columns if name not in text or said(column.meaning) not in text] == []


def test_the_reference_has_the_help_of_every_command(pages):
    text = pages["reference-commands.html"].text
    assert [name for name, command in COMMANDS.items() if command.help().strip() not in text] == []


def test_the_example_report_can_be_opened_in_the_site(site, pages):
    assert "reports/example/report.html" in pages["index.html"].links
    assert (site / "reports/example/report.html").read_bytes() == (ROOT / "reports/example/report.html").read_bytes()


def test_a_tutorial_ends_with_what_its_commands_printed(pages):
    kept = sorted((DOCS / "transcripts").glob("*.txt"))
    assert kept
    assert [path.stem for path in kept if path.read_text("utf-8").rstrip() not in pages[f"{path.stem}.html"].text] == []
