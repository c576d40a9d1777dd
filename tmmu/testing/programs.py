"""Planners in any language: a program that is run for each problem, or one that answers a line for each.

The program is given a file, or its standard input, and writes a file, or its standard output. An exit code other than 0
is a refusal. A signal, a timeout and output that is no answer are failures. spec: TP5.1 to TP5.4
"""

from __future__ import annotations

import csv
import io
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tmmu.core import children, folders
from tmmu.core.reading import read_head
from tmmu.ir import text_writer
from tmmu.testing.answers import BadAnswer, Refusal
from tmmu.testing.buffer import TimedBuffer
from tmmu.testing.problems import BufferProblem, PlannerProblem, problem_of

IN, OUT, CAPACITY = "{in}", "{out}", "{capacity}"
"""What stands for the two files and for a capacity in a command."""
FORMATS = ("csv", "json")
MOST = 1 << 26
"""The most bytes of an answer that are read."""
OUTCOMES = 400
"""The most characters of a program's messages that are shown."""


def write_csv(buffers: Sequence[TimedBuffer]) -> str:
    """Return buffers as MiniMalloc's CSV: `upper` and the end of a gap are excluded. spec: TP5.1

    >>> print(write_csv([TimedBuffer("b0", 0, 3, 64)]), end="")
    id,lower,upper,size
    b0,0,4,64
    """
    optional = {
        "alignment": any(b.alignment != 1 for b in buffers),
        "gaps": any(b.gaps for b in buffers),
        "offset": any(b.offset is not None for b in buffers),
    }
    columns = ["id", "lower", "upper", "size", *(name for name, stated in optional.items() if stated)]
    out = io.StringIO()
    rows = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    rows.writeheader()
    for b in buffers:
        gaps = " ".join(f"{low}-{high + 1}" for low, high in b.gaps)
        fixed = "" if b.offset is None else b.offset
        rows.writerow({
            "id": b.name, "lower": b.first, "upper": b.last + 1, "size": b.bytes, "alignment": b.alignment,
            "gaps": gaps, "offset": fixed,
        })  # fmt: skip
    return out.getvalue()


def write_input(problem: PlannerProblem, form: str, capacity: int | None = None) -> tuple[str, str]:
    """Return what a program is given, and the suffix of the file: buffers as CSV or JSON, graphs as text models."""
    if isinstance(problem, BufferProblem):
        if form == "csv":
            return write_csv(problem.buffers), ".csv"
        return json.dumps(_document(problem, capacity)) + "\n", ".json"
    assert hasattr(problem, "model")
    return text_writer.write(problem.model), ".ir.txt"


def _document(problem: PlannerProblem, capacity: int | None) -> dict[str, Any]:
    stated = {} if capacity is None else {"capacity": capacity}
    if isinstance(problem, BufferProblem):
        return {"buffers": problem.document(), **stated}
    assert hasattr(problem, "model")
    return {"model": text_writer.write(problem.model), **stated}


@dataclass
class ProgramPlanner:
    """A command that is run for each problem. It may contain `{in}`, `{out}` and `{capacity}`."""

    command: Sequence[str]
    form: str = "csv"
    timeout: float = 10.0

    @property
    def takes_capacity(self) -> bool:
        """Whether the command states a capacity."""
        return any(CAPACITY in word for word in self.command)

    def __call__(self, given: Any, capacity: int | None = None) -> str:
        """Return what the program writes. Raises Refusal for an exit code, BadAnswer for a crash or a timeout."""
        text, suffix = write_input(problem_of(given), self.form, capacity)
        with tempfile.TemporaryDirectory(prefix="tmmu-", dir=folders.temporary_folder()) as name:
            source, target = Path(name, f"problem{suffix}"), Path(name, "answer")
            source.write_text(text, encoding="utf-8")
            places = {IN: str(source), OUT: str(target), CAPACITY: "" if capacity is None else str(capacity)}
            command = [_filled(word, places) for word in self.command]
            takes_file = any(IN in word for word in self.command)
            writes_file = any(OUT in word for word in self.command)
            printed, messages = self._run(command, None if takes_file else text)
            if not writes_file:
                return printed
            try:
                return read_head(target, MOST).decode()
            except FileNotFoundError:
                raise BadAnswer(f"it ended with exit code 0 and wrote no {OUT}{_shown(messages)}") from None
            except OSError as error:
                raise BadAnswer(f"what it wrote cannot be read ({error.strerror})") from error
            except UnicodeDecodeError as error:
                raise BadAnswer(f"it wrote a file that is no UTF-8 ({error.reason} at byte {error.start})") from error

    def _run(self, command: list[str], given: str | None) -> tuple[str, str]:
        """Run it; return what it printed on both streams."""
        process = children.start(
            command, stdin=subprocess.DEVNULL if given is None else subprocess.PIPE, stderr=subprocess.PIPE,
            is_leader=True,
        )  # fmt: skip
        try:
            printed, messages = process.communicate(None if given is None else given.encode(), self.timeout)
        except subprocess.TimeoutExpired:
            _kill(process)
            raise BadAnswer(f"it has no answer after {self.timeout:g} s") from None
        finally:
            if process.poll() is None:
                _kill(process)
        printed_errors = messages.decode(errors="replace")
        _check_exit(process.returncode, printed_errors)
        return printed[:MOST].decode(errors="replace"), printed_errors


