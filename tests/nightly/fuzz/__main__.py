"""`make fuzz MINUTES=60`: fuzz every reader in turn, the one with the fewest executions first, and print figures.

`--readers npy trace` chooses, `--replay FILE` reads a finding again, `--reduce` keeps a small corpus for `make test`,
and `--page` writes the table of the pages anew. Work is in `.fuzz`: seeds, corpus and findings.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.nightly.fuzz import figures as of_readers
from tests.nightly.fuzz import worker
from tests.nightly.fuzz.figures import ReaderFigures

ROOT = Path(__file__).resolve().parents[3]
WORK = ROOT / ".fuzz"
PAGES = (ROOT / "spec" / "reliability.md", Path(__file__).with_name("README.md"))
SLICE = 120
"""The seconds of one run of one reader."""
BESIDE = 60
"""The seconds that a run may take beside: it reads its corpus first."""


def prepare(work: Path, names: Mapping[str, Any]) -> None:
    """Write the seeds, and put them and the inputs that are kept in the tree into the corpus of each reader."""
    from tests.nightly.fuzz.seeds import write_seeds
    from tests.nightly.fuzz.stored import read_stored

    if not all((work / "seeds" / name).exists() for name in names):
        with tempfile.TemporaryDirectory() as scratch:
            write_seeds(work / "seeds", Path(scratch))
    stored = read_stored()
    for name in names:
        place = work / "corpus" / name
        place.mkdir(parents=True, exist_ok=True)
        for path in (work / "seeds" / name).iterdir():
            shutil.copyfile(path, place / path.name)
        for number, data in enumerate(stored.get(name, ())):
            (place / f"stored-{number:03}").write_bytes(data)
    (work / "findings").mkdir(exist_ok=True)


def fuzz(target: Any, work: Path, seconds: int, figures: ReaderFigures) -> None:
    """Fuzz one reader for some seconds in a fork of this process, which has all modules, and add its figures."""
    begun, findings = time.time(), work / "findings"
    before, log = {path.name for path in findings.iterdir()}, work / f"{target.name}.log"
    pid = os.fork()
    if pid == 0:
        try:
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            worker.fuzz(target, str(work / "corpus" / target.name), str(findings), seconds, 1 + figures.seconds)
        finally:
            os._exit(1)
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.time() > begun + seconds + BESIDE:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
    after = {path.name for path in findings.iterdir() if path.is_file()} - before
    new = [name.removesuffix(".bin") for name in sorted(after) if name.startswith(f"{target.name}-")]
    new = [name for name in new if not name.endswith(".json")]
    of_readers.add_run(figures, log.read_text(errors="replace"), min(seconds, round(time.time() - begun)), new)


def replay(path: Path) -> int:
    """Read a finding again. Returns 1 if it still is one."""
    from tests.nightly.fuzz.bounds import run_input
    from tests.nightly.fuzz.planted import PLANTED
    from tests.nightly.fuzz.targets import TARGETS

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
    parser.add_argument("--readers", nargs="*", default=(), metavar="READER")
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
    if given.reduce:
        from tests.nightly.fuzz.stored import write_stored

        print(write_stored(WORK))
        return 0
    try:
        targets = worker.instrument()
    except ImportError as error:
        print(f"{error}: pip install -e '.[fuzz]'")
        return 2
    names = given.readers or [name for name in targets if name != "planted"]
    if unknown := sorted(set(names) - set(targets)):
        print(f"unknown reader {', '.join(unknown)}; the readers are {', '.join(targets)}")
        return 2
    prepare(WORK, dict.fromkeys(names))
    for name in names:
        figures.setdefault(name, ReaderFigures())
    end = time.time() + 60 * given.minutes
    share = max(20, min(SLICE, int(60 * given.minutes / len(names))))
    while (left := end - time.time()) > 10:
        name = min(names, key=lambda name: figures[name].executions)
        fuzz(targets[name], WORK, int(min(share, left)), figures[name])
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
