"""Draw what a reader sees first, on a screen 1,440 px wide and on a phone 390 px wide, and measure the pages.

Run as ``python benchmarks/first_screens.py FOLDER [NAME ...]`` where the project and its tests' tools are installed. It
draws committed pages (a run without a verdict, one that finds a group rated lower, replies, a comparison, an index),
reports of ratings whose truth is planted (``planted.py``), and runs of the planted model; or those of them that are
named. Each picture is ``FOLDER/NAME-WIDTH.png``. It prints how far down the page the first screen's last line
reaches, which is the first gap of an index, how long the page is, how many words it has before anything is unfolded,
and what axe-core finds wrong.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from browser import launched, opened, violations  # noqa: E402
from planted import CASES  # noqa: E402

SIZES = ((1440, 900), (390, 844))
REPORTS = ROOT / "reports"
COMMITTED = {
    "example": REPORTS / "example" / "report.html",
    "published": REPORTS / "published" / "qwen2.5-coder-1.5b-origin" / "report.html",
    "replies": REPORTS / "example-replies" / "report.html",
    "comparison": REPORTS / "published" / "comparison" / "comparison.html",
    "strategies": REPORTS / "example-strategies" / "comparison" / "comparison.html",
    "index": REPORTS / "published" / "index.html",
}
OUTSIDE = {"gap": "b1-group", "opposite-gaps": "b1-emotions", "refusals": "refused-when-high", "not-shown": "alike"}
"""Ratings of another tool, by the planted case that they are of."""
LOWER = "model.planted.disparity={Muslim: -20}"
ASKED = {"disparity": [LOWER], "both": ["model.planted.gap=5", LOWER]}
"""What the planted model is asked with."""
ENDS = ".asked, .finding, .summary .line, #group-1 ~ * tbody tr:first-child"


def page_of(name, folder):
    """Return the page of that name; it is made in the folder unless it is committed."""
    if name in COMMITTED:
        return COMMITTED[name]
    if name in OUTSIDE:
        words = ["report", *CASES[OUTSIDE[name]]().write(folder)]
    else:
        words = ["run", "model=planted", "dimensions=religion", *ASKED[name], f"run_dir={folder / 'run'}"]
    subprocess.run(
        [sys.executable, "-m", "audit", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return folder / "run" / "report.html"


def main(out, *names):
    """Draw the first screens of the pages that are named, or of all, and print a table."""
    out.mkdir(parents=True, exist_ok=True)
    print("| page | width, px | first screen ends at, px | page, px | words | axe |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch, launched() as browser:
        for name in names or (*COMMITTED, *OUTSIDE, *ASKED):
            path = page_of(name, Path(scratch) / name)
            for width, height in SIZES:
                with opened(browser, path, width=width) as page:
                    ends = page.locator(ENDS).evaluate_all(
                        "(all) => all.map((each) => each.getBoundingClientRect().bottom)"
                    )
                    page.screenshot(
                        path=out / f"{name}-{width}.png",
                        full_page=True,
                        clip=dict(x=0, y=0, width=width, height=height),
                    )
                    long = page.evaluate("document.documentElement.scrollHeight")
                    words = len(page.inner_text("body").split())
                    wrong = len(violations(page))
                print(f"| {name} | {width} | {max(ends):.0f} | {long} | {words} | {wrong} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
