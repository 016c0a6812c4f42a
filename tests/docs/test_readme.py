"""The README's numbers are those of the committed example, and it stays short."""

import json
import re

from documents import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "reports" / "example"


def test_what_the_demo_is_shown_to_print_is_what_the_example_s_page_says():
    demo = README.split("## The demo")[1].split("\n## ")[0]
    screen = (EXAMPLE / "report.html").read_text(encoding="utf-8").split('<div class="summary">')[1]
    screen = " ".join(re.sub("<[^>]+>", "", screen.split('class="print-one"')[0]).split())
    numbers = re.findall(r"[+−]?\d+\.\d+", demo)
    assert len(numbers) == 5
    assert [number for number in numbers if number not in screen] == []
    [verdict] = re.findall(r"answer: +religion: (.*)\.", demo)
    assert screen.count(verdict) == 2  # of both questions
    manifest = json.loads((EXAMPLE / "manifest.json").read_text(encoding="utf-8"))
    n_checks = sum(check["n_prompts"] for check in manifest["checks"].values())
    assert f"It asks {manifest['n_prompts']} prompts, and {n_checks} that check them" in demo


def test_it_is_short_and_its_first_lines_have_a_command_for_each_beginner():
    assert len(README.split()) <= 900
    first = README.split("\n## ")[0]
    for found in ("    make demo", "    pip install .", "model=openai", "qwen2.5-coder-1.5b-persona-1/report.png"):
        assert found in first
