"""Draw what a reader sees first, on a screen 1,440 px wide and on a phone 390 px wide.

Run as ``python benchmarks/first_screens.py FOLDER [NAME ...]`` where the project and its tests' tools are installed. It
draws the committed example, the comparison of strategies and the index, and reports of ratings whose truth is planted
(``planted.py``): a gap, opposite gaps of emotions, refusals, nothing that differs, and several dimensions; or those of
them that are named. Each picture is ``FOLDER/NAME-WIDTH.png``. It prints how far down the page the first screen's last
line reaches, which is the first gap of an index.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import pandas as pd  # noqa: E402
from planted import CASES, Planted, alone, grouped, ratings_of  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

SIZES = ((1440, 900), (390, 844))
COMMITTED = {
    "example": ROOT / "reports" / "example" / "report.html",
    "replies": ROOT / "reports" / "example-replies" / "report.html",
    "strategies": ROOT / "reports" / "example-strategies" / "comparison" / "comparison.html",
    "index": ROOT / "reports" / "example-models" / "index.html",
}
PLANTED = {"gap": "b1-group", "opposite-gaps": "b1-emotions", "refusals": "refused-when-high", "alike": "alike"}


def several():
    """Ratings of three dimensions: a gap towards the in-group, one towards the out-group, and none."""
    groups = alone(3)
    parts = [
        ratings_of(groups, n=25, gap=lambda emotion, group, gap=gap: gap, seed=k).assign(dimension=f"dimension {k}")
        for k, gap in enumerate((6.0, -5.0, 0.0), start=1)
    ]
    return Planted(pd.concat(parts), grouped(groups), {"margin": 4})


def reported(planted, folder):
    """Write planted ratings, and return the page that the command line makes of them."""
    command = [sys.executable, "-m", "audit", "report", *planted.write(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder / "run" / "report.html"


def main(out, *names):
    """Draw the first screens of the pages that are named, or of all."""
    out.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        made = {name: CASES[case] for name, case in PLANTED.items()} | {"several": several}
        pages = dict.fromkeys(names or [*COMMITTED, *made])
        for name in pages:
            pages[name] = COMMITTED.get(name) or reported(made[name](), Path(scratch) / name)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        print("| page | width, px | first screen ends at, px |\n|---|---|---|")
        for name, path in pages.items():
            for width, height in SIZES:
                page = browser.new_page(viewport={"width": width, "height": height})
                page.goto(path.as_uri())
                ends = page.locator(".asked, .finding, .summary .line, #group-1 ~ * tbody tr:first-child").evaluate_all(
                    "(all) => all.map((each) => each.getBoundingClientRect().bottom)"
                )
                page.screenshot(path=out / f"{name}-{width}.png")
                print(f"| {name} | {width} | {max(ends):.0f} |", flush=True)
                page.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
