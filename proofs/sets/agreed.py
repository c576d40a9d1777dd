"""Make the agreement of plans without a manifest from names: `verify-plan A B --shared NAMES --initial NAMES`.

A name, or a pattern, shares the tensors of one name in all plans that have it. `PROGRAM:NAME=PROGRAM:NAME` pairs
others. What counts is what the caller writes or reads. State that the runtime of another producer keeps for a single
program is listed as well. The place of a shared tensor is taken from the first plan: the checks then compare all others
with it. spec: PS1.1, PS1.2, PS4.4, PS4.8
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proofs.readers.patterns import fits
from proofs.sets.members import SetMember
from tmmu.core.output import list_names, suggest_names
from tmmu.plans.sets import Agreement, SharedTensor, SharedUse, arenas_of

End = tuple[str, str]
"""A program, and a tensor of it."""
NO_TENSOR = -1


def agree_by_names(members: Sequence[SetMember], shared: Sequence[str], initial: Sequence[str]) -> Agreement:
    """Return the agreement of plans in which these names and pairs are shared.

    Parameters and optimizer state, state with a first value in the file of another producer, and tensors that `initial`
    names are written before the first call. Raises ValueError for a name that fewer than two plans have, a pair that
    fits nothing or repeats another, and a plan that would have two entries or two exits of one shared tensor.
    O(names x tensors).
    """
    groups = _named(members, _joined_by_exits(members, _with_own_state(members, _groups(members, shared))))
    found = []
    for name, ends in groups.items():
        uses: dict[str, SharedUse] = {}
        persists = False
        for member in members:
            if own := [tensor for program, tensor in ends if program == member.name]:
                use = uses[member.name] = _use(member, name, own)
                persists |= use.entry is not None and member.is_initial(member.rows[use.entry])
        first = next(member for member in members if member.name in uses)
        row = first.rows[uses[first.name].names[0]]
        t = first.tensor(row)
        is_initial = persists or any(fits(pattern, name) for pattern in initial)
        place = first.arena_of(row), t.address, t.bytes, t.alignment, first.dtype_of(row)
        found.append(SharedTensor(name, *place, is_initial, uses))
    for pattern in initial:
        if not any(fits(pattern, name) for name in groups):
            raise ValueError(
                f"--initial {pattern}: no shared tensor has this name; there are {list_names(list(groups))}"
            )
    arenas = arenas_of({member.name: member.plan for member in members})
    return Agreement(tuple(member.name for member in members), arenas, tuple(found))


def _candidates(member: SetMember) -> list[str]:
    """Return the tensors that the caller writes before, or reads after, a run."""
    return [t.name for row, t in enumerate(member.run.tensors) if t.writer is None or row in member.returned]


def _groups(members: Sequence[SetMember], shared: Sequence[str]) -> list[list[End]]:
    """Return the tensors of each shared tensor."""
    candidates = {member.name: _candidates(member) for member in members}
    groups: list[list[End]] = []
    for request in shared:
        for ends in _requested(request, candidates):
            touching = [group for group in groups if not set(group).isdisjoint(ends)]
            if "=" in request and any(set(ends) <= set(group) for group in touching):
                raise ValueError(f"--shared {request}: the two are one shared tensor already")
            merged = list(dict.fromkeys(end for group in (*touching, ends) for end in group))
            groups = [group for group in groups if group not in touching] + [merged]
    return groups


def _with_own_state(members: Sequence[SetMember], groups: list[list[End]]) -> list[list[End]]:
    """Add the state that a runtime keeps for one program alone."""
    shared = {end for group in groups for end in group}
    return groups + [[(member.name, t)] for member in members for t in member.state if (member.name, t) not in shared]


def _joined_by_exits(members: Sequence[SetMember], groups: list[list[End]]) -> list[list[End]]:
    """Join the groups of an entry and of its exit, if both are shared by their own names."""
    for member in members:
        for end in [end for group in groups for end in group if end[0] == member.name]:
            row = member.rows[end[1]]
            exit_ = (member.name, _exit_of(member, row)) if member.is_callers(row) else end
            touching = [group for group in groups if end in group or exit_ in group]
            if len(touching) > 1:
                groups = [group for group in groups if group not in touching]
                groups.append([each for group in touching for each in group])
    return groups


def _named(members: Sequence[SetMember], groups: list[list[End]]) -> dict[str, list[End]]:
    """Return the groups by name: that of the first program's entry, else of its exit."""
    order = {member.name: k for k, member in enumerate(members)}
    by_name = {member.name: member for member in members}
    found: dict[str, list[End]] = {}
    for group in groups:
        group.sort(key=lambda end: order[end[0]])
        own = [end for end in group if end[0] == group[0][0]]
        first = next((end for end in own if by_name[end[0]].is_callers(by_name[end[0]].rows[end[1]])), own[0])
        found[first[1] if first[1] not in found else ":".join(first)] = group
    return found


