"""Run sequences of calls naively: one memory, byte by byte, each program beginning where the last one ended.

Every byte of every arena holds the value that was written there last. The caller writes the initial state once, and
before each call the tensors that are not state. A program finds its entries, writes as its steps do, and ends with its
exits. Every byte of an entry must hold the value that its shared tensor was given last, and every read of a step the
value of the tensor that is read. No rule about state is used: a program that touches it is found by what it destroys.
Of exclusive branches one runs at each call, and a loop now and then without an iteration. spec: PS1.4 to PS1.8, PS1.10,
PS4.6
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, product
from typing import NamedTuple

from proofs.definition.checker.memory import Bytes
from proofs.definition.checker.program import PlacedTensor
from proofs.definition.violations import Obligation, Violation
from proofs.sets.members import SetMember
from proofs.sets.state import StateTensor

BUDGET = 30_000
"""About how many writes and reads are made in all sequences together."""
LONGEST = 6
"""The longest sequences of which all are run."""
IDLE = 4
"""One in so many calls runs no iteration of a loop."""
NOTHING = 0
"""The value of a byte that was never written."""


class Origin(NamedTuple):
    """Where a value comes from: its tensor, and the call and the step that wrote it, or the caller."""

    tensor: str
    call: int | None = None
    step: int | None = None


class CallRun:
    """A sequence of calls that is run: the memory, the origin of each value, and the values that the state holds."""

    def __init__(self, members: Sequence[SetMember], state: Sequence[StateTensor], chance: random.Random) -> None:
        self.members = {member.name: member for member in members}
        self.state, self.chance = state, chance
        self.memory: dict[str, Bytes] = defaultdict(lambda: Bytes(NOTHING))
        self.origins = [Origin("nothing")]
        self.held: dict[str, int] = {}
        self.calls: list[str] = []
        self.work = 0
        for one in state:
            if one.is_initial:
                self.held[one.label] = self._write(one.arena, one.address, one.bytes, Origin(one.label))

    def is_ready(self, program: str) -> bool:
        """Whether all that a program reads of the state holds a value."""
        return all(
            one.label in self.held
            for one in self.state
            if program in one.uses and one.uses[program].entry is not None
        )  # fmt: skip

    def call(self, program: str) -> Violation | None:
        """Run a program that is ready; the first violation, or None. O(accesses of its steps)."""
        member, number = self.members[program], len(self.calls)
        self.calls.append(program)
        values: dict[int, int] = {}
        mine = [(one, one.uses[program]) for one in self.state if program in one.uses]
        for one, use in mine:
            if use.entry is not None:
                row = member.rows[use.entry]
                values[row] = self.held[one.label]
                if (found := self._finds(member, row, values[row], None)) is not None:
                    return found
        for row in member.callers:
            if row not in values:
                values[row] = self._write_tensor(member, row, Origin(member.tensor(row).name, number))
        skipped = self._skipped(member)
        for n, step in enumerate(member.run.steps):
            if n in skipped:
                continue
            for row in step.reads:
                value = values.get(member.root(row))
                if value is not None and (found := self._finds(member, row, value, n)) is not None:
                    return found
            for row in step.writes:
                if row not in member.run.views:
                    values[row] = self._write_tensor(member, row, Origin(member.tensor(row).name, number, n))
        for one, use in mine:
            if use.exit is not None:
                value = values.get(member.root(member.rows[use.exit]))
                if value is None:
                    text = (
                        f"call {number} ({program}) ends, and nothing has written {use.exit}, the exit of {one.label}"
                    )
                    which, calls = Obligation.STATE_IS_WRITTEN_FIRST, tuple(self.calls)
                    return Violation(which, text, (use.exit,), programs=(program,), calls=calls)
                self.held[one.label] = value
        return None

    def _write_tensor(self, member: SetMember, row: int, origin: Origin) -> int:
        t = member.tensor(row)
        return self._write(member.run.arenas[t.arena].name, t.address, t.bytes, origin)

    def _write(self, arena: str, address: int, size: int, origin: Origin) -> int:
        self.origins.append(origin)
        self.memory[arena].write(address, address + size, len(self.origins) - 1)
        self.work += 1
        return len(self.origins) - 1

    def _finds(self, member: SetMember, row: int, value: int, step: int | None) -> Violation | None:
        """Return the violation that a tensor does not hold a value in all its bytes, or None."""
        t = member.tensor(row)
        arena = member.run.arenas[t.arena].name
        self.work += 1
        if t.bytes and not self.memory[arena].is_run(t.address, t.address + t.bytes, value):
            for first, end, got in self.memory[arena].read(t.address, t.address + t.bytes):
                if got != value:
                    return self._destroyed(member, t, step, (arena, first, end - 1), self.origins[got])
        return None

    def _destroyed(
        self, member: SetMember, t: PlacedTensor, step: int | None, where: tuple[str, int, int], by: Origin
    ) -> Violation:
        origin = by.tensor
        if by.call is not None:
            at = "the caller" if by.step is None else f"step {by.step} ({self._node(by)})"
            origin += f" of {self.calls[by.call]}, written by {at} in call {by.call}"
        does = "finds" if step is None else f"reads at step {step}"
        text = f"call {len(self.calls) - 1} ({member.name}) {does} {t.name}, whose bytes hold {origin}"
        programs = tuple(dict.fromkeys((member.name, *([self.calls[by.call]] if by.call is not None else []))))
        names, calls = (t.name, by.tensor), tuple(self.calls)
        return Violation(Obligation.STATE_IS_UNTOUCHED, text, names, step, *where, programs=programs, calls=calls)

    def _node(self, origin: Origin) -> str:
        assert origin.call is not None
        assert origin.step is not None
        return self.members[self.calls[origin.call]].run.nodes[origin.step]

    def _skipped(self, member: SetMember) -> set[int]:
        """Return the steps of the bodies that do not run in this call: all but one, or now and then those of a loop."""
        skipped = set[int]()
        for may_run_none, bodies in member.alternatives:
            chosen = self.chance.randrange(len(bodies))
            runs_none = may_run_none and self.chance.randrange(IDLE) == 0
            for k, steps in enumerate(bodies):
                if runs_none or not (may_run_none or k == chosen):
                    skipped |= steps
        return skipped


def find_call_violations(members: Sequence[SetMember], state: Sequence[StateTensor]) -> Iterator[Violation]:
    """Yield the first violation that a sequence of calls shows, or nothing. A program is called only if it is ready.

    All sequences of up to `LONGEST` calls are run, the short ones first, as far as the budget of work reaches. Then all
    programs run twice in turn, whatever that takes; then every program after every other, and in a fixed pseudo-random
    order, as far as another budget reaches.
    """
    chance = random.Random(0)  # a fixed order: equal sets give equal runs
    names = [member.name for member in members]
    work = 0
    for length in range(1, LONGEST + 1):
        if work > BUDGET or len(names) ** length > BUDGET:
            break
        for calls in product(names, repeat=length):
            run = CallRun(members, state, chance)
            found = _run(run, calls)
            if found is not None:
                yield found
                return
            work += run.work
            if work > BUDGET:
                break
    run = CallRun(members, state, chance)
    for name in (*names, *names):
        if run.is_ready(name) and (found := run.call(name)) is not None:
            yield found
            return
    pairs = (name for pair in product(names, repeat=2) for name in pair)
    shuffled = (chance.choice(names) for _ in range(8 * len(names) ** 2))
    for name in chain(pairs, shuffled):
        if run.work > BUDGET:
            return
        if run.is_ready(name) and (found := run.call(name)) is not None:
            yield found
            return


def _run(run: CallRun, calls: Sequence[str]) -> Violation | None:
    """Run a sequence as far as each program is ready."""
    for name in calls:
        if not run.is_ready(name):
            return None
        if (found := run.call(name)) is not None:
            return found
    return None
