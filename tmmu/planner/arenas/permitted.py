"""Find the arenas that each tensor may use: those of its node's request, its first matching rule, or its role (M3).

The node of a tensor is the one that writes it; for the caller's tensors the first that reads it. The device of a node
is the first with a pattern for its name or its operator. spec: M3.7, M3.8
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, ArenaPolicy, Role, Rule
from tmmu.ir.program import ModelProgram
from tmmu.planner.patterns import NameMatcher
from tmmu.planner.problem import Choices
from tmmu.plans.columns import ROLES
from tmmu.plans.sections import Plan, arena_configurations


class RuleSubject(NamedTuple):
    """The properties that rules match: a tensor's role and name, and its node's name and operator, if it has one."""

    role: Role
    name: str
    node: str | None
    op: str | None


class PermittedArenas(NamedTuple):
    """The choices of a tensor, empty if no arena is for it, and the row of the rule that gave them, if any."""

    choices: Choices
    rule: int | None


class Directory:
    """The configuration as lookup tables for tensors."""

    def __init__(self, arenas: Sequence[ArenaConfiguration], policy: ArenaPolicy) -> None:
        number = {arena.name: a for a, arena in enumerate(arenas)}
        self.by_role: dict[Role, Choices] = {role: (a,) for a, arena in enumerate(arenas) for role in arena.roles}
        self.by_rule: list[Choices] = [tuple(number[name] for name in rule.arenas) for rule in policy.rules]
        self.by_device = [(d.name, NameMatcher(d.nodes), NameMatcher(d.ops)) for d in policy.devices]
        self.rules = [(rule, NameMatcher(rule.names), NameMatcher(rule.ops)) for rule in policy.rules]
        self.runs_on: dict[tuple[str | None, str | None], str | None] = {}

    def device(self, subject: RuleSubject) -> str | None:
        """Return the device of the tensor's node, None if it has none."""
        key = subject.node, subject.op
        if key not in self.runs_on:
            fitting = (name for name, nodes, ops in self.by_device if nodes(subject.node) or ops(subject.op))
            self.runs_on[key] = next(fitting, None)
        return self.runs_on[key]

    def look_up(self, subject: RuleSubject) -> PermittedArenas:
        """Return the choices by the first rule that matches, otherwise by the role."""
        for r, (rule, names, ops) in enumerate(self.rules):
            if self._matches(rule, names, ops, subject):
                return PermittedArenas(self.by_rule[r], r)
        return PermittedArenas(self.by_role.get(subject.role, ()), None)

    def _matches(self, rule: Rule, names: NameMatcher, ops: NameMatcher, subject: RuleSubject) -> bool:
        return (
            (not rule.roles or subject.role in rule.roles)
            and (not rule.names or names(subject.name))
            and (not rule.ops or ops(subject.op))
            and (not rule.devices or self.device(subject) in rule.devices)
        )


def _first_steps(tensors: int, accesses: Iterable[tuple[Sequence[int], Sequence[int]]]) -> list[int | None]:
    """Return the step of each tensor's node: the first that writes it, otherwise the first that reads it.

    `accesses` has the reads and writes of each step.
    """
    writer: list[int | None] = [None] * tensors
    reader: list[int | None] = [None] * tensors
    for s, (reads, writes) in enumerate(accesses):
        for t in reads:
            if reader[t] is None:
                reader[t] = s
        for t in writes:
            if writer[t] is None:
                writer[t] = s
    return [r if w is None else w for w, r in zip(writer, reader, strict=True)]


def permitted_arenas(run: ModelProgram, arenas: tuple[ArenaConfiguration, ...], policy: ArenaPolicy) -> list[Choices]:
    """Return the arenas that each tensor may use, best first. O((tensors + accesses) x rules).

    A scratch request may name its arena. A caller's tensor that a step mutates remains the caller's. Raises
    INVALID_ARENA_CONFIG for a tensor without an arena.
    """
    directory, by_name = Directory(arenas, policy), {arena.name: a for a, arena in enumerate(arenas)}
    steps: Sequence[int | None] = [None] * len(run.tensors)
    if policy.rules:
        steps = _first_steps(len(run.tensors), ((s.reads, s.made) for s in run.steps))
    elif not run.scratch_arena:
        by_role = [directory.by_role.get(tensor.role, ()) for tensor in run.tensors]
        if all(by_role):
            return by_role
    found: list[Choices] = []
    for t, (tensor, step) in enumerate(zip(run.tensors, steps, strict=True)):
        wanted = run.scratch_arena.get(t)
        if wanted is not None:
            choices: Choices = (by_name[wanted],) if wanted in by_name else ()
        else:
            node = None if step is None else run.model.nodes[run.steps[step].node]
            of_node = (None, None) if node is None else (node.name, node.op)
            subject = RuleSubject(tensor.role, tensor.name, *of_node)
            choices = directory.look_up(subject).choices
        if not choices:
            missing = f"arena {wanted!r}" if wanted is not None else f"arena for the role {tensor.role}"
            raise TmmuError(
                "INVALID_ARENA_CONFIG",
                f"the configuration has no {missing}",
                place=f"tensor {tensor.name!r}",
                fix="add it to the arena configuration",
                arena=wanted or str(tensor.role),
            )
        found.append(choices)
    return found


def permitted_arenas_of_plan(plan: Plan) -> list[PermittedArenas]:
    """Return the choices of each tensor of a plan, with the rule.

    A plan does not record the arena of a scratch request.
    """
    directory = Directory(arena_configurations(plan), plan.configuration.policy)
    reads, writes, mutates = (plan.allocation.steps.listed(which) for which in plan.allocation.steps.LISTS)
    changed = map(frozenset, mutates)
    accesses = ((r, [t for t in w if t not in m]) for r, w, m in zip(reads, writes, changed, strict=True))
    nodes, ops = plan.allocation.steps.node.list(), plan.allocation.steps.op.tolist()
    found = []
    steps = _first_steps(len(plan.allocation.tensors), accesses)
    for name, role, step in zip(
        plan.allocation.tensors.name, plan.allocation.tensors.role.tolist(), steps, strict=True
    ):
        node, op = (None, None) if step is None else (nodes[step], plan.allocation.ops[ops[step]][1])
        found.append(directory.look_up(RuleSubject(ROLES[role], name, node, op)))
    return found
