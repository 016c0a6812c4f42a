"""Faults of machines and people, done to small runs of a scripted model: kills, full disks, spoilt and foreign parts.

Each fault is a function that tries it so many times and returns what came of it. ``tests/faults/test_faults.py`` tries
each a few times, ``benchmarks/faults.py`` many times, and prints the table of docs/reliability.md.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from runs import FOUR_RELIGIONS, as_stored, in_parts, scripted_models
from test_planted_strategy import Scripted

from audit.cli.main import main
from audit.errors import StoreError
from audit.runs.store import RunFolder

N_PROMPTS, SHARD_SIZE = 50, 7
COMMAND = (
    "run", "model.path=scripted", "elicitation=generate", "elicitation.prefill=", "stimuli.situations_per_emotion=1",
    "stimuli.emotions=[sad,happy]", *FOUR_RELIGIONS, "elicitation.check_sample=0", "elicitation.noise_sample=0",
    "elicitation.manipulation=0", "statistics.n_permutations=100", f"shard_size={SHARD_SIZE}",
)  # fmt: skip


@dataclass
class Outcome:
    """What came of one kind of fault.

    Attributes
    ----------
    fault
        What was done.
    n
        How often.
    n_lost, n_twice, n_wrong
        Rows that were collected and had to be asked again, that stood twice, or that had another value than was
        answered without a word.
    said
        What the user saw; of several lines the one that was seen most often.
    """

    fault: str
    n: int = 0
    n_lost: int = 0
    n_twice: int = 0
    n_wrong: int = 0
    lines: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def said(self) -> str:
        """The line that was seen most often; a folder's place is ``RUN``."""
        seen = [re.sub(r"\S*/?try-\d+", "RUN", line) for line in self.lines]
        return max(seen, key=seen.count) if seen else "nothing: it goes on"


class Audits:
    """Runs in a folder on a scripted model.

    Attributes
    ----------
    whole
        A run that nothing was done to.
    rows
        Its ratings, by prompt.
    """

    def __init__(self, load: Callable[[Any], None], folder: Path) -> None:
        self._load = load
        self.folder = folder
        self.n_made = 0
        code, _, _ = self.run("whole")
        assert code == 0
        self.whole = folder / "whole"
        self.rows = rows_of(self.whole)
        assert len(self.rows) == N_PROMPTS

    def run(self, run_dir: str, *more: str) -> tuple[int, str, int]:
        """Give the command; return its exit code, the last line on standard error, and how many prompts it asked."""
        engine = Scripted()
        self._load(engine)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([*COMMAND, f"run_dir={run_dir}", *more])
        lines = [line for line in err.getvalue().splitlines() if line.strip()]
        return code, lines[-1] if lines else "", sum(len(texts) for texts, _ in engine.calls)

    def child(self, act: Callable[[], None], run_dir: str) -> tuple[int, str]:
        """Give the command in a process of its own, in which ``act`` is done first; return how it ended, and its line.

        A process that was ended by a signal ends with the signal's number, negative.
        """
        said = self.folder / "said.txt"
        pid = os.fork()
        if pid == 0:
            code = 99
            try:
                act()
                code, line, _ = self.run(run_dir)
                said.write_text(line)
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        ended = os.waitstatus_to_exitcode(status)
        return ended, said.read_text() if ended >= 0 and said.exists() else ""

    def new(self) -> str:
        """Return the name of a folder that is not there."""
        self.n_made += 1
        return f"try-{self.n_made}"

    def copied(self) -> Path:
        """Return a copy of the whole run, in parts."""
        return as_stored(in_parts(shutil.copytree(self.whole, self.folder / self.new())))

    def goes_on(self, run_dir: str, outcome: Outcome) -> None:
        """Give the command again, and count what is not as it is in the whole run."""
        there = rows_of(self.folder / run_dir)
        self.count_wrong(there, outcome)
        code, line, n_asked = self.run(run_dir)
        if code != 0:
            outcome.faults.append(f"the same command ended in {code}: {line}")
        rows = rows_of(self.folder / run_dir)
        outcome.n_lost += max(0, n_asked - (N_PROMPTS - len(there))) + max(
            0, N_PROMPTS - rows["prompt_index"].nunique()
        )
        outcome.n_twice += int(rows["prompt_index"].duplicated().sum())
        self.count_wrong(rows, outcome)
        if tables_of(self.folder / run_dir) != tables_of(self.whole):
            outcome.faults.append(f"{run_dir}: the tables are not those of a run that nothing was done to")
        left = sorted(path.name for path in (self.folder / run_dir).rglob("*.unfinished"))
        if left:
            outcome.faults.append(f"{run_dir}: left {left}")

    def count_wrong(self, rows: pd.DataFrame, outcome: Outcome) -> None:
        """Count rows whose values are not those of the whole run."""
        outcome.n_wrong += differing(rows, self.rows)


