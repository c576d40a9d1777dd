"""Programs and processes end with the process that started them, whatever ends that.

spec: RE2.1 to RE2.3, RE2.7 to RE2.9
"""

from __future__ import annotations

import ast
import gc
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tmmu.core import children

ROOT = Path(__file__).resolve().parents[2]
STARTS = """
import os, sys, time
from tmmu.core import children
{body}
print(*pids, flush=True)
time.sleep(60)
"""
PROGRAM = 'pids = [children.start(["sleep", "60"]).pid]'
LATER_FORK = (
    PROGRAM
    + """
if not os.fork():
    time.sleep(60)  # it must not hold what ends the program
"""
)
HELPER = """
shell = children.start(["sh", "-c", "sleep 60 & echo $!; wait"])
pids = [shell.pid, int(shell.stdout.readline())]
"""
DEAF = """
code = "import signal, time; signal.signal(signal.SIGIO, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
deaf = children.start([sys.executable, "-c", code])
pids = [deaf.pid] * int(deaf.stdout.readline())
"""
NESTED = """
inner = children.start([sys.executable, "-c", "from tmmu.core import children; import time; "
    "print(children.start(['sleep', '60']).pid, flush=True); time.sleep(60)"])
pids = [inner.pid, int(inner.stdout.readline())]
"""
FORK = """
line = children.Lifeline()
pid = os.fork()
if pid == 0:
    os.closerange(3, line.read)
    line.depend()
    time.sleep(60)
line.hold()
pids = [pid]
"""
WORKER = """
parent = os.getpid()
pid = os.fork()
if pid == 0:
    children.end_with_parent(parent)
    time.sleep(60)
pids = [pid]
"""


def has_ended(pid: int) -> bool:
    """Whether a process ends within some seconds. One that nobody waits for is dead, and only its number is left."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize(
    "body",
    [PROGRAM, LATER_FORK, HELPER, DEAF, NESTED, FORK, WORKER],
    ids=["program", "fork", "helper", "deaf", "nested", "line", "worker"],
)
def test_what_was_started_ends_with_what_started_it(body: str, number: int) -> None:
    command = [sys.executable, "-c", STARTS.format(body=body)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        assert pids
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        os.kill(process.pid, number)
        process.wait()
        try:
            assert [pid for pid in pids if not has_ended(pid)] == []
        finally:
            os.killpg(process.pid, signal.SIGKILL) if Path(f"/proc/{process.pid}").exists() else None


def test_a_program_that_is_not_guarded_is_noticed() -> None:
    """The test above can fail."""
    command = [sys.executable, "-c", "import subprocess; print(subprocess.Popen(['sleep', '9']).pid, flush=True)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
    assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    os.kill(pid, signal.SIGKILL)


def test_a_run_has_the_output_and_ends_in_time() -> None:
    done = children.run(["sh", "-c", "echo out; echo error >&2; exit 3"])
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"error\n")
    with pytest.raises(subprocess.TimeoutExpired):
        children.run(["sleep", "60"], timeout=0.1)
    with pytest.raises(OSError, match="no-such-program"):
        children.run(["no-such-program"])


@pytest.mark.parametrize("wait", ["wait", "exit 0"])
def test_nothing_that_a_program_started_is_left_after_a_run(wait: str, tmp_path: Path) -> None:
    """Neither when its time is over nor when it ends by itself, and what it has left holds up nobody."""
    file = tmp_path / "pid"
    command = ["sh", "-c", f"sleep 60 > /dev/null 2>&1 & echo $! > {file}; {wait}"]
    if wait == "wait":
        with pytest.raises(subprocess.TimeoutExpired):
            children.run(command, timeout=0.5)
    else:
        assert children.run(command).returncode == 0
    assert has_ended(int(file.read_text()))


def test_a_program_outlives_those_released_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has descriptors that theirs had; what was released, and is forgotten later, closes nothing. spec: RE2.9"""
    writes, pipe = [], os.pipe

    def make_pipe() -> tuple[int, int]:
        read, write = pipe()
        writes.append(write)
        return read, write

    monkeypatch.setattr(os, "pipe", make_pipe)
    line = children.Lifeline()
    line.hold()
    earlier = children.start(["sleep", "60"], stdout=subprocess.DEVNULL)
    children.release(earlier)
    line.release()
    earlier.wait()
    later = [children.start(["sleep", "60"], stdout=subprocess.DEVNULL) for _ in range(4)]
    try:
        assert set(writes[:2]) <= set(writes[2:])
        line.release()
        children.release(earlier)
        del earlier
        gc.collect()
        time.sleep(0.1)
        assert [program.poll() for program in later] == [None] * 4
    finally:
        for program in later:
            children.release(program)
            program.wait()


INTERRUPTED = """
import os, signal, sys, threading, time
from tmmu.core import children, process
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell runs in the background
process.begin()
thread = threading.Thread(target=lambda: children.run(["sleep", "60"]))
thread.start()
try:
    print("runs", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    thread.join()  # as a pool of threads does
    try:
        children.run(["true"])
    except OSError:
        print("ended", flush=True)
"""


def test_an_interrupt_ends_what_other_threads_wait_for() -> None:
    """Programs are in groups of their own, which a terminal does not interrupt. No other is started then."""
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], cwd=ROOT, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == "runs\n"
        time.sleep(0.3)
        command.send_signal(signal.SIGINT)
        assert command.communicate(timeout=20)[0] == "ended\n"


def started_elsewhere(source: str) -> list[str]:
    """The calls in a source that start a process."""
    called = (ast.unparse(node.func) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    starts = r"subprocess\.(run|Popen|call|check_\w+)|os\.(system|popen|fork\w*|spawn\w*|posix_spawn\w*)"
    return [name for name in called if re.fullmatch(starts, name)]


def test_programs_are_started_in_one_place() -> None:
    found = {
        str(path.relative_to(ROOT)): started_elsewhere(path.read_text())
        for top in ("tmmu", "proofs")
        for path in (ROOT / top).rglob("*.py")
    }
    assert {path: calls for path, calls in found.items() if calls} == {
        "tmmu/core/children.py": ["subprocess.Popen"],
        "proofs/verify/forked.py": ["os.fork"],  # with a lifeline
    }
    assert started_elsewhere("import os; os.system('x')") == ["os.system"]


def test_a_worker_whose_parent_has_ended_before_it_began_ends() -> None:
    code = "from tmmu.core.children import end_with_parent; end_with_parent(1 << 30); print('on')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