def _filled(word: str, places: dict[str, str]) -> str:
    for mark, place in places.items():
        word = word.replace(mark, place)
    return word


def _check_exit(code: int, messages: str) -> None:
    """Raise for an end other than exit code 0."""
    if code < 0:
        raise BadAnswer(f"it was ended by {_signal(-code)}{_shown(messages)}")
    if code:
        raise Refusal(f"it ended with exit code {code}{_shown(messages)}")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _shown(messages: str) -> str:
    """Return the last line of a program's messages."""
    lines = messages.strip().splitlines()
    return f": {lines[-1][:OUTCOMES]}" if lines else ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a program and what it started."""
    children.release(process)
    process.communicate()


@dataclass
class BatchProgram:
    """A program that is started once and answers each problem, a line of JSON, with a line. spec: TP5.3

    A problem is `{"buffers": […]}` or `{"model": "…"}`, with a `capacity` if there is one. An answer is offsets by
    name, a list of offsets, or `{"error": "…"}`, which is a refusal. It is started again after a crash or a timeout.
    """

    command: Sequence[str]
    timeout: float = 10.0
    takes_capacity: bool = False
    _process: subprocess.Popen[bytes] | None = None
    _unread: bytearray = field(default_factory=bytearray)
    _messages: IO[bytes] | None = None

    def __call__(self, given: Any, capacity: int | None = None) -> str:
        """Return the line that answers a problem. Raises Refusal for an error that it states, BadAnswer otherwise."""
        process = self._started()
        assert process.stdin is not None
        question = json.dumps(_document(problem_of(given), capacity)) + "\n"
        try:
            process.stdin.write(question.encode())
            process.stdin.flush()
            line = self._line(time.monotonic() + self.timeout)
        except BrokenPipeError:
            line = ""
        if line is None:
            self.close()
            raise BadAnswer(f"it has no answer after {self.timeout:g} s")
        if not line:
            code = process.wait()
            printed_errors = self._printed_errors()
            self.close()
            if code < 0:
                raise BadAnswer(f"it was ended by {_signal(-code)}{_shown(printed_errors)}")
            raise BadAnswer(f"it ended with exit code {code} before it answered{_shown(printed_errors)}")
        if self._unread:
            rest = self._unread.decode(errors="replace").splitlines()
            self.close()
            raise BadAnswer(f"it wrote {line[:60]!r} and then {rest[0][:60]!r}; expected one line for each problem")
        if line.lstrip().startswith('{"error"'):
            raise Refusal(_stated_error(line))
        return line

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._messages = tempfile.TemporaryFile(dir=folders.temporary_folder())  # noqa: SIM115  # it stays open
            self._process = children.start(
                list(self.command), stdin=subprocess.PIPE, stderr=self._messages, is_leader=True
            )
            self._unread.clear()
        return self._process

    def _line(self, until: float) -> str | None:
        """Return a line, "" at the end of the output, None if there is no line in time."""
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if len(self._unread) > MOST or not selector.select(max(0.0, until - time.monotonic())):
                    return None
                more = os.read(self._process.stdout.fileno(), 1 << 16)
                if not more:
                    return ""
                self._unread += more
        line, _, rest = bytes(self._unread).partition(b"\n")
        self._unread[:] = rest
        return line.decode(errors="replace") or " "

    def _printed_errors(self) -> str:
        if self._messages is None:
            return ""
        self._messages.seek(0)
        return self._messages.read(MOST).decode(errors="replace")

    def close(self) -> None:
        """End the program."""
        if self._process is not None:
            _kill(self._process)
            self._process = None
        if self._messages is not None:
            self._messages.close()
            self._messages = None


def _stated_error(line: str) -> str:
    try:
        return f"it states an error: {json.loads(line)['error']}"
    except (ValueError, KeyError, TypeError):
        return f"it states an error: {line[:OUTCOMES]}"
