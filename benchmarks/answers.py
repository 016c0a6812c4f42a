"""Count which answers in words are read right, wrong or not at all, by kind, and print the table as Markdown.

Run as ``python benchmarks/answers.py [FILE.jsonl ...]`` where the project is installed (or with ``PYTHONPATH=.``); the
answers of ``tests/elicitation/answers.jsonl`` if no file is given. A line of a file has a ``kind``, an ``answer`` and,
as ``right``, the list of what a careful reader may take from it: a number, ``unparseable`` or ``refused``. The question
is how much anxiety a person felt, from 0 to 100; a line with ``language`` de is in German, one with ``cut`` of a text
that was cut. The exit code is 1 if any number is wrong.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from audit.asking.elicitation.phrases import read_in_language
from stimuli.languages import english_replies, pack_replies
from stimuli.prompts import Question, Scale

OWN = Path(__file__).parents[1] / "tests" / "elicitation" / "answers.jsonl"
ASKED = {
    "en": (english_replies(), Scale(0, 100, "not at all", "extremely"), Question("a Buddhist", ("anxiety", "anxious"))),
    "de": (
        pack_replies("de"),
        Scale(0, 100, "überhaupt nicht", "äußerst stark"),
        Question("eine muslimische Person", ("Angst", "ängstlich")),
    ),
}
HEADS = ("wrong", "missed", "another status", "right")


def judge(answer, right, language="en", cut=False):
    """Return which of HEADS the reading of an answer is."""
    replies, scale, question = ASKED[language]
    found = read_in_language(answer, replies, scale, question=question, cut=cut)
    if (found.intensity if found.intensity == found.intensity else str(found.status)) in right:
        return "right"
    if found.intensity == found.intensity:
        return "wrong"
    return "another status" if all(isinstance(each, str) for each in right) else "missed"


def main(paths):
    """Print a table of each file, and return the exit code."""
    n_wrong = 0
    for path in paths:
        kinds = {}
        for row in map(json.loads, path.read_text("utf-8").splitlines()):
            name = f"{row['set']}: {row['kind']}" if "set" in row else row["kind"]
            kinds.setdefault(name, Counter())[
                judge(row["answer"], row["right"], row.get("language", "en"), row.get("cut", False))
            ] += 1
        kinds["all"] = sum(kinds.values(), Counter())
        print(f"\n{path.name}\n\n| kind | answers | {' | '.join(HEADS)} |\n|---|---|{'---|' * len(HEADS)}")
        for kind, counts in kinds.items():
            print(f"| {kind} | {counts.total()} | {' | '.join(str(counts[head]) for head in HEADS)} |")
        n_wrong += kinds["all"]["wrong"]
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main([Path(each) for each in sys.argv[1:]] or [OWN]))
