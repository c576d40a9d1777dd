"""The work on one file: read it, compare it, and prove it, or return the digest of its words.

The model is read once in a worker and kept with what each stage of a mesh runs of it; each plan is compared with that.
Whatever follows from a plan that cannot be read comes back as data: an exception here is an error of ours.
spec: V7.2, V7.3, V7.4
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from proofs.proving.kernel.program import PlanFile
from proofs.readers.models.reference import ReferenceProgram
from proofs.verify import judge, ranks
from proofs.verify.checks import BufferSubject, Subject
from proofs.verify.fleet import results
from proofs.verify.fleet.words import PlanWords
from proofs.verify.options import Disagreement, Options, Solving
from proofs.verify.sources import Answers, KeptSources, ask
from proofs.verify.verdict import EXECUTION, EXITS, UNKNOWN, Verdict
from tmmu.core.errors import TmmuError
from tmmu.core.progress import Doing
from tmmu.core.reading import digest_file
from tmmu.core.vocabulary import Bindings


@dataclass(frozen=True)
class Task:
    """One file for one worker.

    `number` is its place among those given, `path` where it lies, `name` what the user calls it, `model` the digest of
    the model's bytes, and `run` is of the command that asks; `known` are answers by the digest of words, and `proves`
    is whether what is not known is to be asked for.

    With `taken` the file has a verdict already, and only what other ranks must know of it is asked for.
    """

    number: int
    name: str
    path: str
    options: Options
    model: str | None
    versions: str
    run: str
    known: Mapping[bytes, Answers] = field(default_factory=dict)
    proves: bool = False
    taken: Verdict | None = None


class Judged(NamedTuple):
    """What came of a task: a verdict with its key, or `wanted`, the digest of the words to be proved first, or
    `misuse`, an error of the command line. `answers` are those that this worker has asked for.
    """

    verdict: Verdict | None = None
    key: str = ""
    member: ranks.Member | None = None
    wanted: bytes | None = None
    answers: tuple[bytes, Answers] | None = None
    misuse: str | None = None


class _Wanted(Exception):
    """These words are not proved yet."""


class _Worker(KeptSources):
    """The state of a worker: the model as it was last read, and the stages of it that run."""

    def __init__(self) -> None:
        super().__init__()
        self.one_at_a_time = threading.Lock()  # a worker of Dask may have several threads
        self.read: tuple[Any, ReferenceProgram] | None = None
        self.task: Task | None = None
        self.made: tuple[bytes, Answers] | None = None
        self.run = ""
        self.known: dict[bytes, Answers] = {}

    def begin(self, task: Task) -> None:
        """Turn to a task. Answers are those of one command, under its options."""
        if task.run != self.run:
            self.run, self.known = task.run, {}
        self.known |= task.known
        self.task, self.made = task, None

    def model(self, path: str, bindings: Bindings, mode: str) -> ReferenceProgram:
        assert self.task is not None
        key = (path, self.task.model, repr(bindings), mode)
        if self.read is None or self.read[0] != key:
            found = super().model(path, bindings, mode)
            if digest_file(path) != self.task.model:
                raise TmmuError("INVALID_IR", "it has changed while plans were judged", fix="begin again").in_file(path)
            self.read = key, found
        return self.read[1]

    def answers(self, subject: Subject | BufferSubject, solving: Solving, progress: Doing) -> Answers:
        assert self.task is not None
        words = PlanWords.of(subject)
        found = self.known.get(words.digest)
        if found is None:
            if not self.task.proves:
                raise _Wanted(words.digest)
            found = ask(words.context(), PlanFile.of(words.plan), solving)
            self.made = words.digest, found
        return found


_OWN = _Worker()


def work(task: Task) -> Judged:
    """Judge a file. Raises RuntimeError where this worker runs another version of the verifier."""
    if task.versions != results.versions():
        raise RuntimeError("a worker has another version of tmmu or of its packages: install the same on all machines")
    with _OWN.one_at_a_time:
        _OWN.begin(task)
        return _judged(task)


def _judged(task: Task) -> Judged:
    name, options = task.name, task.options
    try:
        key = results.key(task.path, options, task.model)
        stated = judge.open_plan(task.path, options)
        if task.taken is not None:
            return Judged(task.taken, key, ranks.member(task.taken, stated))
        verdict = judge.judge(name, stated, options, sources=_OWN)
        if results.key(task.path, options, task.model) != key:
            raise TmmuError("INVALID_PLAN", "it was written while it was read", file=task.path, fix="judge it again")
    except _Wanted as wanted:
        return Judged(wanted=wanted.args[0])
    except TmmuError as error:
        return Judged(Verdict.of_error(name, error))
    except Disagreement as error:
        return Judged(misuse=f"{name}: {error}")
    except OSError as error:
        return Judged(misuse=f"{error.filename or name}: {error.strerror}")
    verdict = results.as_read(verdict)
    return Judged(verdict, key, ranks.member(verdict, stated), answers=_OWN.made)


def unjudged_verdict(name: str, options: Options, reason: str) -> Verdict:
    """The verdict on a file whose worker died each time: UNKNOWN, with the reason. spec: V7.9"""
    assumptions: dict[str, Any] = {
        **{what: {} for what in ("dims", "ranges", "steps", "shapes", "values", "defaults", "stated_sizes")},
        **{what: [] for what in ("believed_operators", "arenas", "devices", "rules")},
        "execution": EXECUTION, "donated": [], "trusted_shapes": options.bindings.trust_shapes, "assumed_sizes": {},
        "overwritten_inputs": {}, "bases": {},
    }  # fmt: skip
    scope = "against the model" if options.model is not None else "for the steps it states"
    return replace(
        Verdict(name, UNKNOWN, EXITS[UNKNOWN], scope, model=options.model),
        assumptions=assumptions, not_looked_at={"plan": reason}, notes=[reason],
    )  # fmt: skip
