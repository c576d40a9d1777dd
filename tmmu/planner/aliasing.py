"""Which tensors share bytes: views, declared alias groups and accepted in-place results form storages (T2, T3).

Views and alias groups are facts of the model. An in-place hint is granted only where the result of the run stays the
same, decided step by step in the order of the results, each against what the earlier ones left. A hint that is not
granted is reported with the reason. The storages are the allocation problem that arenas, slots and layout solve.
spec: T2.1, T2.2, T2.3, T2.4, T2.7, T2.8, T2.9, T3.1, T3.2, T3.3, T3.4, T3.5, T3.6, T3.7, T3.8, T3.9,
T4.1, T4.2, T4.3, T8.6, T8.7
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tmmu.core.columns import Attribute, compact, every, stated
from tmmu.core.dtypes import BITS
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ANYWHERE, ArenaConfiguration, ArenaPolicy, NodePart, Shares, Tensor
from tmmu.ir.program import ModelProgram, defining_body
from tmmu.ir.validate import CALLERS
from tmmu.planner.arenas import permitted
from tmmu.planner.fixed import with_fixed
from tmmu.planner.liveness import Liveness
from tmmu.planner.problem import AllocationProblem, Choices, conflicts_of

NO_TENSOR = -1


class Refused(NamedTuple):
    """An in-place hint that was not granted, and why."""

    node: str
    result: str
    operand: str
    reason: str


@dataclass(frozen=True)
class Aliasing:
    """For each tensor its storage, its window in it, how it shares and with which tensor (NO_TENSOR: none).

    `storages` is the allocation problem: a storage may lie in the arenas that its root may use, the tensor that the
    others share with. `refused` are the hints that were not granted.
    """

    storage: Sequence[int]
    window: Sequence[int]
    shares: list[Shares]
    of: list[int]
    storages: AllocationProblem
    refused: list[Refused]


class _Classes:
    """Alias classes under union; a class's facts stand at its root, and are there where hints ask for them."""

    def __init__(self, program: ModelProgram, live: Liveness, mode: str, donated: frozenset[int]) -> None:
        self.parent: MutableSequence[int] = compact(range(len(program.tensors)), "i")
        self.joined = False
        self.is_hinted = any(every(program.model.nodes, "in_place"))
        if not self.is_hinted:
            return
        self.death = list(live.death)
        self.alignment = list(every(program.tensors, "alignment"))
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

    def find(self, t: int) -> int:
        """The root of `t`'s class; paths are halved on the way."""
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


def form(
    program: ModelProgram,
    live: Liveness,
    arenas: tuple[ArenaConfiguration, ...],
    mode: str,
    in_place: bool = True,
    policy: ArenaPolicy = ANYWHERE,
    fixed: Mapping[int, int] | None = None,
) -> Aliasing:
    """What shares bytes, and the storages in order of their first member. O(tensors + accesses + hints).

    `in_place` is false for layouts that give every result bytes of its own, `fixed` the bytes at which tensors must
    begin. Raises INVALID_IR for an alias group that spans arenas or for two tensors that must not alias and do, and
    what `with_fixed` does.
    """
    fixed = fixed or {}
    tensors, model = program.tensors, program.model
    arena = permitted.of_tensors(program, arenas, policy)
    index = {tensor.name: t for t, tensor in enumerate(tensors)} if model.bindings.donated else {}
    classes = _Classes(program, live, mode, frozenset(index[name] for name in model.bindings.donated))
    shares, of = [Shares.NONE] * len(tensors), [NO_TENSOR] * len(tensors)
    _join_groups(tensors, arena, classes, shares, of)
    for t, view in stated(tensors, "view", None):
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
    window, refused = _walk(program, arena, classes, shares, of, in_place, fixed)
    storage = first = roots = classes.parent  # first: the root of each storage
    if classes.joined:
        roots = [p if roots[p] == p else classes.find(p) for p in roots]
        first = list(dict.fromkeys(roots))
        number = {root: k for k, root in enumerate(first)}
        storage = [number[root] for root in roots]
    problem = _storages(program, live, arena, window, first, roots, storage, arenas, policy)
    return Aliasing(storage, window, shares, of, with_fixed(problem, tensors, storage, window, fixed), refused)


def _join_groups(
    tensors: tuple[Tensor, ...], arena: list[Choices], classes: _Classes, shares: list[Shares], of: list[int]
) -> None:
    """Declared alias groups: all members start at byte 0 of one storage."""
    groups: dict[str, int] = {}
    for t, group in stated(tensors, "alias_group", None):
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


