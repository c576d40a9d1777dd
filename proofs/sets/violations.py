"""Find the violations of a set by its definition (PS1): without a solver, and without running anything.

Coarse things come first: the files are of one set, the shared tensors are where the agreement says, the state is left
alone and handed on, and every program can be called. `proofs.sets.calls` then runs sequences.
spec: PS1.1 to PS1.11, PS1.13
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from proofs.definition.violations import Obligation, Violation
from proofs.readers.envelope import find_shape_apart
from proofs.sets.calls import find_call_violations
from proofs.sets.members import SetMember
from proofs.sets.state import StateTensor, find_never_ready, find_state, list_ends, missing_at_first
from tmmu.core.dims.expressions import evaluate, format_dim
from tmmu.plans.sets import Agreement, PlanSet, SharedTensor, footprints


def find_violations(
    members: Sequence[SetMember], agreement: Agreement, manifest: PlanSet | None = None
) -> Iterator[Violation]:
    """Yield the violations of a set whose plans are all given, the coarsest first.

    Without a manifest the agreement was made of names. If plans or shared tensors do not fit the agreement, nothing
    further is looked at. O(tensors log tensors), and what running calls takes (`proofs.sets.calls`).
    """
    found = [*_of_files(members, agreement, manifest), *_of_arenas(members, agreement, manifest)]
    found = found or list(_of_places(members, agreement))
    state = [] if found else find_state(members, agreement)
    found += _resized(members, state)
    if found:
        yield from found
        return
    broken = False
    for violation in (*_overlaps(members, state), *_touched(members, state), *_not_returned(members, state)):
        broken = True
        yield violation
    unwritten = [*_never_ready(members, state), *_left_unwritten(members, state)]
    yield from unwritten
    if not broken and not unwritten:
        yield from find_call_violations(members, state)


def _of_files(members: Sequence[SetMember], agreement: Agreement, manifest: PlanSet | None) -> Iterator[Violation]:
    """Check that each plan states the agreement, and has the digest that the manifest states. spec: PS2.3, PS4.2"""
    if manifest is None:
        return
    for member in members:
        stated = member.plan.membership
        if stated is None or stated != manifest.membership(member.name):
            what = "states no set" if stated is None else "is of another set"
            yield Violation(
                Obligation.ONE_SET, f"the plan of {member.name} {what}", programs=(member.name,), field="set.digest",
                stated="nothing" if stated is None else f"{stated.digest.hex()} ({stated.program})",
                recomputed=f"{agreement.digest.hex()} ({member.name})",
            )  # fmt: skip
        elif manifest.members[member.name] != member.file_digest:
            yield Violation(
                Obligation.ONE_SET, f"the plan of {member.name} is not the one that the manifest names",
                programs=(member.name,), field="file_digest", stated=manifest.members[member.name].hex(),
                recomputed=member.file_digest.hex(),
            )  # fmt: skip


def _of_arenas(members: Sequence[SetMember], agreement: Agreement, manifest: PlanSet | None) -> Iterator[Violation]:
    """Check that arenas of one name are one memory, and that the manifest states enough bytes. spec: PS1.9"""
    first: dict[str, tuple[SetMember, object]] = {}
    for member in members:
        for arena in member.plan.allocation.arenas:
            facts = (arena.capacity, arena.alignment, arena.reuse, arena.scattered)
            other, known = first.setdefault(arena.name, (member, facts))
            if known != facts:
                text = f"{other.name} and {member.name} have different arenas {arena.name}"
                yield Violation(
                    Obligation.ONE_SET, f"{text}: capacity, alignment, reuse, scattered are {known} and {facts}",
                    programs=(other.name, member.name), arena=arena.name,
                )  # fmt: skip
    stated = {arena.name: arena for arena in agreement.arenas}
    for member in members if manifest is not None else ():
        needed = member.plan.allocation.needed_base_alignments()
        for name, end in footprints(member.plan).items():
            its = stated.get(name)
            if its is None or end > its.bytes or needed[name] > its.alignment:
                got = "nothing" if its is None else f"{its.bytes} bytes, alignment {its.alignment}"
                text = f"{member.name} needs {end} bytes of {name}, alignment {needed[name]}; the set states {got}"
                yield Violation(
                    Obligation.ONE_SET, text, programs=(member.name,), arena=name, field=f"arena {name}", stated=got,
                    recomputed=f"{end} bytes, alignment {needed[name]}",
                )  # fmt: skip


def _of_places(members: Sequence[SetMember], agreement: Agreement) -> Iterator[Violation]:
    """Check the kind and the place of the entries and exits of each shared tensor. spec: PS1.1, PS1.3"""
    by_name = {member.name: member for member in members}
    for one in agreement.shared:
        seen: tuple[SetMember, int] | None = None
        for program, use in one.uses.items():
            member = by_name[program]
            for tensor in use.names:
                row = member.rows.get(tensor)
                if row is None:
                    text = f"{program} has no tensor {tensor}, which the set shares as {one.name}"
                    yield _shared(text, one, (program,))
                    continue
                yield from _kinds(member, row, one)
                if seen is None:
                    seen = member, row
                if _place(member, row) != (one.arena, one.offset, one.bytes, one.alignment, one.dtype):
                    other, its = seen
                    shown = f"{other.describe(its)}; {member.describe(row)}"
                    if (other, its) == (member, row):
                        shown = f"{member.describe(row)}; the set has {one.bytes} bytes at {one.offset} of {one.arena}"
                        shown += f", alignment {one.alignment}, type {one.dtype}"
                    names = (other.tensor(its).name, tensor)
                    yield _shared(f"{one.name}: {shown}", one, tuple(dict.fromkeys((other.name, program))), names)


def _place(member: SetMember, row: int) -> tuple[str, int, int, int, str]:
    t = member.tensor(row)
    return member.arena_of(row), t.address, t.bytes, t.alignment, member.dtype_of(row)


def _kinds(member: SetMember, row: int, one: SharedTensor) -> Iterator[Violation]:
    """Check that an entry is the caller's, and that an exit is written and returned. spec: PS1.1, PS1.13"""
    use, name = one.uses[member.name], member.tensor(row).name
    if use.entry == name and not member.is_callers(row):
        yield _shared(f"{member.name}:{name} is the entry of {one.name}, and a step writes it", one, (member.name,))
    if use.exit != name:
        return
    if member.is_callers(row) and row not in member.mutated:
        text = f"{member.name}:{name} is the exit of {one.name}, and no step writes it"
        yield _shared(text, one, (member.name,))
    if member.is_callers(row) and use.entry != name:
        text = f"{member.name}:{name} is the exit of {one.name}, and holds a value before the call: it is the entry too"
        yield _shared(text, one, (member.name,))
    if row not in member.returned:
        text = f"{member.name}:{name} is the exit of {one.name}, and the caller does not read it after the last step:"
        text += " state it as an output, or as optimizer state that is not donated in the plan"
        yield Violation(Obligation.STATE_IS_RETURNED, text, (name,), programs=(member.name,))


