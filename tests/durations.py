"""How long each file of tests took in the last gate.

``make durations`` runs ``python tests/durations.py build/tests.xml``, which writes what pytest reported of ``make
test-all`` to ``durations.json``. Workers begin with the longest files, and test_durations.py holds each to its budget.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

TESTS = Path(__file__).resolve().parent
FILE = TESTS / "durations.json"


def seconds(*, quick_alone: bool) -> dict[str, float]:
    """Return the seconds of each file by its place in the folder of tests; of `make test` alone, or of all tests."""
    of_files = json.loads(FILE.read_text(encoding="utf-8"))["seconds"]
    return {name: each["quick"] + (0 if quick_alone else each["rest"]) for name, each in of_files.items()}


def beyond_quick() -> dict[str, float]:
    """Return the seconds of each file's tests that are not of `make test`."""
    return {name: each["rest"] for name, each in json.loads(FILE.read_text(encoding="utf-8"))["seconds"].items()}


def file_of(classname: str) -> str:
    """Return the place of a file by what pytest calls it, which may have a class behind it."""
    parts = classname.split(".")[1:]
    while parts and not (TESTS / "/".join(parts)).with_suffix(".py").is_file():
        parts.pop()
    if not parts:
        raise ValueError(f"{classname} is of no file in {TESTS}")
    return f"{'/'.join(parts)}.py"


def read(report: Path) -> dict[str, dict[str, float]]:
    """Add up a report's seconds by file, of tests of ``make test`` and of the others."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: {"quick": 0.0, "rest": 0.0})
    for case in ElementTree.parse(report).iter("testcase"):
        quick = case.find("properties/property[@name='quick']") is not None
        found[file_of(case.attrib["classname"])]["quick" if quick else "rest"] += float(case.attrib["time"])
    return {
        name: {kind: round(took, 1) for kind, took in found[name].items()}
        for name in sorted(found)
    }  # fmt: skip


def cpu() -> str:
    """Return the name of this machine's processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    written = {"cpu": cpu(), "cores": os.cpu_count(), "seconds": read(Path(sys.argv[1]))}
    FILE.write_text(f"{json.dumps(written, indent=1)}\n", encoding="utf-8")