@contextlib.contextmanager
def audits(folder: Path) -> Iterator[Audits]:
    """Let runs be made in a folder on a scripted model, without figures."""
    with scripted_models(folder) as load:
        yield Audits(load, folder)


def rows_of(run: Path) -> pd.DataFrame:
    """Return the rows that a run's folder has, whole or not, as they are stored."""
    if not run.exists():
        return pd.DataFrame({"prompt_index": []})
    rows: pd.DataFrame = RunFolder(run)._collected("ratings").read().to_pandas()
    return rows


def differing(rows: pd.DataFrame, whole: pd.DataFrame) -> int:
    """Return how many rows have another rating or answer than the same prompt in the whole run."""
    if rows.empty:
        return 0
    both = rows.merge(whole, on="prompt_index", how="left", suffixes=("", "_whole"))
    same = both["response"].eq(both["response_whole"]) & (
        both["intensity"].eq(both["intensity_whole"]) | (both["intensity"].isna() & both["intensity_whole"].isna())
    )
    return int((~same).sum())


def tables_of(run: Path) -> dict[str, bytes]:
    """Return the tables of a run's analysis."""
    return {path.name: path.read_bytes() for path in sorted((run / "tables").glob("*"))}


# --- Kills -----------------------------------------------------------------------------------------------------------

_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree")


def at_writes(act: Callable[[int], None]) -> None:
    """Have this process do something before each change of the disk in the folder that it is in, by their numbers.

    A change is a file that is opened to be written, what was written made to stay (fsync), a rename, a removal, or a
    folder that is made. For a process that is about to end: what was begun cannot be undone.
    """
    here, n, really = str(Path.cwd()), 0, os.fsync

    def changed() -> None:
        nonlocal n
        n += 1
        act(n)

    def fsync(descriptor: int) -> None:
        changed()
        really(descriptor)

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = given
            is_written = "w" in str(mode) or "a" in str(mode) or bool((flags or 0) & (os.O_WRONLY | os.O_RDWR))
            if not (is_written and isinstance(path, (str, os.PathLike))) or str(path).endswith((".lock", "said.txt")):
                return
        elif event not in _CHANGES:
            return
        if str(Path(os.fspath(given[0])).absolute()).startswith(here):
            changed()

    os.fsync = fsync
    sys.addaudithook(hook)


def _count_writes(audits: Audits) -> int:
    """Return how many changes of the disk a run makes."""
    counted = audits.folder / "counted.txt"

    def count() -> None:
        with counted.open("wb", buffering=0) as stream:
            os.set_inheritable(stream.fileno(), True)
            kept = os.dup(stream.fileno())
        at_writes(lambda n: os.pwrite(kept, f"{n:8}".encode(), 0) and None)

    code, _ = audits.child(count, audits.new())
    assert code == 0
    return int(counted.read_text())