def _requested(request: str, candidates: dict[str, list[str]]) -> Iterator[list[End]]:
    """Yield the tensors that a name, a pattern or a pair makes one shared tensor."""
    if "=" in request:
        yield [_end(request, text, candidates) for text in request.split("=", 1)]
        return
    names = dict.fromkeys(name for each in candidates.values() for name in each if fits(request, name))
    several = [[(p, name) for p, each in candidates.items() if name in each] for name in names]
    if not names:
        known = sorted({name for each in candidates.values() for name in each})
        near = suggest_names(request, known, "tmmu show lists tensors with --tensors")
        raise ValueError(f"--shared {request}: no plan has an input, parameter or output of this name; {near}")
    if all(len(ends) < 2 for ends in several):
        only, name = several[0][0]
        raise ValueError(f"--shared {request}: only {only} has {name}; pair it: --shared {only}:{name}=PROGRAM:NAME")
    yield from (ends for ends in several if len(ends) > 1)


def _end(request: str, text: str, candidates: dict[str, list[str]]) -> End:
    program, _, tensor = text.partition(":")
    if program not in candidates:
        raise ValueError(
            f"--shared {request}: expected PROGRAM:NAME, got {text!r}; there are {list_names(list(candidates))}"
        )
    if tensor not in candidates[program]:
        near = suggest_names(tensor, sorted(candidates[program]), "tmmu show lists tensors with --tensors")
        raise ValueError(f"--shared {request}: {program} has no input, parameter or output {tensor!r}; {near}")
    return program, tensor


def _use(member: SetMember, shared: str, names: Sequence[str]) -> SharedUse:
    """Return the entry and the exit among the tensors of a program. Raises ValueError for two of either."""
    entries = [name for name in names if member.is_callers(member.rows[name])]
    exits = [name for name in names if name not in entries]
    for what, found in (("entries", entries), ("exits", exits)):
        if len(found) > 1:
            raise ValueError(f"--shared {shared}: {member.name} would have two {what}: {list_names(found)}")
    entry, exit_ = next(iter(entries), None), next(iter(exits), None)
    if entry is not None and exit_ is None:
        exit_ = _exit_of(member, member.rows[entry])
    return SharedUse(entry, exit_)


def _exit_of(member: SetMember, entry: int) -> str | None:
    """Return the returned tensor that took the bytes of an entry in place, or the entry itself if it is mutated.

    What a file declares to be returned there is accepted as the exit; whether it is there is checked like any exit.
    """
    if entry in member.mutated:
        return member.tensor(entry).name
    run, t = member.run, member.tensor(entry)
    if (declared := member.exits.get(t.name)) is not None:
        return declared
    place = (t.arena, t.address, t.bytes)
    for row in run.returned:
        at, is_changed = row, False
        for _ in run.tensors:  # each step of the chain is to an earlier tensor, unless the plan is wrong
            other = run.tensors[at]
            if at == entry or (other.arena, other.address, other.bytes) != place:
                break
            is_changed |= at in run.in_place
            at = run.in_place.get(at, run.views[at][0] if at in run.views else NO_TENSOR)
            if at == NO_TENSOR:
                break
        if at == entry and is_changed:
            return run.tensors[row].name
    return None
