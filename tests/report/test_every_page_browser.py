"""Every kind of page that the package can write, held against the rules of axe-core, on a light and on a dark page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from browser import MARKS, launched, open_all, opened, sideways, violations
from judged import judged, judged_page
from planted import CASES, Planted
from test_comparison_page import rendered
from test_explore import make_explorer, make_ratings
from test_first_screen import analysis_of
from test_inventory_page import parts_of
from test_replies_page import replies_of, write_run
from test_summary import several

from audit.comparing.comparison import compare_folders
from audit.extras.index.write import write_index
from audit.people.questions import load_questions
from audit.report import page as pages
from audit.report.form import SHOWN, render_form
from audit.tasks.intensity.page import render_report
from audit.tasks.inventory.page import render_inventory

pytestmark = MARKS
FOLDER = Path(pages.__file__).parent
REPORTS = Path(__file__).parents[2] / "reports"
GERMAN = {"code": "de", "name": "German", "reviewed": "no native speaker read it", "policy": "with Person"}
ONE = {"Jew": ["a Jew"], "Sikh": ["a Sikh"], "Jain": ["a Jain"]}


def of_ratings(planted: Planted, **said: object) -> str:
    manifest, analysis = analysis_of(planted)
    return render_report(
        manifest=manifest.having(**said), tables=analysis.tables, figures={}, remarks=analysis.remarks,
        explorer=make_explorer(make_ratings()),
    )  # fmt: skip


def of_replies(folder: Path) -> str:
    return write_run(folder / "run", replies_of(ONE, n=4, dimensions=("religion",))).read_text("utf-8")


def of_reply_comparison(folder: Path) -> str:
    """Two runs of replies, the second with a gap of more words."""
    replies = replies_of(ONE, n=6, dimensions=("religion",))
    runs = [folder / "one", folder / "two"]
    for place, run in enumerate(runs):
        write_run(run, replies, measures=2, seed=place, stimuli={"source": "a source", "sha256": "x"})
    return compare_folders(runs, out=folder / "out", reports_dir=folder, say=lambda line: None).page.read_text("utf-8")


def of_judge(folder: Path) -> str:
    parts = [
        judged(lambda k, own, p=p: p + (0.1 if own else 0.0), dimension=f"d{place}", seed=place, first_place=0.6)
        for place, p in enumerate((0.8, 0.5, 0.2))
    ]
    return judged_page(*parts)


def of_form(folder: Path) -> str:
    items = pd.DataFrame({name: [f"{name} {k}" for k in range(3)] for name in SHOWN}).assign(emotion="joy")
    return render_form(items, load_questions().questions, introduction="Hello.")


def of_index(folder: Path) -> str:
    write_run(folder / "run", replies_of(ONE, n=4, dimensions=("religion",)))
    return write_index(folder).page.read_text("utf-8")


MADE: Mapping[str, Callable[[Path], str]] = {
    "ratings": lambda folder: of_ratings(several(0.0, 6.0, -5.0, n=12)),
    "ratings in another language": lambda folder: of_ratings(CASES["refused-when-high"](), language=GERMAN),
    "replies": of_replies,
    "questionnaire": lambda folder: render_inventory(**parts_of(hostile="")),
    "judge": of_judge,
    "comparison of runs": lambda folder: rendered(),
    "comparison of replies": of_reply_comparison,
    "people's form": of_form,
    "index": of_index,
}
COMMITTED: Mapping[str, Path] = {
    "example": REPORTS / "example" / "report.html",
    "wordings": REPORTS / "example-wordings" / "report.html",
    "example of replies": REPORTS / "example-replies" / "report.html",
    "sweep": REPORTS / "example-sweep" / "comparison" / "comparison.html",
    "strategies": REPORTS / "example-strategies" / "comparison" / "comparison.html",
    "published index": REPORTS / "published" / "index.html",
}


@contextmanager
def recorded() -> Iterator[set[str]]:
    """Yield the names of the templates that are rendered meanwhile, of those that are included too."""
    used: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        known = pages.environment()
        load = known.loader.get_source
        known.cache.clear()

        def noted(environment, name):
            used.add(name)
            return load(environment, name)

        patch.setattr(known.loader, "get_source", noted)
        yield used
    known.cache.clear()


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[dict[str, Path], set[str]]:
    """Return the pages by name, and the templates that they were made of."""
    written = {}
    with recorded() as used:
        for name, make in MADE.items():
            folder = tmp_path_factory.mktemp("page")
            written[name] = folder / "page.html"
            written[name].write_text(make(folder), "utf-8")
    return written | dict(COMMITTED), used


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


def test_no_template_is_without_a_page_here(made) -> None:
    """A new kind of page needs a line in `MADE`."""
    assert {path.name for path in FOLDER.glob("*.html.j2")} - made[1] == set()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
@pytest.mark.parametrize("name", [*MADE, *COMMITTED])
def test_every_kind_of_page_breaks_no_rule(chromium, made, name, width, scheme) -> None:
    """Of colours the scheme decides, of what can be reached the width: no rule needs all four looks."""
    with opened(chromium, made[0][name], width=width, color_scheme=scheme) as page:
        open_all(page)
        assert violations(page) == []
        assert sideways(page) == 0
