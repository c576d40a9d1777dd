"""Group tensors that share bytes into storages: views, declared alias groups and granted in-place results (T2, T3).

Views and alias groups are facts of the model. An in-place hint is granted only if the results of the run do not change.
Hints are decided step by step, in the order of the results, each given the decisions before it. A refused hint is
reported with the reason. The storages are the allocation problem that arenas, slots and layout solve.
spec: T2.1, T2.2, T2.3, T2.4, T2.7, T2.8, T2.9, T3.1, T3.2, T3.3, T3.4, T3.5, T3.6, T3.7, T3.8, T3.9,
spec: T4.1, T4.2, T4.3, T8.6, T8.7
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tmmu.core.columns import Attribute, attribute_values, pack_integers, rows_with
from tmmu.core.dtypes import BITS
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ANYWHERE, ArenaConfiguration, ArenaPolicy, NodePart, Shares, Tensor
from tmmu.ir.program import ModelProgram, find_defining_bodies
from tmmu.ir.validate import CALLERS
from tmmu.planner.arenas import permitted
from tmmu.planner.fixed import RequestedPlace, add_fixed
from tmmu.planner.liveness import Liveness
from tmmu.planner.problem import AllocationProblem, Choices, find_conflicts
from tmmu.planner.streams.steps import StepOrder

NO_TENSOR = -1


class RefusedHint(NamedTuple):
    """An in-place hint that was not granted, with the reason."""

    node: str
    result: str
    operand: str
    reason: str


@dataclass(frozen=True)
class Aliasing:
    """For each tensor its storage, its window, its kind of sharing, and the tensor that it shares with, or NO_TENSOR.

    `storages` is the allocation problem: a storage may be placed in the arenas permitted to its root, the tensor that
    the others share with. `refused` are the hints that were not granted.
    """

    storage: Sequence[int]
    window: Sequence[int]
    shares: list[Shares]
    of: list[int]
    storages: AllocationProblem
    refused: list[RefusedHint]


class _Classes:
    """Alias classes as a union-find structure.

    The facts of a class are stored at its root, and only if there are hints.
    """

    def __init__(
        self,
        program: ModelProgram,
        live: Liveness,
        mode: str,
        donated: frozenset[int],
        order: StepOrder | None = None,
    ) -> None:
        self.parent: MutableSequence[int] = pack_integers(range(len(program.tensors)), "i")
        self.joined = False
        self.is_hinted = any(attribute_values(program.model.nodes, "in_place"))
        if not self.is_hinted:
            return
        self.order = order
        # With streams: the last step on each stream that accesses the class.
        self.last: list[dict[int, int]] = [] if order is None else _last_on_streams(program, order)
        self.death = list(live.death)
        self.alignment = list(attribute_values(program.tensors, "alignment"))
        retained = mode != "inference"
        # The reason why in-place reuse of the class is forbidden, or empty.
        self.kept = [""] * len(program.tensors)
        for t, tensor in enumerate(program.tensors):
            if tensor.role in CALLERS and t not in donated:
                self.kept[t] = f"it is a graph {tensor.role} that is not donated"
            elif retained and tensor.saved_for_backward:
                self.kept[t] = "it is saved for backward"
        for t in program.model.outputs:
            self.kept[t] = "it is a graph output"
        for t in program.model.kept:
            self.kept[t] = "it is state of the plan set"

    def find(self, t: int) -> int:
        """Return the root of `t`'s class, and halve the path on the way."""
        parent = self.parent
        while parent[t] != t:
            parent[t] = parent[parent[t]]
            t = parent[t]
        return t

    def union(self, into: int, other: int) -> None:
        """Merge the class of root `other` into that of root `into`."""
        self.joined = True
        self.parent[other] = into
        if not self.is_hinted:
            return
        self.death[into] = max(self.death[into], self.death[other])
        self.alignment[into] = max(self.alignment[into], self.alignment[other])
        self.kept[into] = self.kept[into] or self.kept[other]
        if self.last:
            for stream, step in self.last[other].items():
                self.last[into][stream] = max(step, self.last[into].get(stream, step))

    def overlaps(self, t: int, step: int) -> bool:
        """Return whether a step of another stream may access the class of root `t` while `step` runs. spec: X6.4"""
        if self.order is None:
            return False
        return any(other != step and not self.order.is_before(other, step) for other in self.last[t].values())


