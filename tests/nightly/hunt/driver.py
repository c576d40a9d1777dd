"""One planner hunted: programs by seed, each compiled by the worker, its plan verified, its outputs compared.

What is refuted, or computes something else than NumPy, is shrunk and written down as a record: JSON with the program,
the inputs and the verdict, and a command that shows it again. A log has a line for each seed, so that the next run goes
on behind it and a table counts all runs.

An outcome is `refuted` or `unknown` (what `verify-plan` answers), `proved` (the same, asked of every tenth plan that
the naive checker finds nothing wrong with) or `right` (of the others), `unread` (our reader refuses the file),
`no plan` (there was none to make), `refused` (by the compiler or its worker), `failed` (the compiler raised something
else), `crashed` (its process died) or `hung`.
"""

from __future__ import annotations

import json
import random
import selectors
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from proofs.readers.plans.formats import load_any
from proofs.verify.checks import BufferSubject, Subject, buffer_violations, violations
from proofs.verify.judge import verify
from tests.nightly.hunt import programs as p
from tmmu.core.errors import TmmuError
from tmmu.plans.gate import StatedPlan

OUTCOMES = ("right", "proved", "refuted", "unknown", "unread", "no plan", "refused", "failed", "crashed", "hung")
STARTING = 300.0
"""Seconds that a worker may take to import its compiler."""
FRESH = 200
"""After so many programs a worker is started anew: compilers keep what they compiled."""
CUTS = 120
"""Programs that are compiled at most to shrink one."""
ALIKE = 6
"""So many findings that look alike are shrunk, of crashes one; of the others every tenth."""
IN_FULL = 10
"""Of so many plans that the naive checker finds nothing wrong with, one is proved."""
KEPT = 3
"""So many records of one kind are kept."""


@dataclass
class Found:
    """What came of a program: the outcome, a word on it, whether the outputs differ from NumPy's (None: not run)."""

    outcome: str
    detail: str = ""
    differs: bool | None = None
    got: list[Any] | None = None
    expected: list[Any] | None = None
    verdict: dict[str, Any] = field(default_factory=dict)
    unplanned_differs: bool | None = None
    plain_differs: bool | None = None

    @property
    def part(self) -> str:
        """Return the part at fault, as far as runs without a plan and without rewrites tell; empty if no finding.

        A refuted plan is the planner's. So are results that are right without a plan. A plan that is not decided, with
        right results, is no one's.
        """
        if not self.is_finding:
            return ""
        if self.outcome == "crashed":
            return "runtime"
        if self.outcome == "unknown" and not self.differs:
            return "not decided"
        if self.outcome == "refuted" or self.unplanned_differs is False:
            return "planner"
        if self.unplanned_differs is None:
            return "not told apart"
        return {None: "kernel or rewrite", False: "rewrite", True: "kernel"}[self.plain_differs]

    @property
    def is_finding(self) -> bool:
        """Whether it is worth a record."""
        return self.outcome in ("refuted", "unknown", "crashed") or bool(self.differs)

    @property
    def was_run(self) -> bool:
        """Whether it was executed, or may have been when its process died."""
        return self.differs is not None or self.outcome == "crashed"

    def is_like(self, other: Found) -> bool:
        """Whether a smaller program shows what another one showed. It may show a difference besides."""
        same = {"right": "proved"}
        outcomes = {same.get(each.outcome, each.outcome) for each in (self, other)}
        return len(outcomes) == 1 and bool(self.differs) >= bool(other.differs)


