"""Every field of a plan's object edited by itself, and a runtime that does what the columns state, whatever they state.

The runtime shares nothing with the verifier: it has no table of operators. A view it does not compute, a result in
place it computes in the operand's bytes, an alias it keeps where the other tensor begins; a storage's bytes are garbage
before its birth and after its death. It runs plans without bodies; of others it looks at where storages lie, alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from tmmu.core.columns import NONE
from tmmu.core.dtypes import BITS
from tmmu.core.vocabulary import LAYOUTS, MODES, ORDERS, REPLAN_POLICIES, NodePart, Role, Shares
from tmmu.plans import file
from tmmu.plans.columns import IS_OUTPUT, IS_RETURNED, PARTS, ROLES, SHARES
from tmmu.plans.provenance import HASHES
from tmmu.plans.sections import Plan

Path = tuple[str | int, ...]
WORDS = (MODES, LAYOUTS, ORDERS, REPLAN_POLICIES, tuple(map(str, Role)), tuple(BITS)[:6])
NAMES = (("allocation", "tensors", "name"), ("allocation", "steps", "node"), ("allocation", "bodies", "name"))
OF_THE_FILE = {*HASHES, "file_digest"}
"""The hashes, which are the only fields of which no hash is computed again."""


def edits(plan: Plan) -> Iterator[tuple[Path, Any]]:
    """A path into the plan's object and the object with another value there, for each field and each other value."""
    whole = file.to_object(plan)
    for path, old in list(_leaves(whole)):
        holder = _at(whole, path[:-1])
        for new in _others(path, old, holder):
            changed = _copied(whole)
            if isinstance(holder, np.ndarray):
                column = holder.copy()
                column[path[-1]] = new
                _at(changed, path[:-2])[path[-2]] = column
            else:
                _at(changed, path[:-1])[path[-1]] = new
            yield path, changed


def field_of(path: Path) -> str:
    """The name of a field, without rows."""
    return ".".join(part for part in path if isinstance(part, str))


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for key in value:
            yield from _leaves(value[key], (*path, key))
    elif isinstance(value, list):
        yield path, value
        for row, item in enumerate(value):
            yield from _leaves(item, (*path, row))
    elif isinstance(value, np.ndarray):
        yield from (((*path, row), int(item)) for row, item in enumerate(value))
    else:
        yield path, value


def _others(path: Path, old: Any, holder: Any) -> Iterator[Any]:
    """Other values that look like ones of the field."""
    if isinstance(old, list):
        yield from ([old[:-1], [*old, old[-1]]] if old else [])
    elif isinstance(old, bool):
        yield not old
    elif old is None:
        yield bytes(32)
    elif isinstance(old, int):
        found, top = {old + 1, old - 1, 0, 1, 2 * old, old + 128}, 2**64 - 1
        if isinstance(holder, np.ndarray):
            found |= {*holder.tolist(), NONE}
            top = int(np.iinfo(holder.dtype).max)
        yield from sorted(new for new in found if new != old and 0 <= new <= top)
    elif isinstance(old, str):
        yield from (word for words in WORDS if old in words for word in words if word != old)
        yield f"{old}x"
    elif path in NAMES:
        names = old.decode().split("\0")
        yield from ("\0".join([*names[:k], f"{names[k]}x", *names[k + 1 :]]).encode() for k in range(len(names)))
    elif old:
        yield bytes([old[0] ^ 1]) + old[1:]


