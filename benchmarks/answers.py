"""Count which answers in words are read right, wrong or not at all, by kind, and print the table as Markdown.

Run as ``python benchmarks/answers.py [FILE.jsonl ...]`` where the project is installed (or with ``PYTHONPATH=.``); the
answers of ``tests/elicitation/answers.jsonl`` if no file is given. A line of a file has a ``kind``, an ``answer`` and,
as ``right``, the list of what a careful reader may take from it: a number, ``unparseable`` or ``refused``. The question
is how much anxiety a person felt, from 0 to 100. The exit code is 1 if any number is wrong.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from audit.elicitation.parsing import parse_response
from stimuli.prompts import Question

OWN = Path(__file__).parents[1] / "tests" / "elicitation" / "answers.jsonl"
ASKED = Question("a Buddhist", ("anxiety", "anxious"))
HEADS = ("wrong", "missed", "another status", "right")


def judge(answer, right):
    """Return which of HEADS the reading of an answer is."""
    found = parse_response(answer, low=0, high=100, low_label="not at all", high_label="extremely", question=ASKED)
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
            kinds.setdefault(name, Counter())[judge(row["answer"], row["right"])] += 1
        kinds["all"] = sum(kinds.values(), Counter())
        print(f"\n{path.name}\n\n| kind | answers | {' | '.join(HEADS)} |\n|---|---|{'---|' * len(HEADS)}")
        for kind, counts in kinds.items():
            print(f"| {kind} | {counts.total()} | {' | '.join(str(counts[head]) for head in HEADS)} |")
        n_wrong += kinds["all"]["wrong"]
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main([Path(each) for each in sys.argv[1:]] or [OWN]))
