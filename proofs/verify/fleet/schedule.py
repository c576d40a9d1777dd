"""The order of files and their workers, and the consequences of a worker that dies.

Words that are equal are proved once: the first file that has them is given back to be proved, the others are held until
it is. Of a worker that dies nothing is lost but the work: what may have run in it is judged again, with nothing else
running, so that the death of a worker names its plan. A plan that kills its worker twice so is UNKNOWN.
spec: V7.2 to V7.10
"""

from __future__ import annotations

import secrets
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from proofs.sharding.exchange import Communication
from proofs.sharding.parts import Dimension
from proofs.verify.fleet import results
from proofs.verify.fleet.pools import Died, Pool
from proofs.verify.fleet.results import Results
from proofs.verify.fleet.worker import Judged, Task, unjudged_verdict
from proofs.verify.options import Disagreement, Options
from proofs.verify.ranks import Member
from proofs.verify.sources import Answers
from proofs.verify.verdict import PROVED, REFUTED, UNKNOWN, Verdict
from tmmu.core.output import count_noun
from tmmu.core.progress import Doing, report_nothing
from tmmu.core.reading import digest_file

DEATHS = 2
"""A plan that has killed so many workers that ran nothing else is not tried again."""
TRIES = 2
"""Words that are not proved are tried so often, as a solver may have been ended from outside."""
KNOWN = 8
"""The answers that go with each task: the latest. A worker keeps them, and asks for one that it has not."""


class Done(NamedTuple):
    """What came of one file: its place among those given, its verdict, and what other ranks must know of it."""

    number: int
    verdict: Verdict
    member: Member | None