def killed_at_every_write(audits: Audits, n: int, rng: Random) -> Outcome:
    """Kill a run by SIGKILL right before each change of the disk, spread over all of them; then give it again."""
    outcome = Outcome("killed by SIGKILL at every write, from the first file to the report")
    total = _count_writes(audits)
    for place in sorted({1 + round(k * (total - 1) / max(1, n - 1)) for k in range(n)}):

        def kill(at: int, place: int = place) -> None:
            if at == place:
                os.kill(os.getpid(), signal.SIGKILL)

        name = audits.new()
        ended, _ = audits.child(lambda kill=kill: at_writes(kill), name)
        if ended != -signal.SIGKILL:
            outcome.faults.append(f"write {place} of {total}: ended in {ended}")
        audits.goes_on(name, outcome)
        outcome.n += 1
        shutil.rmtree(audits.folder / name)
    return outcome


def killed_at_random(audits: Audits, n: int, rng: Random) -> Outcome:
    """End a run at random moments of its work, three times in a row; then give it again."""
    outcome = Outcome("killed at random moments, three times in a row")
    while outcome.n < n:
        name = audits.new()
        for _ in range(3):
            moment = rng.uniform(0.005, 0.6)  # seconds of the processor: about a whole run
            ended, _ = audits.child(lambda moment=moment: signal.setitimer(signal.ITIMER_PROF, moment) and None, name)
            outcome.n += ended == -signal.SIGPROF
        audits.goes_on(name, outcome)
        shutil.rmtree(audits.folder / name)
    return outcome


# --- The disk --------------------------------------------------------------------------------------------------------


def _refused(audits: Audits, n: int, number: int, fault: str, remedy: str) -> Outcome:
    """Have the disk refuse every change from one on, spread over all of them; then give the command again."""
    outcome = Outcome(fault)
    total = _count_writes(audits)
    for place in sorted({1 + round(k * (total - 1) / max(1, n - 1)) for k in range(n)}):

        def refuse(at: int, place: int = place) -> None:
            if at >= place:
                raise OSError(number, os.strerror(number))

        name = audits.new()
        ended, line = audits.child(lambda refuse=refuse: at_writes(refuse), name)
        outcome.n += 1
        outcome.lines.append(line)
        if ended not in (0, 2) or (ended == 2 and remedy not in line):
            outcome.faults.append(f"write {place} of {total}: ended in {ended}, {line!r}")
        if (audits.folder / name).exists():
            audits.goes_on(name, outcome)
            shutil.rmtree(audits.folder / name)
    return outcome


def full_disk(audits: Audits, n: int, rng: Random) -> Outcome:
    """Let the disk be full from each change on."""
    said = "free some space and give the same command again: what was collected is kept"
    return _refused(audits, n, errno.ENOSPC, "a full disk, from every write on", said)


def read_only(audits: Audits, n: int, rng: Random) -> Outcome:
    """Let the disk become read-only from each change on."""
    said = "choose a folder that you can write to with run_dir=PATH"
    return _refused(audits, n, errno.EROFS, "a disk that becomes read-only, from every write on", said)


def small_disk(audits: Audits, n: int, rng: Random) -> Outcome:
    """Run on a file system of a few kilobytes, which really fills up; then make it larger, and give it again."""
    outcome = Outcome("a file system of 16 to 400 KB that fills up (tmpfs)")
    place = audits.folder / "small"
    place.mkdir(exist_ok=True)
    for _ in range(n):
        size = rng.randrange(16, 400)
        name = audits.new()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", place], capture_output=True)
        if mounted.returncode:
            outcome.fault += "; not tried: it takes root"
            return outcome
        try:
            code, line, _ = audits.run(f"small/{name}")
            outcome.n += 1
            outcome.lines += [line] if code else []
            if code not in (0, 2) or (code == 2 and "free some space" not in line):
                outcome.faults.append(f"{size} KB: ended in {code}, {line!r}")
            subprocess.run(["mount", "-o", "remount,size=64m", place], check=True)
            audits.goes_on(f"small/{name}", outcome)
        finally:
            subprocess.run(["umount", "-l", place], check=True)
    return outcome


# --- What is stored --------------------------------------------------------------------------------------------------


