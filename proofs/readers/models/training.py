"""Derive the steps that a model must run in the mode of a plan: its forward half, or the joint graph of both halves.

A model that has only a forward half is differentiated here, by the checker itself: which steps have a gradient step,
what that reads, which parts a gradient has and in which order they are added. The planner's method has no influence.
spec: M1.4, M1.6, M2.1 to M2.12, V3.5
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace

from proofs.readers.models.reference import ReferenceProgram, ReferenceStep
from proofs.readers.operators import (
    GRADIENTS,
    OLD_DROPOUT_ASSUMED,
    ViewTime,
    derivative,
    overwritable,
    row_of,
    shows_in_every_result,
)
from proofs.readers.operators.gradients import Uses
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ARRIVAL, NodePart, Phase, Role

_PERSISTENT = frozenset({Role.PARAMETER, Role.OPTIMIZER})


def reference_in_mode(reference: ReferenceProgram, mode: str) -> ReferenceProgram:
    """Return what must be run of a model in a mode. A model that has a backward half is returned unchanged.

    Raises MODE_VIOLATION if a backward half is needed, and the model has none and none can be made.
    """
    own = Phase.BACKWARD in reference.phases.values()
    if mode == "inference":  # the mode that an old Dropout's text leaves open
        assumed = [what for what in reference.assumed if what != OLD_DROPOUT_ASSUMED]
        return replace(_forward_half(reference), assumed=assumed)
    if mode == "forward":
        if reference.saved and not own:
            return _forward_half(reference)
        both = reference if own or not reference.steps else build_joint_graph(reference)
        _refuse_changes(both)
        return _forward_half(replace(both, saved=reference.saved | saved_for_backward(both)))
    return reference if own or not reference.steps else build_joint_graph(reference)


def delay_seeds(reference: ReferenceProgram, late: frozenset[str]) -> ReferenceProgram:
    """Return a joint graph with an arrival for each seed that a plan states as late, if one may be late (M2.16).

    O(accesses). spec: M2.16
    """
    read = {name for step in reference.steps for name in step.reads}
    changed = {name for step in reference.steps for name in step.mutates} | reference.late
    seeds = [
        name
        for name in reference.inputs
        if name in late
        and name.endswith(".seed")
        and reference.roles[name] is Role.INPUT
        and name in read
        and name not in changed
    ]
    if not seeds or reference.streams:
        return reference
    arrivals = [ReferenceStep(f"{name}.arrival", *ARRIVAL, NodePart.WHOLE, "", (), (name,)) for name in seeds]
    phases = {**reference.phases, **{step.node: Phase.BACKWARD for step in arrivals}}
    return replace(reference, steps=[*arrivals, *reference.steps], phases=phases)


def saved_for_backward(both: ReferenceProgram) -> frozenset[str]:
    """Return the tensors of the forward half that backward steps read, except parameters and optimizer state.

    O(accesses).
    """
    touched, read, written = set[str](), set[str](), set[str]()
    for step in both.steps:
        phase = _phase(both, step)
        if phase is Phase.FORWARD:
            touched.update(step.reads, step.writes)
        elif phase is Phase.BACKWARD:
            read.update(step.reads)
            written.update(name for name in step.made)  # a mutated tensor is read first
    return frozenset(name for name in (read & touched) - written if both.roles[name] not in _PERSISTENT)


def _refuse_changes(both: ReferenceProgram) -> None:
    """Raise MODE_VIOLATION if a forward step changes what a backward step before it reads: it is not kept.

    spec: M1.12
    """
    read = set[str]()
    for step in both.steps:
        phase = _phase(both, step)
        if phase is Phase.BACKWARD:
            read.update(_shown(both, name) for name in step.reads)
        elif phase is Phase.FORWARD and (lost := sorted(read.intersection(step.mutates))):
            raise _no_gradient(step.node, f"it changes {lost[0]!r}, which a backward step before it reads")


def _shown(both: ReferenceProgram, name: str) -> str:
    """Return the tensor at the end of a chain of views, or the tensor itself."""
    while name in both.views:
        name = both.views[name][0]
    return name


def _phase(both: ReferenceProgram, step: ReferenceStep) -> Phase:
    """Return the half of a step: that of the outermost node around it that is not a forward one, or its own."""
    phase, body = both.phases.get(step.node, Phase.FORWARD), step.body
    while body:
        around = both.phases.get(both.bodies[body].owner, Phase.FORWARD)
        phase = around if around is not Phase.FORWARD else phase
        body = both.bodies[body].parent
    return phase


def _forward_half(reference: ReferenceProgram) -> ReferenceProgram:
    """Return the model without the steps of its other phases, and without the tensors that only those access."""
    if not reference.phases:
        return reference
    gone = set[str]()
    for name, body in reference.bodies.items():  # outer ones first
        if body.owner in reference.phases or body.parent in gone:
            gone.add(name)
    kept = [step for step in reference.steps if step.node not in reference.phases and step.body not in gone]
    everywhere = {name for step in reference.steps for name in (*step.reads, *step.writes)}
    stays = (reference.sizes.keys() - everywhere) | {name for step in kept for name in (*step.reads, *step.writes)}
    for name in list(stays):
        while name in reference.views:
            name = reference.views[name][0]
            stays.add(name)
    return replace(
        reference,
        steps=kept,
        bodies={name: body for name, body in reference.bodies.items() if name not in gone},
        sizes={name: size for name, size in reference.sizes.items() if name in stays},
        roles={name: role for name, role in reference.roles.items() if name in stays},
        inputs=tuple(name for name in reference.inputs if name in stays),
        outputs=tuple(name for name in reference.outputs if name in stays),
        saved=reference.saved & stays,
        must_not_alias=frozenset(pair for pair in reference.must_not_alias if pair <= stays),
        phases={},
    )


def build_joint_graph(forward: ReferenceProgram) -> ReferenceProgram:
    """Return the joint graph of a model with a forward half only (and optimizer steps, at most).

    O(steps + accesses).
    """
    for step in forward.steps:
        if step.part is not NodePart.WHOLE or (step.mutates and step.node not in forward.phases):
            raise _no_gradient(step.node, "bodies and mutations have no gradient")
    made = _Joint(forward)
    made.run()
    if shared := sorted(made.result.saved & forward.alias_groups.keys()):
        raise _no_gradient(shared[0], "backward reads it, and it shares bytes in an alias group")
    return made.result


def _no_gradient(place: str, what: str) -> TmmuError:
    return TmmuError("MODE_VIOLATION", what, place=place, fix="verify a plan of mode inference", mode="backward")


@dataclass
class _Term:
    """One operand of one step that contributes to a gradient, what the formula uses, and its place in the sum."""

    step: int
    position: int
    uses: Uses
    place: int = field(init=False)


@dataclass
class _Joint:
    """The joint graph in the making. `terms` are the terms of each tensor's gradient, in the order of the steps."""

    forward: ReferenceProgram
    terms: dict[str, list[_Term]] = field(default_factory=lambda: defaultdict(list))
    of_step: dict[int, list[tuple[str, _Term]]] = field(default_factory=lambda: defaultdict(list))

    def run(self) -> None:
        f = self.forward
        steps = [step for step in f.steps if step.node not in f.phases]
        self.named = {step.node for step in f.steps}
        self.steps = [replace_scratch(step, f.roles) for step in steps]
        self.result = replace(
            f, steps=list(steps), sizes=dict(f.sizes), shapes=dict(f.shapes), alignments=dict(f.alignments),
            roles=dict(f.roles), views=dict(f.views), in_place=set(f.in_place), phases=dict(f.phases),
            floating=set(f.floating),
        )  # fmt: skip
        wanted = self._wanted()
        self._find_terms(wanted)
        if not self.terms:
            raise _no_gradient(f.steps[0].node, "no output depends on a parameter")
        seeded = [name for name in f.outputs if name in self.dependent]
        self.taken = frozenset(self._taken_by_optimizer(wanted).values())
        for name in seeded:
            self._new(f"{name}.seed", like=name, role=Role.INPUT)
        self.seeds = {name: f"{name}.seed" for name in seeded}
        for index in sorted(self.of_step, reverse=True):
            self._differentiate(index)
        gradients = [self.gradient(name) for name in wanted if name in self.terms or name in self.seeds]
        self.result.steps += [step for step in f.steps if step.node in f.phases]
        self.result.inputs = tuple(n for n in f.inputs if n not in self.taken) + tuple(self.seeds.values())
        known = self.taken.union(f.outputs)
        self.result.outputs = (*f.outputs, *(g for g in gradients if g not in known))
        self.result.saved = saved_for_backward(self.result)

    def _wanted(self) -> list[str]:
        """Return the tensors whose gradients are requested."""
        f = self.forward
        weights = [n for n, role in f.roles.items() if role is Role.PARAMETER and n in f.floating and f.shapes[n]]
        return weights or [name for name in f.inputs if name in f.floating]

    def _find_terms(self, wanted: list[str]) -> None:
        """Find the terms: all that depends on a wanted tensor and that a seeded output depends on."""
        formulas: list[dict[int, Uses]] = []
        self.dependent = set(wanted)
        for step in self.steps:
            known = "" if step.domain or step.node in self.forward.opaque else step.op
            found = {
                p: derivative(known, p, len(step.writes)) for p, name in enumerate(step.reads) if name in self.dependent
            }
            formulas.append({p: uses for p, uses in found.items() if uses is not None})
            if formulas[-1]:
                self.dependent.update(name for name in step.writes if name in self.forward.floating)
        reached = {name for name in self.forward.outputs if name in self.dependent}
        for index in range(len(self.steps) - 1, -1, -1):
            step = self.steps[index]
            if reached.isdisjoint(step.writes):
                continue
            for position, uses in formulas[index].items():
                reached.add(step.reads[position])
                self.of_step[index].append((step.reads[position], _Term(index, position, uses)))
        for index in sorted(self.of_step):
            for name, term in self.of_step[index]:
                term.place = len(self.terms[name])
                self.terms[name].append(term)

    def _taken_by_optimizer(self, wanted: list[str]) -> dict[str, str]:
        """Return the parameters whose gradient an optimizer step reads, under the name of an input of the model."""
        f = self.forward
        read = {n for step in f.steps if f.phases.get(step.node) is Phase.OPTIMIZER for n in step.reads}
        given = read.intersection(f.inputs)
        found = {}
        for name in wanted:
            other = f"{name}.grad"
            alike = other in f.sizes and (f.shapes[other], f.sizes[other]) == (f.shapes[name], f.sizes[name])
            if name in self.terms and other in given and alike and other in f.floating:
                found[name] = other
                self.result.roles[other] = Role.GRADIENT
        return found

    def gradient(self, name: str) -> str:
        """Return the tensor that holds the whole gradient of `name`."""
        return f"{name}.grad" if name in self.terms else self.seeds[name]

    def _new(self, name: str, like: str, role: Role = Role.GRADIENT) -> str:
        """Add a tensor of the size of another, and return its name."""
        r = self.result
        if name in self.taken:
            return name
        if name in r.sizes:
            raise _no_gradient(name, "the model has a tensor of this name already")
        r.sizes[name], r.shapes[name], r.alignments[name] = r.sizes[like], r.shapes[like], r.alignments[like]
        r.roles[name] = role
        r.floating.add(name)
        return name

    def _differentiate(self, index: int) -> None:
        """Add the gradient step of a step, and the additions that it is the last to contribute to."""
        step, own, r = self.steps[index], self.of_step[index], self.result
        given = [self.gradient(name) for name in step.writes if name in self.terms or name in self.seeds]
        operands = {p for _, term in own for p in range(len(step.reads)) if p in term.uses.operands}
        results = {p for _, term in own for p in range(len(step.writes)) if p in term.uses.results}
        used = {step.reads[p] for p in operands} | {step.writes[p] for p in results}
        reads = dict.fromkeys([*given, *(name for name in (*step.reads, *step.writes) if name in used)])
        writes = [self._part(name, term) for name, term in own]
        domain, op = self._operator(step)
        back = not domain
        elements = math.prod(r.shapes[given[0]])
        for result, (name, _) in zip(writes, own, strict=True):
            summand = shows_in_every_result(domain, op) and math.prod(r.shapes[name]) == elements
            if back or summand:
                r.views[result] = (given[0], 0)
        alike = (r.shapes[writes[0]], r.width(writes[0])) == (r.shapes[given[0]], r.width(given[0]))
        if alike and overwritable(domain, op, tuple(reads)):
            r.in_place.add((writes[0], given[0]))
        self._add_step(f"{step.node}.grad", domain, op, tuple(reads), tuple(writes))
        for name in dict.fromkeys(name for name, _ in own):
            if self.terms[name][0].step == index:
                self._add_up(name)

    def _operator(self, step: ReferenceStep) -> tuple[str, str]:
        """Return domain and operator of a step's gradient.

        Raises MODE_VIOLATION if nothing holds what it needs. spec: M2.15
        """
        if self._keeps_elements(step):
            return "", "Reshape"
        if not step.domain and step.op == "Dropout" and len(step.writes) < 2:
            raise _no_gradient(step.node, "it is a Dropout without mask, so that nothing states what it dropped")
        if step.node in self.forward.opaque:
            return f"{GRADIENTS}/ai.onnx", f"{step.op}Grad"
        return (f"{GRADIENTS}/{step.domain}" if step.domain else GRADIENTS), f"{step.op}Grad"

    def _keeps_elements(self, step: ReferenceStep) -> bool:
        """Whether the result has the operand's elements in their order, so that the gradient is reshaped back."""
        f = self.forward
        if step.domain or step.node in f.opaque:
            return False
        own = row_of("", step.op)
        if own.view is ViewTime.AT_INFERENCE:
            same = f.sizes[step.reads[0]] == f.sizes[step.writes[0]]
            return same and f.views.get(step.writes[0]) == (step.reads[0], 0)
        a, b = step.reads[0], step.writes[0]
        same = math.prod(f.shapes[a]) == math.prod(f.shapes[b]) and f.sizes[a] == f.sizes[b]
        return same and own.gradient is not None and own.gradient.reshapes

    def _part(self, name: str, term: _Term) -> str:
        """Return the tensor for one term: the gradient itself if there is no other term."""
        parts = self.terms[name]
        if len(parts) == 1 and name not in self.seeds:
            return self._new(f"{name}.grad", like=name)
        return self._new(f"{name}.grad.part{term.place}", like=name)

    def _add_up(self, name: str) -> None:
        """Add the additions of a gradient's terms: by step and operand, and the caller's seed after them all."""
        parts = [f"{name}.grad.part{k}" for k in range(len(self.terms[name]))]
        if name in self.seeds:
            parts.append(self.seeds[name])
        total = parts[0]
        for k in range(1, len(parts)):
            added = f"{name}.grad" if k + 1 == len(parts) else f"{name}.grad.sum{k}"
            self._new(added, like=name)
            self.result.in_place |= {(added, total), (added, parts[k])}
            self._add_step(f"{name}.grad.add{k}", "", "Add", (total, parts[k]), (added,))
            total = added

    def _add_step(self, node: str, domain: str, op: str, reads: tuple[str, ...], writes: tuple[str, ...]) -> None:
        if node in self.named:
            raise _no_gradient(node, "the model has a node of this name already")
        self.result.phases[node] = Phase.BACKWARD
        self.result.steps.append(ReferenceStep(node, domain, op, NodePart.WHOLE, "", reads, writes))


def replace_scratch(step: ReferenceStep, roles: dict[str, Role]) -> ReferenceStep:
    """Return a step without its scratch, which is not an operand."""
    reads, writes = (
        tuple(name for name in names if roles[name] is not Role.SCRATCH) for names in (step.reads, step.writes)
    )
    return step._replace(reads=reads, writes=writes)
