"""Throw inputs at every reader of outside bytes and words, and print the table of docs/reliability.md as Markdown.

Run as ``python benchmarks/fuzz.py [n=100000] [seed=1] [only=NAME] [first=0] [processes=1]`` where the project is
installed for development (or with ``PYTHONPATH=.``). ``n`` inputs are shared out among the readers, as
``tests/faults`` weighs them; the same seed gives the same inputs. ``only=`` tries the readers whose names hold a text,
``first=`` begins with another input: ``only=GGUF first=286 n=1`` tries one input again, and prints it.

A reader is tried in a process of its own, so that one that ends its process, or takes all memory, is counted too.
Each input must end in a value or in one line of ours, within five seconds of the processor. What ends otherwise is
printed below the table, once for each place, with the number by which it can be tried again; the exit code is 1 then.
"""

from __future__ import annotations

import faulthandler
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS.parent), str(TESTS), str(TESTS / "faults")]
MEMORY = 16 * 2**30
"""Bytes of address space that a reader's process may take: the libraries alone have about a third of it."""
STUCK_S = 120
"""Seconds after which a process is given up that is stuck where Python cannot interrupt it."""


def readers():
    """Return all readers; heavy libraries are imported when one is prepared."""
    import handed
    import spoken
    import stored
    import words

    return [*stored.READERS, *handed.READERS, *spoken.READERS, *words.READERS]


def shared_out(n: int, shares: Sequence[int]) -> list[int]:
    """Share n inputs out by weight, all of them and at least one each."""
    total, given = sum(shares), 0
    counts = []
    for place, share in enumerate(shares):
        before = sum(shares[:place])
        upto = round(n * (before + share) / total)
        counts.append(max(1, upto - given))
        given += counts[-1]
    return counts


def try_here(name: str, *, seed: int, first: int, n: int, out: Path) -> None:
    """Try one reader in this process, and write what became of it to a file."""
    import reading

    os.environ["HF_HUB_OFFLINE"] = "1"  # no reader waits for a network
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    at = out.with_suffix(".at")
    reader = next(each for each in readers() if each.name == name)

    def watch(number: int) -> None:
        faulthandler.dump_traceback_later(STUCK_S, exit=True)
        if number % 50 == 0 or n < 50:
            at.write_text(str(number))

    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        if n == 1:
            case = reader.prepare(Path(folder)).make(reading.rng_of(seed, name, first))
            print(f"{case!r:.5000}", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
            found = reading.try_reader(reader, Path(place), seed=seed, numbers=range(first, first + n), watch=watch)
        os.chdir("/")
    out.write_text(json.dumps(asdict(found)))


def try_all(asked: Sequence[tuple[str, int]], *, seed: int, first: int, processes: int) -> Iterator[dict]:
    """Try readers, each in a process of its own; yield what became of each, in their order."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, ThreadPoolExecutor(processes) as pool:
        places = [Path(folder) / f"{place}.json" for place in range(len(asked))]
        yield from pool.map(
            lambda name, n, out: _apart(name, n, out, seed=seed, first=first), *zip(*asked, strict=True), places
        )


def _apart(name: str, n: int, out: Path, *, seed: int, first: int) -> dict:
    words = [f"reader={name}", f"n={n}", f"seed={seed}", f"first={first}", f"to={out}"]
    code = subprocess.run([sys.executable, __file__, *words], stdout=subprocess.DEVNULL, check=False).returncode
    if out.exists():
        return dict(json.loads(out.read_text()))
    at = out.with_suffix(".at")
    number = at.read_text() if at.exists() else "0"
    fault = {"ended": [int(number), f"other: the process ended with {code} at that input, or within 50 of it"]}
    empty = {"n_read": 0, "n_refused": 0, "n_wrong": 0, "slowest_s": 0.0, "slowest": 0, "total_s": 0.0}
    return {"reader": name, "n": n, "n_other": 1, "faults": fault, **empty}


def main(words: Sequence[str]) -> int:
    """Print the table; return 1 if there is a fault."""
    given = dict(word.split("=", 1) for word in words)
    seed, first, n = int(given.get("seed", 1)), int(given.get("first", 0)), int(given.get("n", 100_000))
    if "reader" in given:
        try_here(given["reader"], seed=seed, first=first, n=n, out=Path(given["to"]))
        return 0
    chosen = [each for each in readers() if given.get("only", "").lower() in each.name.lower()]
    if not chosen:
        sys.exit(
            f"only={given['only']}: no reader is called so; there are: {', '.join(each.name for each in readers())}"
        )
    counts = shared_out(n, [each.share for each in chosen])
    began, spent, total, faults = time.time(), 0.0, [0] * 5, []
    print("| reader | inputs | read | refused in a line | other exceptions | wrong values | slowest (ms) |")
    print("|---|---|---|---|---|---|---|")
    asked = [(each.name, count) for each, count in zip(chosen, counts, strict=True)]
    for found in try_all(asked, seed=seed, first=first, processes=int(given.get("processes", 1))):
        row = [found[key] for key in ("n", "n_read", "n_refused", "n_other", "n_wrong")]
        total = [one + other for one, other in zip(total, row, strict=True)]
        print(
            f"| {found['reader']} | {' | '.join(f'{k:,}' for k in row)} | {1000 * found['slowest_s']:,.0f} |",
            flush=True,
        )
        spent += found["total_s"]
        faults += [f"{found['reader']}, input {number}: {what}" for number, what in found["faults"].values()]
    print(f"| **all** | {' | '.join(f'{k:,}' for k in total)} | |")
    clock = (time.time() - began) / 60
    print(f"\nseed {seed}; {spent / 60:.1f} minutes of one core, {clock:.1f} by the clock; {platform.python_version()}")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