def _spoilt(audits: Audits, n: int, rng: Random, fault: str, spoil: Callable[[bytes], bytes]) -> Outcome:
    """Spoil a part or the consolidated file of a finished run, read it, and follow what the line says."""
    outcome = Outcome(fault)
    for number in range(n):
        run = audits.copied() if number % 2 else shutil.copytree(audits.whole, audits.folder / audits.new())
        part = rng.choice(sorted(run.glob("ratings*/*.parquet")) or [run / "ratings.parquet"])
        part.write_bytes(spoil(part.read_bytes()))
        outcome.n += 1
        try:
            rows = RunFolder(run).read_ratings(n_prompts=N_PROMPTS)
        except StoreError as error:
            outcome.lines.append(str(error))
            part.rename(part.with_suffix(".aside"))
            code, line, _ = audits.run(run.name)
            if code or differing(rows_of(run), audits.rows):
                outcome.faults.append(f"the remedy ended in {code}: {line}")
            outcome.n_lost += N_PROMPTS - len(rows_of(run))
        else:
            audits.count_wrong(rows, outcome)
        shutil.rmtree(run)
    return outcome


def torn(audits: Audits, n: int, rng: Random) -> Outcome:
    """Cut files of ratings short."""
    return _spoilt(
        audits, n, rng, "a file of ratings cut short", lambda content: content[: rng.randrange(len(content))]
    )


def flipped(audits: Audits, n: int, rng: Random) -> Outcome:
    """Flip one bit of files of ratings."""

    def spoil(content: bytes) -> bytes:
        at = rng.randrange(len(content))
        return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]

    return _spoilt(audits, n, rng, "one bit of a file of ratings flipped", spoil)


def misplaced(audits: Audits, n: int, rng: Random) -> Outcome:
    """Copy a part over another one of the same run: prompts stand twice, and others are not there."""
    outcome = Outcome("a part copied over another part of the same run")
    for _ in range(n):
        run = audits.copied()
        one, other = rng.sample(sorted(run.glob("ratings/*.parquet")), 2)
        shutil.copy(one, other)
        outcome.n += 1
        code, line, _ = audits.run(run.name)
        outcome.lines.append(line)
        if code != 2:
            outcome.n_twice += len(pq.read_table(one))
        shutil.rmtree(run)
    return outcome


def _silent(audits: Audits, n: int, fault: str, change: Callable[[Path], None]) -> Outcome:
    """Change what is stored as only a ledger can tell, and look whether the change is read like an answer."""
    outcome = Outcome(fault)
    for _ in range(n):
        run = audits.copied()
        change(run)
        outcome.n += 1
        code, line, _ = audits.run(run.name)
        if code:
            outcome.lines.append(line)
        else:
            outcome.n_wrong += differing(rows_of(run), audits.rows)
        shutil.rmtree(run)
    return outcome


def foreign(audits: Audits, n: int, rng: Random) -> Outcome:
    """Put a part of another model's run of the same prompts in the place of one of this run's."""
    other = audits.folder / "other-model"
    if not other.exists():
        with_other = re.compile(r"\d+")
        says = Scripted.says
        try:
            Scripted.says = lambda self, text, seed: with_other.sub("7", says(self, text, seed))  # type: ignore[method-assign]
            assert audits.run(other.name)[0] == 0
        finally:
            Scripted.says = says  # type: ignore[method-assign]
        in_parts(other)

    def change(run: Path) -> None:
        part = rng.choice(sorted(run.glob("ratings/*.parquet")))
        shutil.copy(other / "ratings" / part.name, part)

    return _silent(audits, n, "a part of another model's run of the same prompts copied in", change)


def edited(audits: Audits, n: int, rng: Random) -> Outcome:
    """Change one rating to another number of the scale, by a tool that writes a whole Parquet file."""

    def change(run: Path) -> None:
        part = rng.choice(sorted(run.glob("ratings/*.parquet")))
        table = pq.read_table(part)
        at = table.column_names.index("intensity")
        row = rng.randrange(len(table))
        values = table["intensity"].to_pylist()
        values[row] = 99.0 if values[row] != 99.0 else 1.0
        pq.write_table(table.set_column(at, "intensity", pa.array(values, pa.float64())), part)

    return _silent(audits, n, "one rating changed to another number of the scale", change)