@dataclass
class Fleet:
    """Plans that are judged by a pool under one set of options; `done` can be looked at meanwhile and afterwards."""

    paths: Sequence[str]
    options: Options
    pool: Pool
    results: Results | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    """The model of each plan by its path, in place of that of the options."""
    doing: Doing = report_nothing
    done: int = 0
    taken: int = 0
    """Verdicts that were taken from the results of an earlier run."""
    proofs: int = 0
    """How often solvers and kernel were asked."""
    deaths: Counter[int] = field(default_factory=Counter)
    _waiting: deque[int] = field(default_factory=deque)
    _suspects: deque[int] = field(default_factory=deque)
    _running: set[int] = field(default_factory=set)
    _proves: dict[int, bytes] = field(default_factory=dict)
    _held: dict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))
    _known: dict[bytes, Answers] = field(default_factory=dict)
    _asked: dict[int, dict[bytes, Answers]] = field(default_factory=dict)
    _failed: dict[bytes, str] = field(default_factory=dict)
    _tries: Counter[bytes] = field(default_factory=Counter)
    _taken: dict[int, tuple[str, Verdict]] = field(default_factory=dict)
    _met: dict[Communication, Communication] = field(default_factory=dict)
    _digests: dict[str, str] = field(default_factory=dict)
    _parts: dict[tuple[Dimension, ...], tuple[Dimension, ...]] = field(default_factory=dict)

    def judge_files(self) -> Iterator[Done]:
        """Yield each file once, as they are judged. Raises `Disagreement`, OSError, and the errors of the pool."""
        versions, run = results.versions(), secrets.token_hex(16)
        yield from self._resumed()
        while self._waiting or self._suspects or self._running:
            self.doing("judging", self.done, len(self.paths))
            while (number := self._next()) is not None:
                path, options = self.paths[number], self._options(number)
                model = None if options.model is None else self.pool.located(options.model)
                known = dict(islice(reversed(self._known.items()), KNOWN)) | self._asked.pop(number, {})
                self.pool.submit(
                    Task(
                        number=number, name=path, path=self.pool.located(path), options=replace(options, model=model),
                        model=self._digest(options.model),
                        versions=versions, run=run, known=known, proves=number in self._proves,
                        taken=None if number not in self._taken else self._taken[number][1],
                    )
                )  # fmt: skip
                self._running.add(number)
            for task, came in self.pool.ended():
                self._running.discard(task.number)
                yield from self._died(task.number) if isinstance(came, Died) else self._came(task.number, came)

    def count_verdicts(self, verdicts: Sequence[Verdict]) -> Iterator[str]:
        """The end of the output: how many plans have each verdict, and which are not proved. spec: V7.11"""
        found = Counter(verdict.verdict for verdict in verdicts)
        counts = [
            f"{found[word]} {word}" for word in (PROVED, REFUTED, UNKNOWN, "ERROR") if word != "ERROR" or found[word]
        ]
        taken = "" if self.results is None else f", {self.taken} taken from {self.results.folder}"
        deaths = f", {count_noun(sum(self.deaths.values()), 'run')} lost as a worker died" if self.deaths else ""
        yield (
            f"{count_noun(len(verdicts), 'plan')}: {', '.join(counts)}; "
            f"{count_noun(self.proofs, 'proof')}{taken}{deaths}"
        )
        yield from (f"  {one.verdict} {one.file}" for one in verdicts if one.verdict != PROVED)

    def _options(self, number: int) -> Options:
        """Return the options of a file: with its own model, if it has one."""
        model = self.models.get(self.paths[number])
        return self.options if model is None else replace(self.options, model=model)

    def _digest(self, model: str | None) -> str | None:
        """Return the digest of a model's bytes, as they were when it was first asked for. Raises OSError."""
        if model is None:
            return None
        if model not in self._digests:
            self._digests[model] = digest_file(model)
        return self._digests[model]

    def _resumed(self) -> Iterator[Done]:
        """Take what an earlier run has left; the rest waits."""
        for number, path in enumerate(self.paths):
            found, key = None, ""
            if self.results is not None:
                self.doing("looking for kept verdicts", number, len(self.paths))
                options = self._options(number)
                key = results.key(path, options, self._digest(options.model))
                found = self.results.taken(key, path, options.model)
            if found is None:
                self._waiting.append(number)
                continue
            self.taken += 1
            if found.assumptions.get("rank") is None:
                yield self._ended(number, found, None)
            else:  # the other ranks must know what this one holds
                self._taken[number] = key, found
                self._waiting.append(number)

    def _next(self) -> int | None:
        """The number of the next file to begin with, if one can begin: a suspect runs without others."""
        if self._suspects:
            return None if self._running else self._suspects.popleft()
        if len(self._running) >= self.pool.size or not self._waiting:
            return None
        if len(self._running) == 1 and self.deaths[next(iter(self._running))]:
            return None
        return self._waiting.popleft()

    def _came(self, number: int, came: Judged) -> Iterator[Done]:
        if came.misuse is not None:
            raise Disagreement(came.misuse)
        if came.wanted is not None:
            self._want(number, came.wanted)
            if came.wanted in self._failed:
                yield self._lost(number, self._failed[came.wanted])
            return
        if number in self._taken and came.key != self._taken[number][0]:  # the file has changed since
            del self._taken[number]
            self.taken -= 1
            self._waiting.append(number)
            return
        proves = self._proves.pop(number, None)
        if came.answers is not None:
            self.proofs += 1
            self._tries[came.answers[0]] += 1
            if came.answers[1].proved or self._tries[came.answers[0]] >= TRIES:
                self._known[came.answers[0]] = came.answers[1]
        if proves is not None:
            self._release(proves)
        verdict = came.verdict
        assert verdict is not None  # nothing is wanted, and nothing misused
        if self.results is not None and number not in self._taken and came.key:
            self.results.keep(came.key, verdict)
        if verdict.model is not None:
            verdict = replace(verdict, model=self._options(number).model)
        yield self._ended(number, verdict, came.member)

    def _want(self, number: int, digest: bytes) -> None:
        """Words that are not known: known meanwhile, proved by this file, or held until another has proved them."""
        if digest in self._known:
            self._asked[number] = {digest: self._known[digest]}
            self._waiting.appendleft(number)
        elif digest in self._failed:
            return
        elif digest in self._proves.values():
            self._held[digest].append(number)
        else:
            self._proves[number] = digest
            self._waiting.appendleft(number)

    def _release(self, digest: bytes) -> None:
        """Let go on what was held for these words."""
        self._waiting.extendleft(self._held.pop(digest, ()))

    def _died(self, number: int) -> Iterator[Done]:
        """Judge again, alone, what may have run in a worker that died, or give it up."""
        self.deaths[number] += 1
        if self.deaths[number] <= DEATHS:  # the first may have been another's
            self._suspects.append(number)
            return
        reason = f"its worker has died {self.deaths[number]} times, {DEATHS} of them with nothing else running"
        digest = self._proves.pop(number, None)
        yield self._lost(number, reason)
        if digest is not None:
            self._failed[digest] = f"{self.paths[number]} has the same words, and {reason}"
            for other in self._held.pop(digest, ()):
                yield self._lost(other, self._failed[digest])

    def _lost(self, number: int, reason: str) -> Done:
        return self._ended(number, unjudged_verdict(self.paths[number], self._options(number), reason), None)

    def _ended(self, number: int, verdict: Verdict, member: Member | None) -> Done:
        self.done += 1
        return Done(number, verdict, None if member is None else self._shared(member))

    def _shared(self, member: Member) -> Member:
        """The same, of parts that members have in common: ten thousand ranks hold and meet much that is equal."""
        meetings = [self._met.setdefault(meeting, meeting) for meeting in member.meetings]
        parts = {sys.intern(name): self._parts.setdefault(held, held) for name, held in member.parts.items()}
        return replace(member, meetings=meetings, parts=parts)