def _walk(
    program: ModelProgram,
    arena: list[Choices],
    classes: _Classes,
    shares: list[Shares],
    of: list[int],
    in_place: bool,
    fixed: Mapping[int, int],
) -> tuple[Sequence[int], list[Refused]]:
    """The window of each tensor in its storage, and the hints that were refused; granted ones join classes.

    Steps are walked in order, so the window of whatever a result shares with is known when the result is met.
    """
    tensors, model = program.tensors, program.model
    window = array("Q", [0]) * len(tensors)
    refused: list[Refused] = []
    if not classes.is_hinted and Shares.VIEW not in shares:
        return window, refused
    home = defining_body(model)
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
        for result, operand in sorted(node.in_place, key=lambda pair: place[pair[0]]):
            x, o = classes.find(operand), classes.find(result)
            if not in_place:
                reason = "layout: it gives every result bytes of its own"
            elif step.part is not NodePart.WHOLE:
                reason = "the node has bodies"
            elif shares[result] is not Shares.NONE or tensors[result].alias_group or result in changed:
                reason = "the result shares other bytes already"
            elif tensors[operand].shape != tensors[result].shape:
                reason = "the operand has another shape"
            elif BITS[tensors[operand].dtype] != BITS[tensors[result].dtype]:
                reason = "the operand has another element width"
            elif arena[x] != arena[result]:
                alone = len(arena[x]) == len(arena[result]) == 1
                reason = "the operand lies in another arena" if alone else "the operand may use other arenas"
            elif home[operand] != step.body or operand in formal:
                reason = "the operand comes from outside the body"
            elif classes.kept[x]:
                reason = f"the operand is kept: {classes.kept[x]}"
            elif classes.death[x] > s:
                reason = "the operand's bytes are still needed"
            elif x in written:
                reason = "another result of the step has the operand's bytes"
            elif any(t != operand and _touch(tensors, window, t, operand) for t in read[x]):
                reason = "another operand shares bytes with it"
            elif window[operand] % classes.alignment[o]:
                reason = "the operand's bytes are not aligned for the result"
            elif conflicts.between(x, o):
                reason = "the two must not alias"
            elif (x in staying or o in staying) and (operand not in fixed or fixed[operand] != fixed.get(result)):
                reason = "one of the two has a fixed offset, and not the other the same"
            else:
                classes.union(x, o)
                conflicts.joined(x, o)
                written.add(x)
                window[result] = window[operand]
                shares[result], of[result] = Shares.IN_PLACE, operand
                continue
            refused.append(Refused(node.name, tensors[result].name, tensors[operand].name, reason))
    return window, refused


def _touch(tensors: tuple[Tensor, ...], window: Sequence[int], a: int, b: int) -> bool:
    """Do two tensors of one storage have a byte in common?"""
    return window[a] < window[b] + tensors[b].bytes and window[b] < window[a] + tensors[a].bytes


class _Conflicts:
    """Which classes must not be joined (T5), kept as members and partners by root; empty for most models."""

    def __init__(self, program: ModelProgram, classes: _Classes) -> None:
        self.members: dict[int, set[int]] = {}
        self.partners: dict[int, set[int]] = {}
        for a, b in program.model.must_not_alias:
            for t, other in ((a, b), (b, a)):
                self.members.setdefault(classes.find(t), set()).add(t)
                self.partners.setdefault(classes.find(t), set()).add(other)

    def between(self, x: int, o: int) -> bool:
        """Would joining the classes of roots `x` and `o` put a forbidden pair into one storage?"""
        return not self.partners.get(x, set()).isdisjoint(self.members.get(o, ()))

    def joined(self, x: int, o: int) -> None:
        """Root `x` now stands for `o` too."""
        for table in (self.members, self.partners):
            if o in table:
                table.setdefault(x, set()).update(table.pop(o))


def _storages(
    program: ModelProgram,
    live: Liveness,
    permitted: list[Choices],
    window: Sequence[int],
    root: Sequence[int],
    roots: Sequence[int],
    storage: Sequence[int],
    arenas: tuple[ArenaConfiguration, ...],
    policy: ArenaPolicy,
) -> AllocationProblem:
    """The union of what the members of each storage need. `root` is by storage, `roots` and `storage` are by tensor."""
    tensors = program.tensors
    name: Sequence[str] = Attribute(tensors, "name")
    size, alignment = list(every(tensors, "bytes")), list(every(tensors, "alignment"))
    birth, death, made, choices = live.birth, live.death, live.writer, permitted
    if storage is not root:  # else each tensor is a storage
        size = [window[t] + tensors[t].bytes for t in root]
        name, alignment, choices = [name[t] for t in root], [alignment[t] for t in root], [permitted[t] for t in root]
        birth, death, made = (compact((of[t] for t in root), "i") for of in (birth, death, made))
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
        conflicts_of(program.model.must_not_alias, storage), policy,
    )  # fmt: skip
