"""Write a plan as text: the inverse of `tmmu.plans.text` on allocations.

Storages and lifetimes are not written: they follow from the text. So a text is read again before it is returned. A plan
whose storages or lifetimes do not follow (a lifetime without an access for it, bytes shared without a reason) is
refused, naming the column that differs. spec: X2.8
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import zip_longest

from tmmu.core.columns import NONE, Table
from tmmu.core.dtypes import SHORT, element_alignment
from tmmu.core.errors import TmmuError
from tmmu.core.statements import format_name, format_operator
from tmmu.core.vocabulary import MAIN, NodePart, Role, Shares
from tmmu.plans import text
from tmmu.plans.allocation import Allocation, Arena, Buffers, Placement
from tmmu.plans.building import KEPT
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED, IS_SAVED, PARTS, ROLES, SHARES
from tmmu.plans.sections import BufferPlan, Plan, Usage


def write(plan: Plan | BufferPlan) -> str:
    """Return the plan as text: its allocation or its buffers, and its claims of slots, footprint and peak. O(plan).

    Raises INVALID_PLAN if the text would be read as another allocation.
    """
    body: Allocation | Buffers = plan.buffers if isinstance(plan, BufferPlan) else plan.allocation
    found = "".join(f"{line}\n" for line in _lines(plan, body))
    try:
        again = text.read(found.encode(), "text")
    except TmmuError as error:
        raise TmmuError("INVALID_PLAN", f"a text cannot represent it: {error.what}", fix="keep it binary") from error
    other = again.buffers if isinstance(again, BufferPlan) else again.allocation
    if other != body:
        raise TmmuError("INVALID_PLAN", f"a text cannot represent it: {_difference(body, other)}", fix="keep it binary")
    return found


def _difference(body: Placement, other: Placement) -> str:
    """Describe the first column that would be read differently."""
    if type(body) is not type(other):
        return "it has neither tensors nor buffers"
    part = next(f.name for f in fields(body) if getattr(body, f.name) != getattr(other, f.name))
    mine, read = getattr(body, part), getattr(other, part)
    for column in fields(mine) if isinstance(mine, Table) else ():
        one, two = (list(getattr(table, column.name)) for table in (mine, read))
        for row, (stated, follows) in enumerate(zip_longest(one, two)):
            if stated != follows:
                return f"{part}.{column.name} row {row} is {stated}, and {follows} follows from the text"
    return f"{part} is {mine!r}, and {read!r} follows from the text"


def _name(name: str) -> str:
    return format_name(name, text.FORMAT)


def _lines(plan: Plan | BufferPlan, body: Allocation | Buffers) -> Iterator[str]:
    yield f"{text.FORMAT.title} {text.FORMAT.version}"
    yield from map(_arena, body.arenas)
    if isinstance(body, Buffers):
        names = [_name(name) for name in body.name]
        yield from _buffers(body, names)
    else:
        names = [_name(name) for name in body.tensors.name]
        yield from _tensors(body, names)
        yield from _steps(body, names)
        yield from (f"unproduced {_name(name)}" for name in body.unproduced)
    yield from (f"apart {names[a]} {names[b]}" for a, b in body.must_not_alias)
    if plan.claims is not None:
        for arena, usage in zip(body.arenas, plan.claims.usage, strict=True):
            yield from _claims(arena, usage)


def _arena(arena: Arena) -> str:
    words = [f"align {arena.alignment}"] if arena.alignment != 1 else []
    words += [f"base {arena.base_alignment}"] if arena.base_alignment else []
    words += [] if arena.reuse else ["persistent"]
    words += ["scattered"] if arena.scattered else []
    return " ".join(("arena", _name(arena.name), str(arena.capacity), *words))


def _claims(arena: Arena, usage: Usage) -> Iterator[str]:
    for word, field in text.CLAIMS.items():
        if getattr(usage, field) is not None:
            yield f"claim {word} {_name(arena.name)} {getattr(usage, field)}"


def _buffers(body: Buffers, names: list[str]) -> Iterator[str]:
    s = body.storages
    rows = zip(names, s.bytes, s.arena, s.offset, s.birth, s.death, s.alignment, strict=True)
    for name, size, arena, offset, birth, death, alignment in rows:
        aligned = f" align {alignment}" if alignment != 1 else ""
        yield f"buffer {name} {size} {_name(body.arenas[arena].name)} {offset} live {birth} {death}{aligned}"


def _tensors(body: Allocation, names: list[str]) -> Iterator[str]:
    t, arenas = body.tensors, [_name(arena.name) for arena in body.arenas]
    arena_of = body.storages.arena[t.storage].tolist()
    columns = (t.bytes, body.addresses(), t.role, t.flags, t.dtype, t.alignment, t.shares, t.of, t.window)
    windows = t.window.tolist()
    for name, arena, row in zip(names, arena_of, zip(*(c.tolist() for c in columns), strict=True), strict=True):
        size, address, role, flags, dtype, alignment, shares, of, window = row
        words = _marks(ROLES[role], flags)
        kind = body.dtypes[dtype]
        words += [f"type {SHORT[kind]}"] if kind != "uint8" else []
        words += [f"align {alignment}"] if alignment != element_alignment(kind) else []
        if of != NONE:
            word = next(word for word, link in text.LINKS.items() if link is SHARES[shares])
            words.append(f"{word} {names[of]}")
            if SHARES[shares] is Shares.VIEW:
                words.append(str(max(0, window - windows[of])))
        yield " ".join((f"tensor {name} {size} {arenas[arena]} {address}", *words))


def _marks(role: Role, flags: int) -> list[str]:
    words = [] if role is Role.ACTIVATION else [str(role)]
    if flags & IS_INPUT and role is not Role.INPUT:
        words.append("input")
    if flags & IS_OUTPUT:
        words.append("output")
    if flags & IS_SAVED:
        words.append("saved" if flags & IS_RETURNED else "stash")
    if role is Role.INPUT and flags & (IS_OUTPUT | IS_SAVED | IS_RETURNED) == IS_RETURNED:
        words.append("kept")
    if role in KEPT and not flags & IS_RETURNED:
        words.append("donated")
    return words


def _steps(body: Allocation, names: list[str]) -> Iterator[str]:
    """Yield the steps in order, with an `arm` before the steps of a node's next body."""
    steps, bodies = body.steps, body.bodies
    owned: dict[int, list[int]] = {}
    for b, enter in enumerate(bodies.enter.tolist()):
        if b != MAIN:
            owned.setdefault(enter, []).append(b)
    opened: list[tuple[str, list[int], int]] = []  # a node, its bodies, and which of them is being written
    lists = zip(*(steps.listed(which) for which in steps.LISTS), strict=True)
    ordered = _orders(body)
    rows = zip(steps.node, steps.op.tolist(), steps.part.tolist(), steps.body.tolist(), lists, strict=True)
    for s, (node, op, p, b, (reads, writes, mutates)) in enumerate(rows):
        part = PARTS[p]
        while opened and opened[-1][2] + 1 < len(opened[-1][1]):
            owner, mine, at = opened[-1]
            if part is not NodePart.LEAVE and b == mine[at]:
                break
            opened[-1] = owner, mine, at + 1
            yield " ".join(("arm", *_body_name(bodies.name[mine[at + 1]], owner, at + 1)))
        word = {NodePart.WHOLE: "step", NodePart.ENTER: "begin", NodePart.LEAVE: "end"}[part]
        operation = () if part is NodePart.LEAVE else (_name(format_operator(*body.ops[op])),)
        changes = ("changes", *(names[t] for t in mutates)) if mutates else ()
        line = (word, _name(node), *operation, *(names[t] for t in reads), "->", *(names[t] for t in writes), *changes)
        if part is NodePart.LEAVE and opened:
            opened.pop()
        if s in owned:
            first = owned[s][0]
            opened.append((node, owned[s], 0))
            words = ("loop",) * bool(bodies.iterates[first]) + ("exclusive",) * bool(bodies.exclusive[first])
            named = _body_name(bodies.name[first], node, 0)
            line = (*line, *words, *(("body", *named) if named else ()))
        yield " ".join((*line, *ordered(s)))


def _orders(body: Allocation) -> Callable[[int], tuple[str, ...]]:
    """Return a function that gives the stream and the waits of a step in words: none for one inside of a body."""
    if not body.streams:
        return lambda _: ()
    steps, streams = body.steps, [_name(name) for name in body.streams]
    nodes, after = [_name(node) for node in steps.node], steps.listed("after")

    def words(s: int) -> tuple[str, ...]:
        if steps.body[s] != MAIN or PARTS[steps.part[s]] is NodePart.LEAVE:
            return ()
        waits = ("after", *(nodes[other] for other in after[s])) if after[s] else ()
        return ("on", streams[steps.stream[s]], *waits)

    return words


def _body_name(name: str, owner: str, place: int) -> tuple[str, ...]:
    """Return the name of a body, unless it is the default name in a text."""
    return () if name == f"{owner}/{place}" else (_name(name),)