def _last_on_streams(program: ModelProgram, order: StepOrder) -> list[dict[int, int]]:
    """Return for each tensor the last step on each stream that accesses it. O(accesses)."""
    found: list[dict[int, int]] = [{} for _ in program.tensors]
    for s, (reads, writes) in enumerate(zip(program.steps.reads, program.steps.writes, strict=True)):
        for t in (*reads, *writes):
            found[t][int(order.stream[s])] = s
    return found


class InPlaceRules(NamedTuple):
    """The results that may take an operand's bytes, and which operand's.

    `allowed` is False for layouts that place every result separately. `first` are operands whose bytes a result takes
    rather than those of another operand, and `apart` results that take no operand's bytes: both are of plan sets.
    """

    allowed: bool = True
    first: Collection[str] = ()
    apart: Collection[str] = ()


ANY_IN_PLACE = InPlaceRules()
"""Each result may take an operand's bytes, and the first operand is preferred."""
NONE_IN_PLACE = InPlaceRules(allowed=False)


def form_storages(
    program: ModelProgram,
    live: Liveness,
    arenas: tuple[ArenaConfiguration, ...],
    mode: str,
    rules: InPlaceRules = ANY_IN_PLACE,
    policy: ArenaPolicy = ANYWHERE,
    fixed: Mapping[int, RequestedPlace] | None = None,
    order: StepOrder | None = None,
) -> Aliasing:
    """Form the storages, in order of their first member, and record what shares bytes. O(tensors + accesses + hints).

    `fixed` maps tensors to the places at which they must begin. `order` is the order of steps that have several
    streams. Raises INVALID_IR for an alias group that spans arenas, and for two tensors that must not alias but do;
    also the errors of `add_fixed`.
    """
    fixed = fixed or {}
    tensors, model = program.tensors, program.model
    arena = permitted.permitted_arenas(program, arenas, policy)
    index = {tensor.name: t for t, tensor in enumerate(tensors)} if model.bindings.donated else {}
    classes = _Classes(program, live, mode, frozenset(index[name] for name in model.bindings.donated), order)
    shares, of = [Shares.NONE] * len(tensors), [NO_TENSOR] * len(tensors)
    _join_groups(tensors, arena, classes, shares, of)
    for t, view in rows_with(tensors, "view", None):
        classes.union(classes.find(view.base), classes.find(t))
        shares[t], of[t] = Shares.VIEW, view.base
    for a, b in model.must_not_alias:
        if classes.find(a) == classes.find(b):
            names = f"{tensors[a].name!r} and {tensors[b].name!r}"
            raise TmmuError(
                "INVALID_IR",
                f"{names} must not alias, but share bytes",
                place="must_not_alias",
                fix="drop one of the two",
            )
    window, refused = _decide_hints(program, arena, classes, shares, of, rules, fixed)
    shared = _number_storages(classes, window)
    problem = _build_storages(program, live, arena, shared, arenas, policy)
    placed = add_fixed(problem, tensors, shared.storage, window, fixed)
    return Aliasing(shared.storage, window, shares, of, placed, refused)


def _join_groups(
    tensors: tuple[Tensor, ...], arena: list[Choices], classes: _Classes, shares: list[Shares], of: list[int]
) -> None:
    """Join declared alias groups: all members begin at byte 0 of one storage."""
    groups: dict[str, int] = {}
    for t, group in rows_with(tensors, "alias_group", None):
        tensor, first = tensors[t], groups.setdefault(group, t)
        if first == t:
            continue
        if arena[first] != arena[t]:
            raise TmmuError(
                "INVALID_IR",
                f"{tensors[first].name!r} and {tensor.name!r} belong to different arenas",
                place=f"alias group {group!r}",
                fix="give its members roles of one arena, or one rule for all",
            )
        classes.union(first, t)
        shares[t], of[t] = Shares.ALIAS, first