def _shared(
    text: str, one: SharedTensor, programs: tuple[str, ...], tensors: tuple[str, ...] | None = None
) -> Violation:
    names = (one.name,) if tensors is None else tuple(dict.fromkeys(tensors))
    return Violation(Obligation.SHARED_AT_ONE_PLACE, text, names, programs=programs)


def _resized(members: Sequence[SetMember], state: Sequence[StateTensor]) -> Iterator[Violation]:
    """Check that state has its bytes at every shape: what a call leaves is what the next one takes. spec: PS1.11"""
    for member in members:
        sizes = member.plan.sizes() if member.plan.envelope is not None else []
        for one, row in list_ends(member, state) if sizes else ():
            shape = find_shape_apart(sizes[row], one.bytes, member.plan.ranges)
            if shape is not None:
                name, at = member.tensor(row).name, ", ".join(f"{dim}={size}" for dim, size in shape.items())
                found = evaluate(sizes[row], shape)
                text = f"{one.label}: {member.name}:{name} has {format_dim(sizes[row])} bytes, {found} at {at},"
                text += f" and {one.bytes} are shared; give it one size at every shape"
                sized = (found, one.bytes)
                which, programs = Obligation.SHARED_AT_ONE_PLACE, (member.name,)
                yield Violation(which, text, (name,), programs=programs, shape=shape, sizes=sized)


def _overlaps(members: Sequence[SetMember], state: Sequence[StateTensor]) -> Iterator[Violation]:
    """Check that no two tensors of the state share a byte. O(n log n): neighbours by address. spec: PS1.4"""
    placed = sorted((one for one in state if one.bytes), key=lambda one: (one.arena, one.address))
    furthest: StateTensor | None = None
    for a, b in pairwise(placed):
        furthest = a if furthest is None or furthest.arena != a.arena or furthest.end < a.end else furthest
        if furthest.arena == b.arena and b.address < furthest.end:
            programs = tuple(dict.fromkeys((*furthest.uses, *b.uses)))
            text = f"{furthest.label} and {b.label} are state of the set, and have bytes in common"
            if (furthest.address, furthest.bytes) == (b.address, b.bytes):
                text += "; share them if they are one tensor"
            last = min(furthest.end, b.end) - 1
            names = (furthest.label, b.label)
            yield Violation(
                Obligation.STATE_IS_UNTOUCHED, text, names, None, b.arena, b.address, last, programs=programs
            )  # fmt: skip


def _touched(members: Sequence[SetMember], state: Sequence[StateTensor]) -> Iterator[Violation]:
    """Check that each program writes no byte of state that it leaves alone. O(n log n). spec: PS1.5, PS1.6"""
    for member in members:
        entries = {one.uses[member.name].entry for one in state if member.name in one.uses}
        left = [one for one in state if one.bytes and one.is_left_alone_by(member.name)]
        rows = [row for row in member.callers if member.tensor(row).name not in entries]
        by_arena: dict[str, list[int]] = {}
        for row in (*member.written, *rows):
            by_arena.setdefault(member.arena_of(row), []).append(row)
        for arena, writes in by_arena.items():
            for one, row in _hits(member, [one for one in left if one.arena == arena], writes):
                yield _hit(member, one, row, state)


