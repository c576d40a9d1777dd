"""Event logs of threads that read and write bytes under locks, in one process and in several."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tmmu.mnemosyne.locks import RaceDetector
from tmmu.runtime.events import EventLog

ROOT = Path(__file__).resolve().parents[2]

PROCESS = """
import os, signal, sys, time
from pathlib import Path
from tmmu.mnemosyne.locks import RaceDetector
from tmmu.runtime.events import EventLog
folder, end = Path(sys.argv[1]), sys.argv[2]
detector = RaceDetector(EventLog(folder / "run.events"))
table, index = (detector.lock(name, folder / name) for name in ("table", "index"))
def write():
    for at in range(3):
        with detector.hold(index, table):
            detector.access("file", at, at + 2, is_write=True)
            time.sleep(0.001)
def read():
    for at in range(3):
        with detector.hold(table, as_reader=True):
            detector.access("file", 0, 5, is_write=False)
threads = [detector.thread(does) for does in (write, read, read)]
for thread in threads: thread.start()
for thread in threads: thread.join()
if end == "killed":
    with detector.hold(table):
        detector.access("file", 0, 9, is_write=True)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def in_threads(folder: Path) -> Path:
    """Three threads, whose sets of locks overlap in part, and one that reads what none writes."""
    log = folder / "run.events"
    detector = RaceDetector(EventLog(log))
    a, b, c = (detector.lock(name) for name in "abc")

    def write_ab() -> None:
        for _ in range(2):
            with detector.hold(b, a):
                detector.access("x", 0, 10, is_write=True)
                detector.access("x", 5, 8, is_write=False)

    def write_bc() -> None:
        for _ in range(2):
            with detector.hold(b, c):
                detector.access("x", 5, 15, is_write=True)

    def read_a() -> None:
        for _ in range(2):
            with detector.hold(a, as_reader=True):
                detector.access("x", 0, 5, is_write=False)
            detector.access("y", 0, 5, is_write=False)
            with detector.hold(c):
                pass

    threads = [detector.thread(does) for does in (write_ab, write_bc, read_a, read_a)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert detector.races == []
    return log


def in_processes(folder: Path) -> Path:
    """Three processes at one time, of which one is killed while it holds a lock, and one more after them."""
    command = [sys.executable, "-c", PROCESS, str(folder)]
    running = [subprocess.Popen([*command, end], cwd=ROOT) for end in ("ends", "killed", "ends")]
    assert sorted(process.wait(60) for process in running) == [-signal.SIGKILL, 0, 0]
    subprocess.run([*command, "ends"], check=True, cwd=ROOT)
    return folder / "run.events"