def _decide_hints(
    program: ModelProgram,
    arena: list[Choices],
    classes: _Classes,
    shares: list[Shares],
    of: list[int],
    rules: InPlaceRules,
    fixed: Mapping[int, RequestedPlace],
) -> tuple[Sequence[int], list[RefusedHint]]:
    """Decide the hints. Returns the window of each tensor, and the refused hints; granted ones join classes.

    Steps are walked in order, so the window of every tensor that a result shares with is known when the result is
    reached.
    """
    tensors, model = program.tensors, program.model
    window = array("Q", [0]) * len(tensors)
    refused: list[RefusedHint] = []
    if not classes.is_hinted and Shares.VIEW not in shares:
        return window, refused
    home = find_defining_bodies(model)
    formal = {t for body in model.bodies[1:] for t in body.inputs}
    conflicts = _Conflicts(program, classes)
    staying = {classes.find(t) for t in fixed}
    for s, step in enumerate(program.steps):
        node = model.nodes[step.node]
        for t in step.writes:
            view = tensors[t].view
            if view is not None:
                window[t] = window[view.base] + view.offset
                if window[t] % tensors[t].alignment:
                    raise TmmuError(
                        "ALIGNMENT_VIOLATION",
                        f"byte {window[t]} of its storage is not aligned to {tensors[t].alignment}",
                        place=f"tensor {tensors[t].name!r}",
                        fix="move the view, or align the tensors that it shows",
                    )
        if step.part is NodePart.LEAVE:
            continue
        if not node.in_place:
            continue
        place, changed = {t: k for k, t in enumerate(node.writes)}, frozenset(step.mutates)
        written = {classes.find(t) for t in step.writes}
        read: dict[int, list[int]] = {}  # the operands by class
        for t in dict.fromkeys(step.reads):
            read.setdefault(classes.find(t), []).append(t)
        for result, operand in sorted(
            node.in_place, key=lambda pair: (place[pair[0]], tensors[pair[1]].name not in rules.first)
        ):
            x, o = classes.find(operand), classes.find(result)
            if not rules.allowed:
                reason = "the layout places every result separately"
            elif step.part is not NodePart.WHOLE:
                reason = "the node has bodies"
            elif shares[result] is not Shares.NONE or tensors[result].alias_group or result in changed:
                reason = "the result shares other bytes already"
            elif tensors[result].name in rules.apart:
                reason = "the result is the next value of state whose old value is read until then"
            elif tensors[operand].shape != tensors[result].shape:
                reason = "the operand has another shape"
            elif BITS[tensors[operand].dtype] != BITS[tensors[result].dtype]:
                reason = "the operand has another element width"
            elif arena[x] != arena[result]:
                alone = len(arena[x]) == len(arena[result]) == 1
                reason = "the operand is in another arena" if alone else "the operand may use other arenas"
            elif home[operand] != step.body or operand in formal:
                reason = "the operand comes from outside the body"
            elif classes.kept[x]:
                reason = f"the operand is kept: {classes.kept[x]}"
            elif classes.death[x] > s:
                reason = "the operand's bytes are still needed"
            elif classes.overlaps(x, s):
                reason = "a step of another stream may still use the operand's bytes"
            elif x in written:
                reason = "another result of the step has the operand's bytes"
            elif any(t != operand and _overlap(tensors, window, t, operand) for t in read[x]):
                reason = "another operand shares bytes with it"
            elif window[operand] % classes.alignment[o]:
                reason = "the operand's bytes are not aligned for the result"
            elif conflicts.between(x, o):
                reason = "the two must not alias"
            elif (x in staying or o in staying) and not (operand in fixed and fixed[operand].agrees(fixed.get(result))):
                reason = "one of the two has a fixed offset, and the other does not have the same"
            else:
                classes.union(x, o)
                conflicts.joined(x, o)
                written.add(x)
                window[result] = window[operand]
                shares[result], of[result] = Shares.IN_PLACE, operand
                continue
            refused.append(RefusedHint(node.name, tensors[result].name, tensors[operand].name, reason))
    return window, refused


