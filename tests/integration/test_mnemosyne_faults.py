"""Files truncated under a mapping, in processes of their own: the access that would end them is an error in place.

spec: MN2.5, MN2.6
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PREPARE = """
import ctypes, os, signal, sys, threading
import numpy as np
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne.address_space import PAGE, TILE
from tmmu.mnemosyne.regions import RegionStore

path, size = sys.argv[1], 64 * TILE
with open(path, "wb") as file:
    file.write(bytes([7]) * size)
store = RegionStore()

def code(call):
    try:
        call()
    except TmmuError as error:
        return error.code_id
"""


def run(script: str, path: Path) -> subprocess.CompletedProcess[str]:
    """A process of its own, that ends by itself; one that would repeat an access for ever is ended after a minute."""
    command = [sys.executable, "-c", PREPARE + script, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


READS = {
    "copy": "view.tobytes()[-1]",
    "sum without the interpreter's lock": "int(view.view(np.float64).sum())",
    "element": "view[size - 1]",
    "memoryview": "memoryview(view)[TILE]",
    "comparison": "bytes(view) != bytes(size)",
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_an_access_beyond_the_end_reads_zeros_and_the_next_is_an_error(read: str, tmp_path: Path) -> None:
    script = f"""
region = store.map(path)
view = region.view()
os.truncate(path, 0)
whole = store.map(os.__file__).view()
result = {read}
assert result == 0
assert not view.any()
assert code(region.check) == "REGION_LOST"
assert code(region.view) == "REGION_LOST"
assert whole.any()
print("went on")
"""
    ended = run(script, tmp_path / "f")
    assert (ended.returncode, ended.stdout) == (0, "went on\n"), ended.stderr


def test_what_is_left_of_a_file_is_read_and_what_is_written_beyond_it_goes_nowhere(tmp_path: Path) -> None:
    script = """
region = store.map(path, is_writable=True)
view = region.view()
os.truncate(path, TILE + 100)
view[:] = 9
assert (view[: TILE + 100] == 9).all()
assert code(region.check) == "REGION_LOST"
content = open(path, "rb").read()
assert content == bytes([9]) * (TILE + 100)
del view
region.close()
assert (store.map(path).view() == 9).all()
print("went on")
"""
    ended = run(script, tmp_path / "f")
    assert (ended.returncode, ended.stdout) == (0, "went on\n"), ended.stderr


def test_a_region_stays_lost_when_its_file_is_whole_again_and_one_access_is_enough(tmp_path: Path) -> None:
    """The first access beyond the end gives the rest of the region zeros: no other access of it fails."""
    script = """
region = store.map(path)
view = region.view()
os.truncate(path, TILE)
assert view[2 * TILE] == 0
with open(path, "wb") as file:
    file.write(bytes([7]) * size)
region_ends = [line.split("-")[1].split()[0] for line in open("/proc/self/maps") if line.rstrip().endswith(path)]
assert [int(end, 16) for end in region_ends] == [region.base + 2 * TILE]
assert code(region.check) == code(region.view) == "REGION_LOST"
print("went on")
"""
    ended = run(script, tmp_path / "f")
    assert (ended.returncode, ended.stdout) == (0, "went on\n"), ended.stderr


def test_threads_that_read_a_truncated_file_at_once_all_go_on(tmp_path: Path) -> None:
    """Eight threads read with and without the interpreter's lock, and another computes, while the file shrinks."""
    script = """
sys.setswitchinterval(1e-5)
wrong, ready, truncated = [], threading.Barrier(9), threading.Event()

def reader(number):
    region = regions[number % 4]
    for turn in range(200):
        try:
            with region.reading() as view:
                total = int(view.sum(dtype=np.int64)) if number % 2 else view.tobytes().count(7) * 7
        except TmmuError as error:
            if error.code_id != "REGION_LOST" or not truncated.is_set():
                wrong.append(str(error))
            break
        if total != 7 * size:
            wrong.append(f"{total} was taken for the sum of a whole file")
        if turn == 3:
            ready.wait()
    else:
        wrong.append("never lost")

def other():
    whole = store.map(os.__file__)
    while not done.is_set():
        with whole.reading() as view:
            view.tobytes()
        list(range(1000))

done = threading.Event()
regions = [store.map(path) for _ in range(4)]
threads = [threading.Thread(target=reader, args=(number,)) for number in range(8)]
helper = threading.Thread(target=other)
for thread in [*threads, helper]:
    thread.start()
ready.wait()
truncated.set()
os.truncate(path, 5 * PAGE)
for thread in threads:
    thread.join()
done.set()
helper.join()
for region in regions:
    region.close()
print(wrong or "went on")
"""
    for _ in range(3):
        ended = run(script, tmp_path / "f")
        assert (ended.returncode, ended.stdout) == (0, "went on\n"), ended.stderr


FOREIGN = {
    "another mapping": """
import mmap
foreign = open(path, "r+b")
other = mmap.mmap(foreign.fileno(), size)
os.truncate(path, 0)
other[TILE]
""",
    "another process": "os.kill(os.getpid(), signal.SIGBUS)",
}


@pytest.mark.parametrize("fault", FOREIGN.values(), ids=FOREIGN)
def test_a_fault_that_is_of_no_region_goes_to_the_handler_that_was_there(fault: str, tmp_path: Path) -> None:
    whole = "whole = store.map(os.__file__)\n"
    ended = run(f"{whole}{fault}\nprint('went on')", tmp_path / "f")
    assert (ended.returncode, ended.stdout) == (-signal.SIGBUS, ""), ended.stderr
    reported = run(f"import faulthandler\nfaulthandler.enable()\n{whole}{fault}\nprint('went on')", tmp_path / "f")
    assert (reported.returncode, reported.stdout) == (-signal.SIGBUS, "")
    assert "Fatal Python error: Bus error" in reported.stderr


def test_a_handler_that_others_install_later_is_followed_by_the_next_region(tmp_path: Path) -> None:
    script = """
import faulthandler
first = store.map(path)
faulthandler.enable()
second = store.map(path)
views = first.view(), second.view()
os.truncate(path, 0)
assert not views[0].any() and not views[1].any()
assert code(first.check) == code(second.check) == "REGION_LOST"
print("went on")
"""
    ended = run(script, tmp_path / "f")
    assert (ended.returncode, ended.stdout) == (0, "went on\n"), ended.stderr
