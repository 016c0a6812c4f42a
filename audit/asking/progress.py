"""Progress: a bar in a terminal, a plain line from time to time elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self, TextIO, TypeAlias

Say: TypeAlias = Callable[[str], None]  # gets a line about progress
LINE_EVERY: Final = 10.0  # seconds between two plain lines
_DRAW_EVERY: Final = 0.1  # minimum seconds between two drawings of the bar
_REDRAW_EVERY: Final = 1.0  # seconds after which the bar is redrawn although nothing has ended
_WARM_S: Final = 1.0  # seconds after the first count before a rate is known
_COLUMNS: Final = 80  # columns of a terminal that reports 0: some containers, CI, and `script` without a terminal


class ProgressPart:
    """A part of the work, done together; several may be under way at once. A context manager."""

    def __init__(self, progress: Progress, size: int) -> None:
        self._progress, self._size = progress, size
        self._skipped = self._whole = 0  # calls of earlier sessions; calls of this session that have ended
        self._call: tuple[str, int] | None = None  # the call under way: its name, and prompts done

    def __enter__(self) -> Self:
        self._progress._parts.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._end_call()
        self._progress._end(self, whole=kind is None)

    def call(self, name: str = "") -> Callable[[int], None]:
        """Begin a call of the whole part and return a counter of prompts done; the same name restarts the count."""
        if self._call is not None and self._call[0] != name:
            self._end_call()
        self._call = (name, 0)
        return lambda n: self._count(name, n)

    def skip(self) -> None:
        """Count a call of the whole part as made in an earlier session."""
        self._skipped += self._size

    def _count(self, name: str, n: int) -> None:
        if self._call is None or self._call[0] != name:
            return
        before = self._call[1]
        self._call = (name, min(before + n, self._size))
        if self._call[1] != before:
            self._progress._show()

    def _end_call(self) -> None:
        if self._call is not None:
            self._whole += self._size
        self._call = None

    @property
    def answered(self) -> int:
        """Prompts with an answer."""
        return self._call[1] if self._call is not None and not self._call[0] else 0

    @property
    def stage(self) -> tuple[str, int, int] | None:
        """The call under way before the answer's: its name, prompts done and prompts in all; None if there is none."""
        return (*self._call, self._size) if self._call is not None and self._call[0] else None

    @property
    def calls(self) -> int:
        """Calls of this session."""
        return self._whole + (self._call[1] if self._call is not None else 0)

    @property
    def skipped(self) -> int:
        """Calls of earlier sessions."""
        return self._skipped


