"""Do faults to small runs, many times, and print the table of docs/reliability.md as Markdown.

Run as ``python benchmarks/faults.py [times=1] [seed=1] [only=NAME]`` where the project is installed for development (or
with ``PYTHONPATH=.``). ``times=0.1`` does a tenth of each. The faults are those of ``tests/faults/breaking.py``; below
them stand those that other tests do, which this command runs and counts. Each is done to runs of 50 prompts of a
scripted model, and nothing else of them is scripted: the command, the folders and the analysis are the package's.

A row is lost if it was collected and had to be asked again; a value is wrong if it is read and was never answered. The
exit code is 1 where a row is lost or stands twice, a value is wrong without a word, or a command ends otherwise than it
should.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS.parent), str(TESTS), str(TESTS / "faults")]
ELSEWHERE = {
    "a run killed ten times by SIGKILL, on a real model; SIGTERM, SIGHUP": ("test_interruption.py", ""),
    "a table's consolidation stopped at each step; SIGKILL, a full disk": (
        "test_parts.py",
        "interrupted or killed or full or space or lost or read",
    ),
    "the weights of a model overwritten, gone, or those of another commit": (
        "test_pipeline.py engines/test_unchanged.py",
        "weights or gone or held_against or would_load or no_hashes",
    ),
    "answers kept for another model, or for other settings of sampling": ("faults/test_cache_keys.py", ""),
    "an engine that hangs, dies or is stopped, among workers": (
        "workers/test_pool.py",
        "heard or answers_nothing or slow or dead or ends_two or without_workers",
    ),
    "a server that is slow, drips, breaks off, or answers garbage": (
        "engines/test_openai.py",
        "fault or patien or stops or hostile or begun or ctrl",
    ),
}
"""Faults that other tests do: what they are, in which files, and which tests of them."""


def tested(files: str, chosen: str) -> tuple[int, int]:
    """Run tests; return how many passed, and how many did not."""
    words = [*files.split(), *(["-k", chosen] if chosen else [])]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "--no-header", *words],
        cwd=TESTS, capture_output=True, text=True, check=False,
    )  # fmt: skip
    counted = {what: int(n) for n, what in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    return counted.get("passed", 0), counted.get("failed", 0) + counted.get("error", 0) + (
        done.returncode not in (0, 1)
    )


def shown(line: str, most: int = 170) -> str:
    """Write what the user saw for a cell of Markdown."""
    line = " ".join(line.split()).replace("|", "\\|")
    return line if len(line) <= most else f"{line[: most - 60]} [...] {line[-50:]}"


def main(words: Sequence[str]) -> int:
    """Print the table; return 1 if there is a fault."""
    import breaking

    given = dict(word.split("=", 1) for word in words)
    times, seed, only = float(given.get("times", 1)), int(given.get("seed", 1)), given.get("only", "")
    began, bad = time.process_time(), []
    print("| done to a run | tries | rows lost | rows twice | wrong values unseen | what the user saw |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        here = Path.cwd()
        with breaking.audits(Path(folder)) as audits:
            for fault, n in breaking.FAULTS:
                if only not in fault.__name__:
                    continue
                got = fault(audits, max(1, round(n * times)), Random(seed))
                print(
                    f"| {got.fault} | {got.n} | {got.n_lost} | {got.n_twice} | {got.n_wrong} | {shown(got.said)} |",
                    flush=True,
                )
                bad += got.faults
                if got.n_lost or got.n_twice or got.n_wrong:
                    bad.append(f"{fault.__name__}: {got.n_lost} lost, {got.n_twice} twice, {got.n_wrong} wrong")
        os.chdir(here)
    for what, chosen in ELSEWHERE.items():
        if only:
            break
        passed, failed = tested(*chosen)
        print(
            f"| {what} | {passed + failed} tests | {'0' if not failed else '?'} | 0 | 0 | {failed} failed |", flush=True
        )
        bad += [f"{failed} tests failed: {' '.join(chosen)}"] if failed or not passed else []
    print(f"\nseed {seed}; {time.process_time() - began:.0f} s of one core, Python {platform.python_version()}")
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
