"""`make fuzz MINUTES=60`: fuzz every reader in turn, the one with the fewest executions first, and print figures.

`--readers npy trace` chooses, `--replay FILE` reads a finding again, `--reduce` keeps a small corpus for `make test`,
and `--page` writes the table of the pages anew. Work is in `.fuzz`: seeds, corpus and findings.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.nightly.fuzz import figures as of_readers
from tests.nightly.fuzz.bounds import run_input
from tests.nightly.fuzz.figures import ReaderFigures
from tests.nightly.fuzz.planted import PLANTED
from tests.nightly.fuzz.seeds import write_seeds
from tests.nightly.fuzz.stored import read_stored, write_stored
from tests.nightly.fuzz.targets import TARGETS

ROOT = Path(__file__).resolve().parents[3]
WORK = ROOT / ".fuzz"
PAGES = (ROOT / "spec" / "reliability.md", Path(__file__).with_name("README.md"))
SLICE = 120
"""The seconds of one run of one reader, in which it starts once."""
STARTING = 120
"""The seconds that a worker may take beside: it instruments every module that it imports."""


def prepare(work: Path) -> None:
    """Write the seeds, and put them and the inputs that are kept in the tree into the corpus of each reader."""
    if not (work / "seeds").exists():
        with tempfile.TemporaryDirectory() as scratch:
            write_seeds(work / "seeds", Path(scratch))
    stored = read_stored()
    for name in TARGETS:
        place = work / "corpus" / name
        place.mkdir(parents=True, exist_ok=True)
        for path in (work / "seeds" / name).iterdir():
            if not (place / path.name).exists():
                shutil.copyfile(path, place / path.name)
        for number, data in enumerate(stored.get(name, ())):
            (place / f"stored-{number:03}").write_bytes(data)
    (work / "findings").mkdir(exist_ok=True)


def fuzz(reader: str, work: Path, seconds: int, figures: ReaderFigures) -> str:
    """Fuzz one reader for some seconds; return what the worker has printed, and add its figures."""
    begun, before = time.time(), {path.name for path in (work / "findings").iterdir()}
    corpus = str(work / "corpus" / reader)
    line = [sys.executable, "-m", "tests.nightly.fuzz.worker", reader, corpus, str(work / "findings"), str(seconds)]
    line.append(str(1 + figures.seconds))
    log = work / f"{reader}.log"
    with open(log, "wb") as out:
        try:
            subprocess.run(line, stdout=out, stderr=out, cwd=ROOT, timeout=seconds + STARTING, check=False)
        except subprocess.TimeoutExpired:
            out.write(b"\nthe worker was killed\n")
    printed = log.read_text(errors="replace")
    after = {path.name for path in (work / "findings").iterdir()} - before
    new = [name.removesuffix(".bin") for name in sorted(after) if name.startswith(f"{reader}-") and ".json" not in name]
    of_readers.add_run(figures, printed, min(seconds, round(time.time() - begun)), new)
    return printed


def replay(path: Path) -> int:
    """Read a finding again. Returns 1 if it still is one."""
    known = {**TARGETS, PLANTED.name: PLANTED}
    reader = max((name for name in known if path.name.startswith(name)), key=len, default=None)
    if reader is None:
        print(f"{path.name} does not begin with the name of a reader: {', '.join(known)}")
        return 2
    begin = time.time()
    found = run_input(known[reader], path.read_bytes())
    print(f"{reader}: {time.time() - begin:.2f} s: {'as it should be' if found is None else found.what}")
    if found is not None:
        print(found.text)
    return int(found is not None)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.fuzz")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--readers", nargs="*", default=sorted(TARGETS), choices=sorted(TARGETS))
    parser.add_argument("--replay", type=Path, metavar="FILE")
    parser.add_argument("--reduce", action="store_true")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if given.replay is not None:
        return replay(given.replay)
    figures = of_readers.load()
    if given.page:
        for page in PAGES:
            of_readers.write_page(figures, page)
        return 0
    try:
        import atheris  # noqa: F401 it is only needed in the workers
    except ImportError:
        print("atheris is not installed: pip install -e '.[fuzz]'")
        return 2
    prepare(WORK)
    if given.reduce:
        print(write_stored(WORK))
        return 0
    for name in given.readers:
        figures.setdefault(name, ReaderFigures())
    end = time.time() + 60 * given.minutes
    share = max(20, min(SLICE, int(60 * given.minutes / len(given.readers))))
    while (left := end - time.time()) > 10:
        name = min(given.readers, key=lambda name: figures[name].executions)
        fuzz(name, WORK, int(min(share, left)), figures[name])
        of_readers.save(figures)
        each = figures[name]
        print(
            f"{name}: {each.executions:,} executions, {each.seconds} s, {each.coverage:,} edges, {each.inputs} inputs, "
            f"{len(each.findings)} findings", flush=True,
        )  # fmt: skip
    found = sorted(path.name for path in (WORK / "findings").glob("*.json"))
    for name in found:
        print(f"finding: {WORK / 'findings' / name}: {json.loads((WORK / 'findings' / name).read_text())['key'][:150]}")
    others = [path for path in (WORK / "findings").iterdir() if "-timeout-" in path.name or "-oom-" in path.name]
    print(*(f"finding: {path}" for path in others), sep=os.linesep, end=os.linesep if others else "")
    return int(bool(found or others))


if __name__ == "__main__":
    raise SystemExit(main())
