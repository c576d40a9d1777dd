"""Show the progress of a long command on the standard error: a bar on a terminal, a line every half minute in a pipe.

Use `with progress(name) as doing:` and, in it, `doing(phase, done, total)`. A short command shows nothing, and does not
load the drawing library. Lines that `tmmu.core.output` prints meanwhile appear above the bar. The time that is left of
a phase follows from the part that is done; of a phase that cannot count, from the last time. spec: C5.1, C5.2, C5.12
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from tmmu.core import output
from tmmu.core.phase_times import RECORDED_S, PhaseTime, estimate_seconds, load_times, name_phase, save_times

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE_S = 0.5
"""Work that takes less is not shown on a terminal."""
INTERVAL_S = 30.0
"""Seconds between lines in a pipe."""
FRAME_S = 0.1
"""Seconds between frames of the bar."""


class Doing(Protocol):
    """The callback by which long work reports: a phase, and how much of the total is done, if known."""

    def __call__(self, phase: str, done: int = 0, total: int = 0) -> None:
        """Begin a phase, or continue it."""


def report_nothing(phase: str, done: int = 0, total: int = 0) -> None:
    """Report nothing; a `Doing` for silent work."""


def format_duration(seconds: float) -> str:
    """Format a time span.

    >>> format_duration(5.2), format_duration(65), format_duration(3700)
    ('0:05', '1:05', '1:01:40')
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


class progress:  # noqa: N801  # it is called as a function
    """Show the work on `name` until the block ends; it is called with each phase.

    >>> with progress("m.onnx") as doing:
    ...     doing("planning", 1, 3)
    """

    def __init__(self, name: str) -> None:
        self.name, self.phase, self.done, self.total = name, "", 0, 0
        self.begun = self.phase_begun = time.monotonic()
        self._stream: TextIO | None = sys.stderr
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._bar: Progress | None = None
        self._size: int | None = None
        self._known: dict[str, PhaseTime] | None = None
        self._taken: dict[str, PhaseTime] = {}
        on_terminal = output.is_terminal(self._stream)
        self._thread = threading.Thread(target=self._draw if on_terminal else self._print, daemon=True)

    def __call__(self, phase: str, done: int = 0, total: int = 0) -> None:
        """Begin a phase, or continue it."""
        if phase != self.phase:
            self._note_phase()
            self.phase_begun = time.monotonic()
        self.phase, self.done, self.total = phase, done, total

    def __enter__(self) -> Self:
        if self._stream is not None:
            output.ABOVE.append(self.hide)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the bar; it is wiped when this returns."""
        self._ended.set()
        if self._stream is not None:
            self._thread.join()
            output.ABOVE.remove(self.hide)
        if kind is None:
            self._note_phase()
            save_times(self._taken)

    def what(self) -> str:
        """Return the phase, and how much of it is done."""
        of = f", {self.done} of {self.total}" if self.total else ""
        return output.escape_line(f"{self.name}: {self.phase or 'beginning'}{of}")

    def times(self) -> str:
        """Return the time passed, and an estimate of the rest of the phase."""
        now = time.monotonic()
        passed = f"{format_duration(now - self.begun)} passed"
        if 0 < self.done < self.total:
            left = (now - self.phase_begun) * (self.total - self.done) / self.done
            return f"{passed}, about {format_duration(left)} left"
        if self._known is None:
            self._known = load_times()
        whole = None if self.total else estimate_seconds(self._known.get(name_phase(self.phase)), self._measure_file())
        left = 0.0 if whole is None else whole - (now - self.phase_begun)
        return f"{passed}, about {format_duration(left)} left, as the last time" if left >= 1 else passed

    def _measure_file(self) -> int:
        """Return the bytes of the file that the work is on, 0 if it is on something else."""
        if self._size is None:
            try:
                self._size = os.path.getsize(self.name) if os.path.isfile(self.name) else 0
            except (OSError, ValueError):
                self._size = 0
        return self._size

    def _note_phase(self) -> None:
        """Note how long the phase took that ends now, unless it counted what it did."""
        seconds = time.monotonic() - self.phase_begun
        if self.phase and not self.total and seconds >= RECORDED_S:
            self._taken[name_phase(self.phase)] = PhaseTime(seconds, self._measure_file())

    @contextmanager
    def hide(self) -> Iterator[None]:
        """Wipe the bar, and draw nothing until the block ends."""
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
            yield

    def _print(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            output.print_lines(f"{self.what()}; {self.times()}", err=True)

    def _draw(self) -> None:
        if self._ended.wait(PATIENCE_S):
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
        from rich.table import Column

        short = Column(no_wrap=True, overflow="ellipsis")  # a part of a name never begins a line
        columns = (
            SpinnerColumn("line"), TextColumn("{task.description}", markup=False, table_column=short),
            BarColumn(bar_width=20), TextColumn("{task.fields[times]}", markup=False, table_column=short.copy()),
        )  # fmt: skip
        console = Console(file=self._stream, force_terminal=True, no_color="NO_COLOR" in os.environ or None)
        bar = Progress(
            *columns, console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        task = bar.add_task("", total=None, times="")
        self._bar = bar
        while True:
            with self._lock:
                bar.start()
                bar.update(
                    task, description=self.what(), completed=self.done, total=self.total or None, times=self.times()
                )
                bar.refresh()
            if self._ended.wait(FRAME_S):
                break
        with self._lock:
            bar.stop()