class Worker:
    """A worker's process, started when it is first asked, and anew after it died or hung."""

    def __init__(self, command: Sequence[str], seconds: float = 120.0) -> None:
        self.command, self.seconds = list(command), seconds
        self.hello: dict[str, Any] = {}
        self._process: subprocess.Popen[str] | None = None
        self._asked = 0

    def start(self) -> dict[str, Any]:
        """What the worker says it is. Raises ChildProcessError where it does not start."""
        if self._process is None:
            self._process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=subprocess.DEVNULL, text=True, start_new_session=True)  # fmt: skip
            self._asked = 0
            answer = self._answer(STARTING)
            if answer is None or "planner" not in answer:
                self.close()
                raise ChildProcessError(f"{shlex.join(self.command)} does not start")
            self.hello = answer
        return self.hello

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Its answer, or {"crashed": ...} or {"hung": ...}."""
        if self._asked >= FRESH:
            self.close()
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        self._asked += 1
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            answer = self._answer(self.seconds)
        except BrokenPipeError:
            answer = {}
        if answer:
            return answer
        process = self._process
        if answer is None:
            process.kill()
            self.close()
            return {"hung": f"no answer in {self.seconds:.0f} s"}
        self.close()
        return {"crashed": f"exit {process.returncode}"}

    def _answer(self, seconds: float) -> dict[str, Any] | None:
        """One line; None if there is none in time, nothing if the process is at its end or says something else."""
        assert self._process is not None
        stream: IO[str] | None = self._process.stdout
        assert stream is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            if not selector.select(seconds):
                return None
        line = stream.readline()
        try:
            return json.loads(line) if line.endswith("\n") else {}
        except ValueError:
            return {}

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            if self._process.stdin is not None:
                try:
                    self._process.stdin.close()
                    self._process.wait(2)
                except (OSError, subprocess.TimeoutExpired):
                    self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class Hunt:
    """A planner's worker and the folder where its log and records are."""

    name: str
    worker: Worker
    folder: Path
    shrinks: bool = True

    @property
    def log(self) -> Path:
        """A line of JSON for each seed."""
        return self.folder / f"{self.name}.jsonl"

    def attempt(
        self,
        program: p.Program,
        inputs: Sequence[Sequence[p.Array]],
        variant: str,
        keep: Path | None = None,
        in_full: bool = True,
        runs: bool | None = None,
    ) -> Found:
        """Compile a program, verify what plan there is, and compare what it returns.

        Files go to `keep` if given, those of a crash too.
        Where it is not given whether it `runs`, a share of all programs does that the worker has chosen.
        """
        expected = flat([p.evaluate(program, one) for one in inputs])
        with tempfile.TemporaryDirectory(prefix="hunt-") as folder:
            answer = self.worker.ask({
                "program": p.to_json(program), "inputs": flat(inputs), "variant": variant, "folder": folder,
                "runs": runs,
            })  # fmt: skip
            if keep is not None:
                shutil.copytree(folder, keep, dirs_exist_ok=True)
            for outcome in ("refused", "failed", "crashed", "hung"):
                if outcome in answer:
                    return Found(outcome, answer[outcome])
            found = judged(answer["plans"], in_full)
        if answer["outputs"] is not None:
            found.differs = answer["outputs"] != expected
            found.got, found.expected = answer["outputs"], expected
        if answer["unplanned"] is not None:
            found.unplanned_differs = answer["unplanned"] != expected
        if answer["plain"] is not None:
            found.plain_differs = answer["plain"] != expected
        return found

    def shrink(self, program: p.Program, seed: int, variant: str, found: Found) -> tuple[p.Program, Found]:
        """A small program that shows the same, and what came of it."""
        left = CUTS
        while True:
            for cut in p.smaller(program):
                if left == 0:
                    return program, found
                try:
                    inputs = inputs_of(cut, seed)
                    for one in inputs:
                        p.evaluate(cut, one)
                except AssertionError:
                    continue
                left -= 1
                again = self.attempt(cut, inputs, variant, in_full=False, runs=found.was_run)
                if again.is_like(found):
                    program, found = cut, again
                    break
            else:
                return program, found

    def case(self, seed: int) -> tuple[p.Program, str]:
        """The program of a seed, and the variant that it is compiled with. Each leaves out some features."""
        hello, rng = self.worker.start(), random.Random(seed)
        asked = [each for each in hello["features"] if rng.random() < 0.75]
        numbers = sorted({"float32", "int32"} & set(hello["features"]))
        asked += [] if {"float32", "int32"} & set(asked) else [rng.choice(numbers)]
        variants = hello["variants"]
        return p.generate(rng, frozenset(asked)), variants[seed % len(variants)]

    def run(self, deadline: float, most: int, first: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        """Try seeds that the log does not have, until a time or until there are so many."""
        self.folder.mkdir(parents=True, exist_ok=True)
        known = list(lines(self.log))
        done = {line["seed"] for line in known}
        alike = Counter(line["kind"] for line in known if line.get("kind"))
        seed = first
        with self.log.open("a") as log:
            while clock() < deadline and len(done) < most:
                if seed not in done:
                    done.add(seed)
                    line = self.one(seed, alike)
                    log.write(json.dumps(line) + "\n")
                    log.flush()
                seed += 1

    def one(self, seed: int, alike: Counter[str]) -> dict[str, Any]:
        """Try one seed; the line for the log."""
        program, variant = self.case(seed)
        found = self.attempt(program, inputs_of(program, seed), variant, in_full=seed % IN_FULL == 0)
        line = {"seed": seed, "variant": variant, "version": self.worker.hello["version"], "outcome": found.outcome,
                "detail": found.detail[:300], "differs": found.differs}  # fmt: skip
        if found.is_finding:
            control = sorted({"cond", "while", "scan"} & set(p.operations(program)))
            kind = " ".join([found.outcome, "differs" if found.differs else "-", *control])
            alike[kind] += 1
            line["kind"], line["part"] = kind, found.part
            is_crash = found.outcome == "crashed"
            if self.shrinks and (alike[kind] <= (1 if is_crash else ALIKE) or (seed % 10 == 0 and not is_crash)):
                small, found = self.shrink(program, seed, variant, found)
                line["record"] = self.record(seed, variant, small, found)
        return line

    def record(self, seed: int, variant: str, program: p.Program, found: Found) -> str | None:
        """Write a record, unless there are enough of its kind; its name."""
        operations = sorted(set(p.operations(program)))
        title = f"{found.outcome.replace(' ', '-')}{'-differs' if found.differs else ''}-{'-'.join(operations)}"
        folder = self.folder / "records" / self.name
        if len(list(folder.glob(f"*/{title}.json"))) >= KEPT:
            return title
        place = folder / str(seed)
        place.mkdir(parents=True, exist_ok=True)
        found = self.attempt(
            program, inputs_of(program, seed), variant, place, runs=found.was_run or found.outcome == "refuted"
        )
        path = place / f"{title}.json"
        path.write_text(
            json.dumps(stored(self.name, self.worker.hello["version"], seed, variant, program, found), indent=1)
        )
        print(f"{self.name} {seed}, {found.outcome}: make hunt RECORD={path}", file=sys.stderr)
        return title


def stored(name: str, version: str, seed: int, variant: str, program: p.Program, found: Found) -> dict[str, Any]:
    """A record: everything that is needed to see it again."""
    return {
        "planner": name, "version": version, "variant": variant, "seed": seed, "outcome": found.outcome,
        "detail": found.detail, "differs": found.differs, "unplanned_differs": found.unplanned_differs,
        "plain_differs": found.plain_differs, "part": found.part,
        "program": p.to_json(program), "text": list(p.text(program)),
        "expected": found.expected, "got": found.got, "verdict": found.verdict,
    }  # fmt: skip


def judged(plans: Sequence[str], in_full: bool) -> Found:
    """What `verify-plan` answers of the plans of a program: the worst of them. Unless `in_full`, a plan that the naive
    checker finds nothing wrong with is not proved as well.
    """
    found = Found("no plan") if not plans else Found("proved" if in_full else "right")
    for path in plans:
        try:
            if not in_full and is_right(path):
                continue
            verdict = verify(path)
        except TmmuError as error:
            return Found("unread", str(error))
        except Exception as error:  # a reader must not raise anything else: that is ours to mend
            return Found("unread", f"{type(error).__name__}: {error} {traceback.format_exc(limit=-2)}")
        if verdict.verdict != "PROVED" and found.outcome != "refuted":
            witness = verdict.witness or {}
            word = str(witness.get("message") or witness.get("text") or verdict.notes[:1])
            kept = {"witness": verdict.witness, "notes": verdict.notes[:20], "reading": verdict.reading}
            found = Found(verdict.verdict.lower(), f"{witness.get('obligation')}: {word}", verdict=kept)
    return found


def is_right(path: str) -> bool:
    """Whether the naive checker finds nothing wrong with a plan. Raises as the readers do."""
    stated = load_any(path)
    if isinstance(stated, StatedPlan):
        donated = frozenset(() if stated.reading is None else stated.reading.donated)
        return next(violations(Subject(stated, donated=donated)), None) is None
    return next(buffer_violations(BufferSubject(stated)), None) is None


def flat(outputs: Sequence[Sequence[p.Array]]) -> list[list[list[float]]]:
    """Arrays as lists of numbers."""
    return [[each.astype(float).ravel().tolist() for each in one] for one in outputs]


def inputs_of(program: p.Program, seed: int) -> list[list[p.Array]]:
    """Sets of inputs: two, and with flags one for each of their values, up to four."""
    flags = [k for k, value in enumerate(program.inputs) if value.spec == ("bool", ())][:2]
    rng = random.Random(seed)
    found = [p.random_inputs(program, rng) for _ in range(max(2, 2 ** len(flags)))]
    for row, one in enumerate(found if flags else []):
        for bit, k in enumerate(flags):
            one[k] = p.np.array(bool(row >> bit & 1))
    return found


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a log; one that was cut off is left out."""
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


def row(path: Path) -> dict[str, Any]:
    """The figures of a log: version, how many programs, how many of each outcome, how many differ."""
    known = list(lines(path))
    counts = Counter(line["outcome"] for line in known)
    parts = Counter(line["part"] for line in known if line.get("part"))
    return {
        "planner": path.stem,
        "version": ", ".join(sorted({line["version"] for line in known})),
        "tried": len(known),
        **{outcome: counts[outcome] for outcome in OUTCOMES},
        "run": sum(line["differs"] is not None for line in known),
        "differs": sum(line["differs"] is True for line in known),
        "right, differs": sum(line["outcome"] in ("right", "proved") and line["differs"] is True for line in known),
        "no plan, differs": sum(line["outcome"] == "no plan" and line["differs"] is True for line in known),
        "parts": ", ".join(f"{part} {count:,}" for part, count in sorted(parts.items())),
        "refuted, differs": sum(line["outcome"] == "refuted" and line["differs"] is True for line in known),
    }


def table(folder: Path) -> Iterator[str]:
    """The figures of all logs in a folder, a planner a line, as Markdown."""
    columns = [
        "planner", "version", "tried", *OUTCOMES, "run", "refuted, differs", "right, differs", "no plan, differs",
        "parts",
    ]  # fmt: skip
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for path in sorted(folder.glob("*.jsonl")):
        figures = row(path)
        yield (
            "| " + " | ".join(f"{figures[c]:,}" if isinstance(figures[c], int) else figures[c] for c in columns) + " |"
        )