def _at(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def placed_wrong(plan: Plan) -> str:
    """What is wrong with where storages and tensors lie and when, looking at every pair; "" for nothing."""
    a, t, s = plan.allocation, plan.allocation.tensors, plan.allocation.storages
    boxes = list(zip(*(c.tolist() for c in (s.arena, s.offset, s.bytes, s.alignment, s.birth, s.death)), strict=True))
    for arena, offset, size, alignment, birth, death in boxes:
        home = a.arenas[arena]
        if offset % alignment or offset % home.alignment or offset + size > home.limit or birth > death:
            return f"storage at {offset}"
    for one, other in combinations(boxes, 2):
        meets = one[0] == other[0] and max(one[1], other[1]) < min(one[1] + one[2], other[1] + other[2])
        together = not a.arenas[one[0]].reuse or max(one[4], other[4]) <= min(one[5], other[5])
        if meets and together:
            return f"storages at {one[1]} and {other[1]}"
    for name, k, window, size, alignment, birth, death in zip(
        t.name, *(c.tolist() for c in (t.storage, t.window, t.bytes, t.alignment, t.birth, t.death)), strict=True
    ):
        _, offset, room, _, first, last = boxes[k]
        if window + size > room or (offset + window) % alignment or not first <= birth <= death <= last:
            return name
    for x, y in a.must_not_alias:
        one, other = boxes[int(t.storage[x])], boxes[int(t.storage[y])]
        if one[0] == other[0] and max(one[1], other[1]) < min(one[1] + one[2], other[1] + other[2]):
            return f"{t.name[x]} and {t.name[y]}"
    return ""


def runs_wrong(plan: Plan) -> str:
    """What goes wrong when a runtime does what the columns state, in arenas and beside in private memory."""
    a, t, s = plan.allocation, plan.allocation.tensors, plan.allocation.storages
    home, address, size = s.arena[t.storage].tolist(), a.addresses().tolist(), t.bytes.tolist()
    shares, of = [SHARES[k] for k in t.shares.tolist()], t.of.tolist()
    birth, death, roles = t.birth.tolist(), t.death.tolist(), [ROLES[k] for k in t.role.tolist()]
    at = [(home[of[i]], address[of[i]]) if shares[i] is Shares.ALIAS else (home[i], address[i]) for i in range(len(t))]
    memory: dict[tuple[int, int], int] = {}
    private: dict[int, bytes] = {}

    def read(i: int) -> bytes:
        return bytes(memory.get((at[i][0], at[i][1] + k), 0xEE) for k in range(size[i]))

    def write(arena: int, first: int, data: bytes) -> None:
        memory.update({(arena, first + k): byte for k, byte in enumerate(data)})

    def result(step: int, place: int, length: int, operands: list[bytes]) -> bytes:
        key = hashlib.sha256(repr((a.ops[int(a.steps.op[step])], place, operands)).encode()).digest()
        return (key * (length // 32 + 1))[:length]

    given = [i for i in range(len(t)) if t.writer[i] == NONE]
    for i in sorted(given, key=lambda i: shares[i] is Shares.VIEW):
        if shares[i] is Shares.VIEW:
            private[i] = private[of[i]][address[i] - address[of[i]] :][: size[i]]
            continue
        private[i] = result(0, i, size[i], [b"given"]) if len(a.steps) else bytes(size[i])
        write(*at[i], private[i])
    lists = [a.steps.listed(name) for name in a.steps.LISTS]
    for step, (reads, writes, mutates) in enumerate(zip(*lists, strict=True)):
        for k in np.flatnonzero((s.birth == step) & (s.birth > 0)).tolist():
            write(int(s.arena[k]), int(s.offset[k]), bytes([0xAA]) * int(s.bytes[k]))
        own = [i for i in reads if i in writes and roles[i] is Role.SCRATCH and i not in mutates]
        for i in (*reads, *writes):
            if not birth[i] <= step <= death[i] or (i in reads and i not in own and i not in private):
                return f"step {step} touches {t.name[i]}"
        found = [read(i) for i in reads if i not in own]
        right = [private[i] for i in reads if i not in own]
        if found != right:
            return f"step {step} reads other bytes"
        for place, i in enumerate(writes):
            if shares[i] is Shares.VIEW and i not in mutates:
                first = address[i] - address[of[i]]
                private[i] = private.get(of[i], b"")[max(0, first) :][: size[i]]
                continue
            private[i] = result(step, place, size[i], right)
            where = (home[of[i]], address[of[i]]) if shares[i] is Shares.IN_PLACE and i not in mutates else at[i]
            write(*where, private[i])
        for i in writes:
            if i not in own and read(i) != private[i]:
                return f"step {step} leaves other bytes in {t.name[i]}"
        for k in np.flatnonzero(s.death == step).tolist():
            if a.arenas[int(s.arena[k])].reuse and step < a.last_step:
                write(int(s.arena[k]), int(s.offset[k]), bytes([0xDD]) * int(s.bytes[k]))
    kept = (Role.PARAMETER, Role.OPTIMIZER)
    for i, flags in enumerate(t.flags.tolist()):
        taken = flags & (IS_OUTPUT | IS_RETURNED) or roles[i] in kept
        if taken and (i not in private or death[i] < a.last_step or read(i) != private[i]):
            return f"the caller reads other bytes of {t.name[i]}"
    return ""


def wrong(plan: Plan) -> str:
    """What a runtime that does what the plan states does wrong; "" for nothing."""
    straight = (plan.allocation.steps.part == PARTS.index(NodePart.WHOLE)).all()
    return placed_wrong(plan) or (runs_wrong(plan) if straight else "")
