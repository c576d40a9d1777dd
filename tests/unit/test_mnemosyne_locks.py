"""Locks and the detector of data races: what it finds, whatever the order, and what it leaves alone.

spec: MN7.2 to MN7.7
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.lock_logs import ROOT
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne.locks import DataRace, RaceDetector
from tmmu.mnemosyne.regions import RegionStore

Accesses = tuple[str, str, int, int]
"""Locks (with capitals as a reader), "r" or "w", and the bytes."""

NO = ""
PAIRS: dict[str, tuple[Accesses, Accesses, bool]] = {
    "two writes without a lock": ((NO, "w", 0, 4), (NO, "w", 3, 9), True),
    "two reads without a lock": ((NO, "r", 0, 4), (NO, "r", 3, 9), False),
    "a read without a lock": (("a", "w", 0, 4), (NO, "r", 3, 9), True),
    "bytes beside each other": ((NO, "w", 0, 4), (NO, "w", 4, 9), False),
    "sets that overlap in part": (("ab", "w", 0, 4), ("bc", "w", 0, 4), False),
    "disjoint sets": (("a", "w", 0, 4), ("c", "w", 0, 4), True),
    "a reader and a writer of one lock": (("A", "r", 0, 4), ("a", "w", 0, 4), False),
    "two readers of one lock that write": (("A", "w", 0, 4), ("A", "w", 0, 4), True),
    "a reader of one lock that writes beside one that reads": (("A", "w", 0, 4), ("A", "r", 0, 4), True),
    "the lock of an earlier section": (("a", "w", 0, 4), (NO, "w", 0, 4), True),
}


def does(detector: RaceDetector, each: Accesses) -> None:
    locks, kind, start, stop = each
    held = [detector.lock(name) for name in locks.lower()]
    if not held:
        detector.access("file", start, stop, is_write=kind == "w")
        return
    with detector.hold(*held, as_reader=locks.isupper()):
        detector.access("file", start, stop, is_write=kind == "w")


def ends(*work: Callable[[], object]) -> None:
    """Each in a thread of its own, all begun before the first goes on, one after the other."""
    turns = [threading.Event() for _ in work]

    def run(at: int) -> None:
        turns[at].wait()
        work[at]()

    threads = [threading.Thread(target=run, args=(at,), name=f"thread {at}") for at in range(len(work))]
    for thread in threads:
        thread.start()
    for turn, thread in zip(turns, threads, strict=True):
        turn.set()
        thread.join()


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_race_is_found_in_either_order_and_nothing_else_is(name: str, is_swapped: bool) -> None:
    """No thread of these was ever waiting for another. spec: MN7.4, MN7.5, MN7.6"""
    first, second, races = PAIRS[name]
    if is_swapped:
        first, second = second, first
    detector, found = RaceDetector(), list[DataRace]()

    def checked() -> None:
        try:
            does(detector, second)
        except DataRace as race:
            found.append(race)

    ends(lambda: does(detector, first), checked)
    assert (len(found), found) == (int(races), detector.races)


def test_a_race_names_both_lines_threads_and_sets_of_locks() -> None:
    """spec: MN7.5"""
    detector = RaceDetector()

    def write() -> None:
        with detector.hold(detector.lock("b"), detector.lock("a")):
            detector.access("file", 10, 20, is_write=True)

    def read() -> None:
        with pytest.raises(DataRace) as caught, detector.hold(detector.lock("c"), as_reader=True):
            detector.access("file", 15, 30, is_write=False)
        race = caught.value
        lines = [write.__code__.co_firstlineno + 2, read.__code__.co_firstlineno + 2]
        assert [race.first.site, race.second.site] == [f"{__file__}:{line}" for line in lines]
        assert race.diagnostics == {"first": race.first.site, "second": race.second.site}
        assert str(race) == (
            f"file: bytes 15 to 20 are written at {__file__}:{lines[0]} by thread 0 under {{a, b}}, and read at "
            f"{__file__}:{lines[1]} by thread 1 under {{c as a reader}}; hold one lock at both, or join the thread "
            "[DATA_RACE]"
        )

    ends(write, read)
    assert len(detector.races) == 1


def test_sets_of_which_any_two_meet_are_no_race() -> None:
    """There is no lock that guards the byte, as Eraser would have it. spec: MN7.6"""
    detector = RaceDetector()
    ends(*(lambda each=each: does(detector, (each, "w", 0, 1)) for each in ("ab", "bc", "ac", "ab")))  # type: ignore[misc]
    assert detector.races == []


def test_a_start_and_a_join_order_what_is_before_and_after_and_nothing_else_does() -> None:
    """A number that the system gives to two threads, one after the other, is not one thread. spec: MN7.4"""
    detector = RaceDetector()
    detector.access("file", 0, 8, is_write=True)
    thread = detector.thread(does, detector, ("", "w", 0, 8))
    thread.start()
    thread.join()
    detector.access("file", 0, 8, is_write=True)
    assert detector.races == []
    other = detector.thread(does, detector, ("", "w", 20, 21), name="other")
    other.start()
    while other.is_alive():  # it has ended then, but nobody has waited for that
        time.sleep(0.001)
    with pytest.raises(DataRace):
        detector.access("file", 20, 21, is_write=True)
    other.join(0.0)
    detector.access("file", 20, 21, is_write=True)
    plain = RaceDetector()
    for _ in range(2):  # joined, but not by the detector
        last = threading.Thread(target=lambda: does(plain, ("", "w", 0, 1)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threading, "excepthook", lambda _: None)
            last.start()
            last.join()
    assert len(plain.races) == 1


def test_locks_are_given_in_the_order_in_which_they_were_asked_for_and_readers_together() -> None:
    """spec: MN7.2"""
    detector = RaceDetector()
    lock, got = detector.lock("a"), list[str]()
    together = threading.Barrier(2)

    def holds(name: str) -> None:
        with detector.hold(lock, as_reader=name.isupper()):
            if name.isupper():
                together.wait(30)
            got.append(name.lower())

    threads = [threading.Thread(target=holds, args=(name,)) for name in "xyRRz"]
    with detector.hold(lock):
        for n, thread in enumerate(threads, 1):
            thread.start()
            while len(lock._queue) < n:
                time.sleep(0.001)
    for thread in threads:
        thread.join(30)
    assert got == list("xyrrz")


def test_a_section_takes_all_its_locks_at_once() -> None:
    """Or two threads could wait for each other. spec: MN7.2"""
    detector = RaceDetector()
    a, b = detector.lock("a"), detector.lock("b")
    with detector.hold(b), pytest.raises(ValueError, match="all locks of the section"), detector.hold(a):
        pass
    with pytest.raises(ValueError, match="all locks of the section"), detector.hold():
        pass
    with detector.hold(b, a, b):  # nothing is left held
        assert detector.lock("a") is a
    with pytest.raises(ValueError, match="bytes 3 to 2"):
        detector.access("file", 3, 2, is_write=False)


HOLDS = """
import os, sys, time
from tmmu.mnemosyne.locks import RaceDetector
detector = RaceDetector()
with detector.hold(detector.lock("a", sys.argv[1]), as_reader=sys.argv[2] == "reader"):
    print("holds", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("other", ["reader", "writer"])
def test_a_lock_with_a_file_excludes_other_processes_until_they_are_killed(tmp_path: Path, other: str) -> None:
    """spec: MN7.3"""
    file, detector, got = tmp_path / "lock", RaceDetector(), list[str]()
    lock = detector.lock("a", file)

    def take(as_reader: bool) -> None:
        with detector.hold(lock, as_reader=as_reader):
            got.append("reader" if as_reader else "writer")

    command = [sys.executable, "-c", HOLDS, str(file), other]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "holds\n"
            if other == "reader":
                take(True)
            thread = threading.Thread(target=take, args=(False,))
            thread.start()
            thread.join(0.1)
            assert got == (["reader"] if other == "reader" else [])
        finally:
            child.kill()
        thread.join(60)
    assert got[-1] == "writer"
    with pytest.raises(ValueError, match="another file"):
        detector.lock("a", tmp_path / "other")
    nowhere = detector.lock("b", tmp_path / "none" / "lock")
    with pytest.raises(TmmuError, match="No such file"), detector.hold(lock, nowhere):
        pass
    take(False)  # given back


def test_the_arrays_of_regions_are_accesses_to_the_bytes_of_their_file(tmp_path: Path) -> None:
    """`writing` under a lock that ends before it is one without it. spec: MN7.7"""
    (tmp_path / "f").write_bytes(bytes(3 * 16384))
    detector = RaceDetector()
    lock = detector.lock("a")
    with RegionStore(races=detector) as store:
        whole = store.map(tmp_path / "f", is_writable=True)
        rest = store.map(tmp_path / "f", 16384)

        def write() -> None:
            with detector.hold(lock), whole.write_checked(16384, 16384 + 8, "<u4") as array:
                array[:] = 7

        def read(start: int) -> int:
            with detector.hold(lock, as_reader=True), rest.reading(start, start + 4, "<u4") as array:
                assert not array.flags.writeable
                return int(array[0])

        ends(write, lambda: read(0))
        assert (read(0), detector.races) == (7, [])

        def unlocked(region: str, start: int) -> None:
            with pytest.raises(DataRace, match=f"bytes {start + 4} to {start + 8} are written at"):
                (whole if region == "whole" else rest).view(start + 4 - (16384 if region == "rest" else 0), None)

        ends(lambda: unlocked("rest", 16384), lambda: unlocked("whole", 16384))

        def too_early() -> None:
            with detector.hold(lock):
                array = whole.write_checked(0, 4)
                array.__enter__()
            with pytest.raises(DataRace):
                array.__exit__(None, None, None)

        def reads() -> None:
            with detector.hold(lock), whole.reading(0, 4):
                pass

        ends(reads, too_early)
        with pytest.raises(ValueError, match="not mapped for writing"):
            rest.write_checked()
