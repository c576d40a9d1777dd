"""A plan as a program that can be run: its steps, its tensors' addresses, and the declared sharing that is executed.

Lifetimes, storages and slots are not used: a run needs only the steps and the address of each tensor.
spec: SIM1.2, SIM2.1, SIM2.2
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tmmu.core.columns import NONE
from tmmu.core.vocabulary import NodePart, Role, Shares
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED, ROLES, SHARES
from tmmu.plans.sections import Plan
from tmmu.simulator.bodies import BodyTree, Holder, PlanStep, build_steps
from tmmu.simulator.operators import has_domain, is_view_result
from tmmu.simulator.witness import Corrupted, Corruption, malformed_program


@dataclass
class PlanProgram:
    """A plan to be run. `views` and `in_place` are the declared sharing that is executed (`spec/simulator.md`).

    `views` gives base and first byte, `in_place` the operand. `given` are the tensors that the caller writes,
    `returned` those that it reads at the end, and `kept` those that must then be unchanged. `persistent` are parameters
    and optimizer state among the given ones.
    """

    plan: Plan
    donated: frozenset[str] = frozenset()
    names: list[str] = field(init=False)
    sizes: list[int] = field(init=False)
    steps: list[PlanStep] = field(init=False)
    items: list[int | Holder] = field(init=False)
    views: dict[int, tuple[int, int]] = field(init=False, default_factory=dict)
    in_place: dict[int, int] = field(init=False, default_factory=dict)
    given: list[int] = field(init=False)
    persistent: frozenset[int] = field(init=False)
    returned: list[int] = field(init=False)
    kept: frozenset[int] = field(init=False)
    carried: frozenset[int] = field(init=False)
    """The tensors that the caller writes once, before the first batch: kept ones in persistent arenas, except views."""
    tied: list[int] = field(init=False, default_factory=list)
    """The tensors that the caller writes as views of others that it writes, bases first."""

    def __post_init__(self) -> None:
        t = self.plan.allocation.tensors
        self.names, self.sizes = t.name.list(), t.bytes.tolist()
        self.writer, self.dtypes = t.writer.tolist(), [self.plan.allocation.dtypes[k] for k in t.dtype.tolist()]
        self.arena: list[int] = self.plan.allocation.storages.arena[t.storage].tolist()
        offsets = self.plan.allocation.storages.offset[t.storage].tolist()
        self.address = [offset + window for offset, window in zip(offsets, t.window.tolist(), strict=True)]
        self.steps = build_steps(self.plan)
        roles = {ROLES.index(Role.PARAMETER), ROLES.index(Role.OPTIMIZER)}
        callers = {*roles, ROLES.index(Role.INPUT)}
        self.given = [
            i
            for i, (writer, role, flags) in enumerate(zip(self.writer, t.role.tolist(), t.flags.tolist(), strict=True))
            if writer == NONE and (role in callers or flags & IS_INPUT)
        ]
        read = IS_OUTPUT | IS_RETURNED
        self.persistent = frozenset(i for i in self.given if int(t.role[i]) in roles)
        self.kept = frozenset(i for i in self.persistent if self.names[i] not in self.donated)
        self._share()
        self.returned = [i for i, flags in enumerate(t.flags.tolist()) if flags & read or i in self.kept]
        self._tie()
        self._carry()
        self.items = BodyTree(self.plan, self.steps).all()

    def set_caller(self, kept: frozenset[int], returned: list[int]) -> None:
        """Set the tensors that the caller keeps and reads to a model's, and ignore the plan's ties. spec: SIM5.7"""
        self.kept, self.returned = kept, returned
        for t in self.tied:
            del self.views[t]
        self.tied.clear()
        self._carry()

    def is_over(self, step: PlanStep, t: int) -> bool:
        """Return whether a result overwrites an operand of the step: in place, or as a mutation."""
        return t in self.in_place or (t in step.mutates and t in step.operands)

    def at(self, n: int | None) -> str:
        """Return the name of a step for messages."""
        return f"step {n} ({self.steps[n].node})" if n is not None and n < len(self.steps) else "the caller"

    def corruption_at(
        self, text: str, tensors: tuple[str, ...], step: int | None, t: int, first: int, last: int
    ) -> Corrupted:
        """Return the corruption that showed at bytes `first` to `last` of the tensor `t`."""
        arena, address = self.plan.allocation.arenas[self.arena[t]].name, self.address[t]
        return Corrupted(Corruption(text, tensors, step, arena, address + first, address + last))

    def outside(self, t: int) -> Corrupted:
        """Return the corruption of a tensor that is outside of its arena."""
        name, where = self.names[t], self.plan.allocation.arenas[self.arena[t]].name
        last = max(0, self.sizes[t] - 1)
        return self.corruption_at(f"{name} is outside of the arena {where}", (name,), None, t, 0, last)

    def _share(self) -> None:
        """Find the declared sharing that can be executed. spec: SIM2.1, SIM2.2"""
        t = self.plan.allocation.tensors
        for w, (word, of, n) in enumerate(zip(t.shares.tolist(), t.of.tolist(), self.writer, strict=True)):
            if of == NONE:
                continue
            if n == NONE:
                self._caller_view(w, of, SHARES[word])
                continue
            step = self.steps[n]
            if step.part is not NodePart.WHOLE or of not in step.operands or w not in step.results or w in step.mutates:
                continue
            if SHARES[word] is Shares.VIEW and (offset := self._view_offset(step, w, of)) is not None:
                self.views[w] = (of, offset)
            same = (self.arena[w], self.address[w], self.sizes[w]) == (self.arena[of], self.address[of], self.sizes[of])
            if SHARES[word] is Shares.IN_PLACE and same:
                self.in_place[w] = of

    def _view_offset(self, step: PlanStep, w: int, of: int) -> int | None:
        """Return the byte of `of` at which its view `w` begins, or None if the operator is not a view."""
        if has_domain(step.op[0]):
            whole = self.sizes[w] == self.sizes[of] and step.operands[0] == of
            return 0 if whole and is_view_result(*step.op, step.results.index(w)) else None
        return self._window(w, of)

    def _carry(self) -> None:
        """Find the tensors that the caller writes once for all batches. spec: SIM8.4"""
        arenas = self.plan.allocation.arenas
        self.carried = frozenset(i for i in self.kept if i not in self.views and not arenas[self.arena[i]].reuse)

    def _caller_view(self, w: int, of: int, word: Shares) -> None:
        """Record a tied weight: a value that the caller writes once under two names."""
        offset = self._window(w, of) if word is Shares.VIEW and {w, of} <= set(self.given) else None
        if offset is not None:
            self.views[w] = (of, offset)

    def _tie(self) -> None:
        """Order the caller's views so that bases come first. Raises `Corrupted` for a circle."""
        waiting = [t for t in self.given if t in self.views]
        ready = {t for t in self.given if t not in self.views}
        while waiting:
            now = [t for t in waiting if self.views[t][0] in ready]
            if not now:
                raise malformed_program(f"{self.names[waiting[0]]} is a view of itself", self.names[waiting[0]])
            self.tied += now
            ready.update(now)
            waiting = [t for t in waiting if t not in ready]

    def _window(self, w: int, of: int) -> int | None:
        t = self.plan.allocation.tensors
        offset = int(t.window[w]) - int(t.window[of])
        inside = 0 <= offset <= self.sizes[of] - self.sizes[w]
        return offset if inside and t.storage[w] == t.storage[of] else None