class Progress:
    """Counts work done out of a total; a context manager.

    A prompt may take several calls (``n_calls``), the last of which is its answer. The count is of answers. Rate and
    time left are of calls, so that they are known before the first answer, and of this session only. The rate is
    measured from the first count, because the first batch also warms the model up; at the end it is of all.
    """

    def __init__(
        self,
        total: int,
        *,
        there: int = 0,
        unit: str = "prompts",
        name: str = "",
        n_calls: int = 1,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total, self._ended = total, there
        self._unit, self._name, self._n_calls = unit, name, n_calls
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._calls = 0  # of this session, in ended parts
        self._parts: list[ProgressPart] = []  # under way
        self._said: tuple[float, int] | None = None  # time, and how much was done
        self._first: tuple[float, int] | None = None  # time of the first count, and the calls counted then
        self._bar: Any = None
        self._over = threading.Event()
        self._redrawing: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._start = self._clock()
        if self._stream.isatty():
            from tqdm import tqdm

            layout = "{percentage:3.0f}%|{bar}| {desc} [{elapsed}]"
            self._bar = tqdm(
                total=self._total, initial=self._n, file=self._stream, bar_format=layout, ncols=_columns(self._stream)
            )
            self._draw()
            self._redrawing = threading.Thread(target=self._redraw, daemon=True)
            self._redrawing.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._redrawing is not None:
            self._redrawing.join()
        if self._bar is not None:
            self._draw()
            self._bar.close()
        elif self._said is not None and self._said[1] != self._n:
            self._say()

    def part(self, size: int) -> ProgressPart:
        """Return a part of this size, to be entered."""
        return ProgressPart(self, size)

    def done(self, n: int) -> None:
        """Count n more that belong to no part."""
        n = min(n, self._total - self._n)
        if n <= 0:
            return
        self._ended += n
        self._calls += n
        self._show()

    def _end(self, part: ProgressPart, *, whole: bool) -> None:
        self._parts.remove(part)
        before = self._n + part.answered
        self._ended += part._size if whole else part.answered
        self._calls += part.calls
        if self._n != before:
            self._show()

    @property
    def _n(self) -> int:
        return self._ended + sum(part.answered for part in list(self._parts))

    def __str__(self) -> str:
        """Return the progress line: how much is done, how fast, and the time left."""
        parts = list(self._parts)
        text = f"{self._n:,} of {self._total:,} {self._unit}"
        if self._name:
            text = f"{self._name}: {text}"
        under_way: dict[str, tuple[int, int]] = {}
        for name, n, size in (part.stage for part in parts if part.stage is not None):
            others = under_way.get(name, (0, 0))
            under_way[name] = (others[0] + n, others[1] + size)
        if under_way:
            text += f" ({', '.join(f'{name}: {n:,} of {size:,}' for name, (n, size) in under_way.items())})"
        of_parts = sum(part.calls + part.skipped for part in parts)
        left = (self._total - self._ended) * self._n_calls - of_parts
        since, before = (self._start, 0) if left <= 0 or self._first is None else self._first
        took, calls = self._clock() - since, self._n_called - before
        if calls <= 0 or took <= 0 or (left > 0 and took < _WARM_S):
            return text
        text += f", {_rate(calls / self._n_calls / took)} {self._unit}/s"
        return f"{text}, about {duration(took / calls * left)} left" if left > 0 else text

    @property
    def _n_called(self) -> int:
        return self._calls + sum(part.calls for part in list(self._parts))

    def _show(self) -> None:
        now = self._clock()
        if self._first is None:
            self._first = now, self._n_called
        every = LINE_EVERY if self._bar is None else _DRAW_EVERY
        if self._said is not None and now - self._said[0] < every:
            return
        if self._bar is None:
            self._say()
        else:
            self._draw()

    def _say(self) -> None:
        self._said = (self._clock(), self._n)
        print(self, file=self._stream, flush=True)

    def _draw(self) -> None:
        self._said = (self._clock(), self._n)
        self._bar.n = self._n
        self._bar.ncols = _columns(self._stream)
        self._bar.set_description_str(str(self), refresh=True)

    def _redraw(self) -> None:
        while not self._over.wait(_REDRAW_EVERY):
            self._draw()


def beside_bars(say: Say) -> Say:
    """Wrap ``say`` so that a progress bar moves below the printed line."""

    def said(line: str) -> None:
        from tqdm import tqdm

        with tqdm.external_write_mode(file=sys.stderr):
            say(line)

    return said


def _columns(terminal: TextIO) -> int:
    """Return a terminal's current number of columns."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns or _COLUMNS
    except OSError:
        return _COLUMNS


def duration(seconds: float) -> str:
    """Return a time in its one or two largest units: "45 s", "1 min 50 s", "2 h 5 min", "3 d 4 h"."""
    whole = max(round(seconds), 1)
    for large, small, size in (("d", "h", 3600), ("h", "min", 60), ("min", "s", 1)):
        n, rest = divmod(round(whole / size), 24 if large == "d" else 60)
        if n:
            return f"{n:,} {large} {rest} {small}" if rest else f"{n:,} {large}"
    return f"{whole} s"


def _rate(per_second: float) -> str:
    """Return a rate with two significant digits, or without decimals."""
    if per_second >= 10:
        return f"{per_second:,.0f}"
    return f"{per_second:.1f}" if per_second >= 1 else f"{per_second:.2g}"
