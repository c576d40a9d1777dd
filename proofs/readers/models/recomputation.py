"""Find the steps of a plan that run a forward step again, and what may be read in place of its first results.

In addition to the model's step `n`, a plan may have the step `n.recompute0`, which writes `t.recompute0` for each
result `t`. It must be the same operator and read, at each place, the same tensor or one that was itself shown to be
recomputed. Then it writes the same values, and every step may read them instead. Any other additional step is an extra
step. spec: M1.8, M1.9, V3.6
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from proofs.readers.models.reference import ReferenceProgram, ReferenceStep
from proofs.readers.models.training import saved_for_backward
from proofs.readers.operators import ViewTime, draws, is_covered, qualify_name, row_of
from tmmu.core.vocabulary import NodePart, Phase, Role
from tmmu.plans.columns import PARTS
from tmmu.plans.sections import Plan

_CLONE = re.compile(r"(?P<node>.+)\.(?P<suffix>recompute[0-9]+)", re.DOTALL)


def add_recomputation(reference: ReferenceProgram, plan: Plan, mode: str) -> ReferenceProgram:
    """Return the model with the steps that a plan of mode backward rightly runs again. O(steps + accesses)."""
    if mode != "backward" or not any(_CLONE.fullmatch(node) for node in plan.allocation.steps.node):
        return reference
    again = _Again(reference, plan)
    again.run()
    return again.result()


class _Again:
    """The steps that are run again. `origin` maps each recomputed tensor to the model's tensor with the same value."""

    def __init__(self, reference: ReferenceProgram, plan: Plan) -> None:
        self.reference, self.plan = reference, plan
        self.model = {(step.node, step.part): step for step in reference.steps}
        self.origin: dict[str, str] = {}
        self.clones: dict[str, list[ReferenceStep]] = {}
        self.reads: dict[str, tuple[str, ...]] = {}
        self.facts = replace(
            reference, sizes=dict(reference.sizes), shapes=dict(reference.shapes),
            alignments=dict(reference.alignments), roles=dict(reference.roles), views=dict(reference.views),
            in_place=set(reference.in_place),
            phases=dict(reference.phases), repeated=set(),
        )  # fmt: skip

    def run(self) -> None:
        names = self.plan.allocation.tensors.name.list()
        reads, writes = (self.plan.allocation.steps.listed(which) for which in ("reads", "writes"))
        parts = map(PARTS.__getitem__, self.plan.allocation.steps.part.tolist())
        for node, part, read, written in zip(self.plan.allocation.steps.node, parts, reads, writes, strict=True):
            given = tuple(names[row] for row in read)
            if (node, part) in self.model:
                self._follow(self.model[node, part], given)
            elif (found := _CLONE.fullmatch(node)) and part is NodePart.WHOLE:
                original = self.model.get((found["node"], part))
                if original is not None:
                    self._repeat(original, found["suffix"], given, tuple(names[row] for row in written))

    def _follow(self, step: ReferenceStep, given: tuple[str, ...]) -> None:
        """Add a step of the model that reads recomputed values in place of some, all or none of the first ones."""
        if self._same(step.reads, given):
            self.reads[step.node] = given
            self._note_sharing(step, given, step.writes)

    def _repeat(self, step: ReferenceStep, suffix: str, given: tuple[str, ...], written: tuple[str, ...]) -> None:
        """Add a step that runs `step` again, if it does."""
        roles, clone = self.reference.roles, f"{step.node}.{suffix}"
        renamed = {
            name: f"{clone}{name.removeprefix(step.node)}" if roles[name] is Role.SCRATCH else f"{name}.{suffix}"
            for name in step.writes
        }
        scratch = {name: new for name, new in renamed.items() if roles[name] is Role.SCRATCH}
        reads = tuple(scratch.get(name, name) for name in step.reads)
        fits = (
            step.node not in self.reference.phases
            and not step.body
            and not step.mutates
            and not self._draws(step)
            and not set(renamed.values()) & self.facts.sizes.keys()
            and written == tuple(renamed.values())
            and self._same(reads, given)
        )
        if not fits:
            return
        f = self.facts
        for name, new in renamed.items():
            f.sizes[new], f.shapes[new], f.alignments[new] = f.sizes[name], f.shapes[name], f.alignments[name]
            f.roles[new] = f.roles[name]
            if name not in scratch:
                self.origin[new] = name
        f.phases[clone] = Phase.BACKWARD
        if not is_covered(step.domain):
            f.repeated.add(qualify_name(step.domain, step.op))
        self.clones.setdefault(step.node, []).append(step._replace(node=clone, reads=given, writes=written))
        self._note_sharing(step, given, written)

    def _draws(self, step: ReferenceStep) -> bool:
        """Whether a step may give other values each time."""
        if row_of(step.domain, step.op).view is ViewTime.AT_INFERENCE:
            return step.writes[0] not in self.reference.views
        return draws(step.op)

    def _same(self, model: Sequence[str], given: Sequence[str]) -> bool:
        """Whether each tensor that is read has the value of the model's tensor at its position."""
        return len(model) == len(given) and all(
            a == b or self.origin.get(b) == a for a, b in zip(model, given, strict=True)
        )

    def _note_sharing(self, step: ReferenceStep, given: tuple[str, ...], written: tuple[str, ...]) -> None:
        """Record views and in-place pairs of a step, for the tensors at the positions of its operands and results."""
        places: dict[str, list[str]] = {}
        for name, new in zip(step.reads, given, strict=True):
            places.setdefault(name, []).append(new)
        for result, new in zip(step.writes, written, strict=True):
            if result in self.reference.views:
                base, offset = self.reference.views[result]
                if base in places:
                    self.facts.views[new] = (places[base][0], offset)
            for operand, others in places.items():
                if (result, operand) in self.reference.in_place:
                    self.facts.in_place.update((new, other) for other in others)

    def result(self) -> ReferenceProgram:
        """Return the model with the repeated steps, each directly after the one that it repeats."""
        if not self.clones:
            return self.reference
        steps = []
        for step in self.reference.steps:
            steps.append(step._replace(reads=self.reads.get(step.node, step.reads)))
            steps += self.clones.get(step.node, ())
        both = replace(self.facts, steps=steps)
        return replace(both, saved=saved_for_backward(both))
