"""Says how far something long is: a bar in a terminal, elsewhere a plain line now and then."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self, TextIO, TypeAlias

Say: TypeAlias = Callable[[str], None]
"""Takes a line about progress."""
LINE_EVERY: Final = 10.0
"""Seconds between two plain lines."""
_DRAW_EVERY: Final = 0.1
"""Least seconds between two drawings of the bar."""
_REDRAW_EVERY: Final = 1.0
"""Seconds after which the bar is drawn again though nothing has ended."""
_COLUMNS: Final = 80
"""Of a terminal that does not say how many it has: some containers, CI, and `script` without a terminal say 0."""


class Progress:
    """Counts what is done of a total; use as a context manager.

    A prompt may take several calls, its answer being the last of them. The count is of answers. Rate and time left are
    of all calls, so that they are known before the first answer, and of this session alone.

    Parameters
    ----------
    total
        What there is to do in all.
    there
        What of it was done before.
    unit
        What is counted, in the plural.
    name
        What it is done by or for; stands before the count.
    n_calls
        Calls that each takes.
    stream
        Where to say it; standard error unless given.
    clock
        Returns seconds.
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
        self._total, self._n = total, there
        self._unit, self._name, self._n_calls = unit, name, n_calls
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._part_start, self._part_end = there, total
        self._calls_of_part = 0  # of the part that is being done, those of earlier sessions too
        self._calls = 0  # of this session
        self._stage: tuple[str, int, int] | None = None
        self._said: tuple[float, int] | None = None  # when, and how much was done
        self._bar: Any = None
        self._over = threading.Event()
        self._redrawing: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Start the clock."""
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
        """Say how far it came."""
        self._over.set()
        if self._redrawing is not None:
            self._redrawing.join()
        if self._bar is not None:
            self._draw()
            self._bar.close()
        elif self._said is not None and self._said[1] != self._n:
            self._say()

    @contextmanager
    def part(self, size: int) -> Iterator[None]:
        """Do the next ``size``; once that has ended they count as done, whatever was told of them."""
        self._part_start, self._part_end = self._n, self._n + size
        self._calls_of_part, self._stage = 0, None
        yield
        self.done(self._part_end - self._n)
        self._part_start, self._part_end = self._n, self._total
        self._calls_of_part, self._stage = 0, None

    def stage(self, name: str) -> Callable[[int], None]:
        """Begin a call before the last one, of the whole part; return what is told how many more of it are done."""
        size = self._part_end - self._part_start
        self._stage = (name, 0, size)

        def done(n: int) -> None:
            _, before, _ = self._stage or (name, 0, size)
            n = min(n, size - before)
            self._stage = (name, before + n, size)
            self._calls_of_part += n
            self._calls += n
            self._show()

        return done

    def skip(self) -> None:
        """Count a call of the whole part as made before this session."""
        self._calls_of_part += self._part_end - self._part_start

    def done(self, n: int) -> None:
        """Count n more; within a part no more than it has."""
        n = min(n, self._part_end - self._n)
        if n <= 0:
            return
        self._stage = None
        self._n += n
        self._calls_of_part += n
        self._calls += n
        self._show()

    def __str__(self) -> str:
        """Return what is said: how much is done of all, how fast, and how long the rest may take."""
        text = f"{self._n:,} of {self._total:,} {self._unit}"
        if self._name:
            text = f"{self._name}: {text}"
        if self._stage is not None:
            name, n, size = self._stage
            text += f" ({name}: {n:,} of {size:,})"
        took = self._clock() - self._start
        if not self._calls or took <= 0:
            return text
        text += f", {_rate(self._calls / self._n_calls / took)} {self._unit}/s"
        left = (self._total - self._part_start) * self._n_calls - self._calls_of_part
        return f"{text}, about {duration(took / self._calls * left)} left" if left > 0 else text

    def _show(self) -> None:
        now = self._clock()
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


def _columns(terminal: TextIO) -> int:
    """Return how many columns a terminal has now."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns or _COLUMNS
    except OSError:
        return _COLUMNS


def duration(seconds: float) -> str:
    """Return a time in the one or two units that matter: "45 s", "1 min 50 s", "2 h 5 min", "3 d 4 h"."""
    whole = max(round(seconds), 1)
    for large, small, size in (("d", "h", 3600), ("h", "min", 60), ("min", "s", 1)):
        n, rest = divmod(round(whole / size), 24 if large == "d" else 60)
        if n:
            return f"{n:,} {large} {rest} {small}" if rest else f"{n:,} {large}"
    return f"{whole} s"


def _rate(per_second: float) -> str:
    """Return a rate to two significant digits, or without decimals."""
    if per_second >= 10:
        return f"{per_second:,.0f}"
    return f"{per_second:.1f}" if per_second >= 1 else f"{per_second:.2g}"