def beyond(audits: Audits, n: int, rng: Random) -> Outcome:
    """Change one rating to a number beyond the scale, in the same way."""
    outcome = Outcome("one rating changed to a number beyond the scale")
    for _ in range(n):
        run = audits.copied()
        part = rng.choice(sorted(run.glob("ratings/*.parquet")))
        table = pq.read_table(part)
        at = table.column_names.index("intensity")
        many = pc.add(table["intensity"], rng.choice((101.0, -5000.0, 1e300)))
        pq.write_table(table.set_column(at, "intensity", many), part)
        outcome.n += 1
        code, line, _ = audits.run(run.name)
        outcome.lines.append(line)
        outcome.n_wrong += len(table) if code == 0 else 0
        shutil.rmtree(run)
    return outcome


# --- People ----------------------------------------------------------------------------------------------------------


def at_once(audits: Audits, n: int, rng: Random) -> Outcome:
    """Give the command while another process is at work in the folder, at a random moment of its work."""
    outcome = Outcome("two runs at once in one folder")
    for _ in range(n):
        name = audits.new()
        with RunFolder(audits.folder / name) as held:
            for number in range(rng.randrange(3)):
                held.write_shard(number, audits.rows.loc[audits.rows["prompt_index"].floordiv(SHARD_SIZE) == number])
            code, line, n_asked = audits.run(name)
            outcome.n += 1
            outcome.lines.append(line)
            if code != 2 or n_asked:
                outcome.faults.append(f"ended in {code} and asked {n_asked}: {line!r}")
        shutil.rmtree(audits.folder / name)
    return outcome


CHANGED: Sequence[str] = (
    "prompt=persona-1", "prompt=scale-10", "seed=1", "strategy=perspective", "strategy=basic-empathy",
    "elicitation.max_tokens=3", "elicitation.parser=hou2025", "stimuli.emotions=[sad,angry]", "wordings=2",
    "stimuli.situations_per_emotion=2", "dimensions=[heritage]", "stimuli.unspecified=false", "thinking=on",
    "model.dtype=bfloat16", "model.max_model_len=512", "task=reply", "elicitation.prefill=Number: ",
)  # fmt: skip
"""What makes another run of it: what is shown, how it is asked, how an answer is read."""


def changed_configuration(audits: Audits, n: int, rng: Random) -> Outcome:
    """Give the command with another setting, in the folder of a run that is finished, or not."""
    outcome = Outcome("the command given again with another setting, in the same folder")
    for number in range(n):
        changed = CHANGED[number % len(CHANGED)]
        run = audits.copied()
        if number // len(CHANGED) % 2:
            rng.choice(sorted(run.glob("ratings/*.parquet"))).unlink()
        before = {path: path.read_bytes() for path in run.rglob("*.parquet")}
        code, line, n_asked = audits.run(run.name, changed)
        outcome.n += 1
        outcome.lines.append(line)
        if code != 2 or n_asked:
            outcome.n_wrong += 1
            outcome.faults.append(f"{changed}: ended in {code} and asked {n_asked}: {line!r}")
        if {path: path.read_bytes() for path in run.rglob("*.parquet")} != before:
            outcome.n_lost += 1
        shutil.rmtree(run)
    return outcome


FAULTS: Sequence[tuple[Callable[[Audits, int, Random], Outcome], int]] = (
    (killed_at_every_write, 120), (killed_at_random, 60), (full_disk, 40), (read_only, 20), (small_disk, 16),
    (torn, 100), (flipped, 300), (misplaced, 20), (beyond, 20), (foreign, 12), (edited, 12), (at_once, 20),
    (changed_configuration, 2 * len(CHANGED)),
)  # fmt: skip
"""Each fault, and how often the benchmark tries it."""
