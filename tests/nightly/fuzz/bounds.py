"""One input under the bounds of every reader: which exceptions may end it, and how much time and memory it may take.

The assertion is that of `spec/reliability.md`: an input is read, or refused by an error that names the file. Anything
else is a finding, also where it was caught and the command went on. spec: RE6.1, RE6.2
"""

from __future__ import annotations

import hashlib
import re
import resource
import time
import traceback
from collections.abc import Callable
from typing import NamedTuple

from tmmu.core import process

MEMORY_BASE, MEMORY_PER_BYTE = 64 << 20, 20
"""The bytes of memory that an input may take: so many, and so many for each of its bytes."""
SECONDS = 10.0
"""The longest time for an input of any size. Processor time: the machine may do other work."""
SLOW_BASE, SLOW_PER_BYTE = 2.0, 100e-6
"""The time that is linear in the size of an input, instrumentation included."""


class ReaderTarget(NamedTuple):
    """A reader: its name, the call that reads bytes, the errors that may refuse them, and the mutator of its notation.

    `write` makes a right file of n parts, so that its time can be compared with that of a larger one.
    """

    name: str
    read: Callable[[bytes], None]
    refuses: tuple[type[BaseException], ...]
    mutate: Callable[..., bytes]
    stretch: Callable[[bytes, int], bytes] | None = None


class Finding(NamedTuple):
    """An input that breaks a bound: the reader, what happened, a key for the same cause, and the traceback."""

    reader: str
    what: str
    key: str
    text: str
    data: bytes


class WrongEnd(Exception):
    """A command ended with another exit code than 0 to 4."""


def run_input(target: ReaderTarget, data: bytes) -> Finding | None:
    """Read an input and return what is wrong with that, if anything."""
    seen: list[BaseException] = []
    process.OBSERVERS.append(seen.append)
    peak, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    try:
        target.read(data)
    except target.refuses:
        pass
    except Exception as error:
        seen.append(error)
    finally:
        process.OBSERVERS.remove(seen.append)
    taken = time.process_time() - begin
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) << 10
    if seen:
        return _of_exception(target.name, seen[0], data)
    if taken > min(SECONDS, SLOW_BASE + SLOW_PER_BYTE * len(data)):
        return Finding(target.name, "slow", f"slow-{len(data).bit_length()}", f"{taken:.2f} s, {len(data)} bytes", data)
    if grown > MEMORY_BASE + MEMORY_PER_BYTE * len(data):
        text = f"{grown >> 20} MiB more, {len(data)} bytes"
        return Finding(target.name, "memory", f"memory-{grown.bit_length()}", text, data)
    return None


def _of_exception(reader: str, error: BaseException, data: bytes) -> Finding:
    frames = [
        f"{frame.filename.rsplit('/', 1)[-1]}:{frame.name}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    ours = [frame for frame in frames if not frame.startswith(("bounds.py", "targets.py"))]
    said = re.sub(r"0x[0-9a-f]+|\d+", "N", str(error))[:80] if isinstance(error, WrongEnd) else ""
    key = f"{type(error).__name__} {said} {' '.join(ours[-2:])}"
    return Finding(reader, "exception", key, "".join(traceback.format_exception(error))[-6000:], data)


def file_of(finding: Finding) -> str:
    """Return the name of the file of a finding: one for each cause."""
    return f"{finding.reader}-{hashlib.sha256(finding.key.encode()).hexdigest()[:12]}"