def _overlap(tensors: tuple[Tensor, ...], window: Sequence[int], a: int, b: int) -> bool:
    """Return whether two tensors of one storage have a byte in common."""
    return window[a] < window[b] + tensors[b].bytes and window[b] < window[a] + tensors[a].bytes


class _Conflicts:
    """The classes that must not be joined (T5), as members and partners by root; empty for most models."""

    def __init__(self, program: ModelProgram, classes: _Classes) -> None:
        self.members: dict[int, set[int]] = {}
        self.partners: dict[int, set[int]] = {}
        for a, b in program.model.must_not_alias:
            for t, other in ((a, b), (b, a)):
                self.members.setdefault(classes.find(t), set()).add(t)
                self.partners.setdefault(classes.find(t), set()).add(other)

    def between(self, x: int, o: int) -> bool:
        """Return whether joining the classes of roots `x` and `o` would put a forbidden pair into one storage."""
        return not self.partners.get(x, set()).isdisjoint(self.members.get(o, ()))

    def joined(self, x: int, o: int) -> None:
        """Move the members and partners of root `o` to root `x`, its new root."""
        for table in (self.members, self.partners):
            if o in table:
                table.setdefault(x, set()).update(table.pop(o))


class _Members(NamedTuple):
    """The storage of each tensor.

    `root` is the first tensor of each storage. By tensor: `roots`, the first of its storage; `storage`, the number of
    that; and `window`, the byte of it at which the tensor begins.
    """

    root: Sequence[int]
    roots: Sequence[int]
    storage: Sequence[int]
    window: Sequence[int]


def _number_storages(classes: _Classes, window: Sequence[int]) -> _Members:
    """Number the classes in order of their first member; without a join each tensor is a storage. O(tensors)."""
    parent = classes.parent
    if not classes.joined:
        return _Members(parent, parent, parent, window)
    roots = [p if parent[p] == p else classes.find(p) for p in parent]
    first = list(dict.fromkeys(roots))
    number = {root: k for k, root in enumerate(first)}
    return _Members(first, roots, [number[root] for root in roots], window)


def _build_storages(
    program: ModelProgram,
    live: Liveness,
    permitted: list[Choices],
    members: _Members,
    arenas: tuple[ArenaConfiguration, ...],
    policy: ArenaPolicy,
) -> AllocationProblem:
    """Build the storages from the needs of their members."""
    tensors, (root, roots, storage, window) = program.tensors, members
    name: Sequence[str] = Attribute(tensors, "name")
    size, alignment = list(attribute_values(tensors, "bytes")), list(attribute_values(tensors, "alignment"))
    birth, death, made, choices = live.birth, live.death, live.writer, permitted
    if storage is not root:  # otherwise each tensor is a storage
        size = [window[t] + tensors[t].bytes for t in root]
        name, alignment, choices = [name[t] for t in root], [alignment[t] for t in root], [permitted[t] for t in root]
        birth, death, made = (pack_integers((of[t] for t in root), "i") for of in (birth, death, made))
    for t, k in enumerate(storage if storage is not root else ()):
        if roots[t] != t:
            size[k] = max(size[k], window[t] + tensors[t].bytes)
            alignment[k] = max(alignment[k], tensors[t].alignment)
            birth[k] = min(birth[k], live.birth[t])
            death[k] = max(death[k], live.death[t])
    uses: list[int] = []
    if max(map(len, choices), default=0) > 1:
        uses = [0] * len(root)
        for step in program.steps:
            for t in (*step.reads, *step.writes):
                uses[storage[t]] += 1
    return AllocationProblem(
        arenas, name, size, alignment, birth, death, choices, made, uses,
        find_conflicts(program.model.must_not_alias, storage), policy,
    )  # fmt: skip
