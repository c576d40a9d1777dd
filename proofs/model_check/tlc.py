"""Run TLC 2.18 once, in a separate folder, with the options that make its answers trustworthy.

It has one worker: with more it misses violations of temporal properties (trap 1) and its depths vary (trap 8). A fresh
folder holds only the modules. TLC takes a module of the same name from the folder where it was started (trap 2),
unpacks its own modules into a temporary folder that runs would share (trap 3), and names its folder of states by the
second (trap 4). It never uses `-continue` (trap 5) or `-dfid` (trap 7), which both end with 0 despite a violation.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from proofs.model_check import messages
from proofs.model_check.manifest import LIMIT, SUCCESS, Run, WrongManifest
from proofs.model_check.messages import TLCReport
from tmmu.core import children, folders
from tmmu.core.reading import read_file

MEANING = {
    0: "success", 10: "an assumption is false", 11: "deadlock", 12: "an invariant is violated",
    13: "a property is violated", 14: "an Assert is false", 75: "an expression cannot be evaluated",
    76: "an invariant is not a state predicate", 77: "a formula is trivially true", 150: "the module cannot be parsed",
    151: "the configuration does not fit the module", 255: "TLC failed",
}  # fmt: skip
"""TLC's exit codes."""


@dataclass(frozen=True)
class TLCOutcome:
    """How a run ended. `exit` is None if it was stopped at its time limit, or if the files could not be made."""

    exit: int | None
    report: TLCReport
    seconds: float
    folder: str
    failure: str = ""


def command_line(run: Run, java: str, archive: Path, folder: Path, graph: Path | None = None) -> list[str]:
    """Return the command line of a run in `folder`.

    TLC writes the states and steps that it finds to the dot file `graph`.

    Coverage is requested if it is judged. A short run ends before Java's second compiler is worthwhile, and one thread
    collects its garbage at less cost than several that wait for each other. In a stack of Java's default size, TLC may
    end without a message before it prints the counterexample.
    """
    short = ["-XX:TieredStopAtLevel=1", "-XX:ParallelGCThreads=1"] if run.size == "ci" else []
    covered = ["-coverage", "1"] if run.expected == SUCCESS and run.kind == "model" else []
    written = [] if graph is None else ["-dump", "dot,actionlabels", str(graph)]
    return [
        java, "-XX:+UseParallelGC", "-Xss8m", *short, f"-Djava.io.tmpdir={folder / 'java'}", "-cp", str(archive),
        "tlc2.TLC", "-tool", "-workers", "1", "-fp", "0", "-seed", "0", "-metadir", str(folder / "states"),
        "-lncheck", "final", *covered, *written, "-config", f"{run.root}.cfg", f"{run.root}.tla",
    ]  # fmt: skip


@dataclass
class _LoadedClasses:
    """The number of runs that one Java has had in this process, and the file of TLC's loaded classes."""

    runs: int = 0
    file: Path | None = None


WORTHWHILE = 3
"""The number of the run that writes the file of classes, which costs as much time as some eight runs save."""

_LOADED: dict[tuple[str, Path], _LoadedClasses] = {}
_LOADING = threading.Lock()


@contextmanager
def _classes(java: str, archive: Path) -> Iterator[list[str]]:
    """Yield Java's options for a run that reuse TLC's loaded classes.

    Of a process's many runs, one writes the classes to a file of this process, and later ones map it. This saves each a
    tenth of a second and more. A Java older than 13 ignores the options, and one that cannot map the file loads the
    classes from the archive.
    """
    quiet = ["-Xlog:disable", "-XX:+IgnoreUnrecognizedVMOptions"]
    with _LOADING:
        loaded = _LOADED.setdefault((java, archive), _LoadedClasses())
        loaded.runs += 1
        number, file = loaded.runs, loaded.file
    if file is not None:
        yield [*quiet, f"-XX:SharedArchiveFile={file}"]
    elif number != WORTHWHILE:
        yield []
    else:
        folder = Path(tempfile.mkdtemp(prefix="tmmu-classes-", dir=folders.temporary_folder()))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        yield [*quiet, f"-XX:ArchiveClassesAtExit={folder / 'tlc.jsa'}"]
        if (folder / "tlc.jsa").is_file():
            loaded.file = folder / "tlc.jsa"


def lay_out(run: Run, folder: Path) -> None:
    """Put the modules, the seeded fault and the question into an empty folder. Raises `WrongManifest`."""
    (folder / "java").mkdir()
    for path in sorted(run.folder.glob("*.tla")):
        try:
            (folder / path.name).write_bytes(read_file(path, LIMIT))
        except OSError as error:
            raise WrongManifest(f"{run.name}: {path} cannot be read ({error.strerror})") from error
    for name, text in run.files:
        (folder / name).write_text(text)
    if run.edit is not None:
        changed = folder / run.edit.file
        if not changed.is_file():
            raise WrongManifest(f"{run.name}: {run.edit.file} is missing from {run.folder}")
        try:
            changed.write_text(run.edit.apply(changed.read_text()))
        except UnicodeDecodeError as error:
            raise WrongManifest(f"{run.name}: {run.edit.file} is not UTF-8") from error
    (folder / f"{run.root}.cfg").write_text(run.config.text())


def run_tlc(run: Run, java: str, archive: Path, timeout_s: float, graph: Path | None = None) -> TLCOutcome:
    """Run TLC once, with `graph` as in `command`. Never raises for a fault of the run. Costs at least a second."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tmmu-tlc-", dir=folders.temporary_folder()) as name:
        folder = Path(name).resolve()

        def outcome(exit_code: int | None, output: str, failure: str = "") -> TLCOutcome:
            return TLCOutcome(
                exit_code, messages.read_output(output), time.perf_counter() - start, str(folder), failure
            )

        try:
            lay_out(run, folder)
            program, *line = command_line(run, java, archive, folder, graph)
            with _classes(java, archive) as options:
                done = children.run([program, *options, *line], folder=folder, timeout=timeout_s)
        except WrongManifest as error:
            return outcome(None, "", str(error))
        except subprocess.TimeoutExpired:
            return outcome(None, "", f"TLC did not end within {timeout_s:.0f} s")
        except OSError as error:
            return outcome(None, "", f"TLC cannot be started: {error}")
        printed, errors = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        return outcome(done.returncode, printed, errors.strip())