def _hits(
    member: SetMember, left: Sequence[StateTensor], writes: Sequence[int]
) -> Iterator[tuple[StateTensor, int]]:  # fmt: skip
    """Yield each tensor of the state of one arena that a write hits, with one such write.

    Of the writes that begin before a tensor ends, the one that ends last decides. O(n log n).
    """
    ordered = sorted((member.tensor(row).address, row) for row in writes)
    starts, furthest = [first for first, _ in ordered], list[int]()
    for _, row in ordered:
        last = furthest[-1] if furthest else row
        furthest.append(row if _end(member, row) > _end(member, last) else last)
    for one in left:
        before = bisect_left(starts, one.end)
        if before and _end(member, furthest[before - 1]) > one.address:
            yield one, furthest[before - 1]


def _end(member: SetMember, row: int) -> int:
    t = member.tensor(row)
    return t.address + t.bytes


def _hit(member: SetMember, one: StateTensor, row: int, state: Sequence[StateTensor]) -> Violation:
    """Return the violation that a program writes a tensor over state, with calls that show it."""
    t = member.tensor(row)
    first, last = max(t.address, one.address), min(t.address + t.bytes, one.end) - 1
    step = next((n for n, each in enumerate(member.run.steps) if row in each.writes), None)
    by = (
        f"step {step} ({member.run.nodes[step]}) of {member.name}"
        if step is not None
        else f"the caller of {member.name}"
    )
    reader = next((program for program, use in one.uses.items() if use.entry is not None), None)
    calls: tuple[str, ...] = (member.name,)
    if reader is not None:
        _, before = find_never_ready(state, [*dict.fromkeys((*one.uses, member.name, *_all(state)))])
        prefix = before.get(reader, [])
        own = [] if reader == member.name else [*before.get(member.name, []), member.name]
        calls = (*prefix, *([reader] if own == [] else []), *own, reader)
    text = f"{by} writes {t.name} over {one.label}"
    if reader is not None:
        text += f", which {reader} finds destroyed"
    names = (t.name, one.label)
    where = one.arena, first, last
    return Violation(Obligation.STATE_IS_UNTOUCHED, text, names, step, *where, programs=(member.name,), calls=calls)


def _all(state: Sequence[StateTensor]) -> list[str]:
    return list(dict.fromkeys(program for one in state for program in one.uses))


def _not_returned(members: Sequence[SetMember], state: Sequence[StateTensor]) -> Iterator[Violation]:
    """Check that each exit lives to the last step. Its own plan shows that it then holds its value. spec: PS1.7"""
    by_name = {member.name: member for member in members}
    for one in state:
        for program, use in one.uses.items():
            member = by_name[program]
            row = member.rows[use.exit] if use.exit is not None else None
            if row is not None and member.tensor(row).death < member.run.last_step:
                t = member.tensor(row)
                text = f"{program}:{t.name} is the exit of {one.label}, and it dies at step {t.death}"
                text += f" of 0 to {member.run.last_step}"
                yield Violation(Obligation.STATE_IS_RETURNED, text, (t.name,), t.death, programs=(program,))


def _left_unwritten(members: Sequence[SetMember], state: Sequence[StateTensor]) -> Iterator[Violation]:
    """Check that each call writes its exits, whatever runs in it. spec: PS1.10"""
    by_name = {member.name: member for member in members}
    for one in state:
        for program, use in one.uses.items():
            member = by_name[program]
            if use.exit in (None, use.entry):
                continue
            row = member.root(member.rows[use.exit])
            if member.is_callers(row) or row in member.always_written:
                continue
            step = next(n for n, each in enumerate(member.run.steps) if row in each.writes)
            text = f"{program}:{use.exit} is the exit of {one.label}, and a call may leave it unwritten: step {step}"
            text += f" ({member.run.nodes[step]}) is in a body that may not run; write it behind that body"
            which, where = Obligation.STATE_IS_WRITTEN_FIRST, (one.arena, one.address, one.end - 1)
            yield Violation(which, text, (use.exit,), step, *where, programs=(program,), calls=(program,))


def _never_ready(members: Sequence[SetMember], state: Sequence[StateTensor]) -> Iterator[Violation]:
    """Check that every program can be called when all that it reads holds a value. spec: PS1.8"""
    never, _ = find_never_ready(state, [member.name for member in members])
    by_name = {member.name: member for member in members}
    for program in never:
        one = next(one for one in missing_at_first(state, program))
        entry = one.uses[program].entry
        assert entry is not None
        givers = [other for other, use in one.uses.items() if use.exit is not None]
        why = f"it is written only by {', '.join(givers)}, which must read first" if givers else "no program writes it"
        row = by_name[program].rows[entry]
        step = next((n for n, each in enumerate(by_name[program].run.steps) if row in each.reads), None)
        text = f"{program} reads {entry} before anything has written {one.label}: {why}"
        where = one.arena, one.address, one.end - 1
        yield Violation(
            Obligation.STATE_IS_WRITTEN_FIRST, text, (entry,), step, *where, programs=(program,), calls=(program,)
        )  # fmt: skip
