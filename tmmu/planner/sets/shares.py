"""Decide which tensors of which programs are one shared tensor: the names and pairs of `--share`.

A name, or a pattern, shares the tensors of one name in all programs. A pair `PROGRAM:NAME=PROGRAM:NAME` joins tensors
of different names, also of one program. Groups are the connected components. spec: PS3.1, PS3.2
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tmmu.core.errors import TmmuError
from tmmu.core.output import suggest_names
from tmmu.planner.patterns import match_pattern


class TensorOfProgram(NamedTuple):
    """A tensor of a program."""

    program: str
    tensor: str

    def __str__(self) -> str:
        return f"{self.program}:{self.tensor}"


Groups = dict[str, list[TensorOfProgram]]
"""The tensors of each shared tensor, by its name, in the order of the programs."""
NOTHING_KNOWN: Mapping[TensorOfProgram, str] = {}


def group_shared(
    requests: Sequence[str],
    candidates: Mapping[str, Sequence[str]],
    pairs: Sequence[tuple[TensorOfProgram, TensorOfProgram]] = (),
    known: Mapping[TensorOfProgram, str] = NOTHING_KNOWN,
    entries: Collection[TensorOfProgram] = (),
) -> Groups:
    """Return the tensors of each shared tensor. `candidates` are the tensors of each program that may be shared.

    `pairs` are further pairs, which may repeat one another, and `known` tensors that are in a shared tensor already. A
    group keeps its known name; else it has that of its first program's tensor, of the two the one among `entries`.
    Raises INVALID_BINDING. O(requests x candidates).
    """
    joined = _Groups()
    for request in requests:
        if "=" in request:
            first, second = (_parse_end(end, request, candidates) for end in request.split("=", 1))
            if first == second or not joined.join(first, second):
                raise share_error(request, f"{first} and {second} are one shared tensor already", "leave the pair out")
            continue
        found = _of_pattern(request, candidates)
        for ends in found.values():
            for other in ends[1:]:
                joined.join(ends[0], other)
    for a, b in pairs:
        joined.join(a, b)
    order = {program: k for k, program in enumerate(candidates)}
    groups: Groups = {}
    for ends in joined.groups():
        ends.sort(key=lambda end: order[end.program])
        own = [end for end in ends if end.program == ends[0].program]
        first = next((end for end in own if end in entries), own[0])
        name = next((known[end] for end in ends if end in known), first.tensor)
        groups[name if name not in groups else str(ends[0])] = ends
    return groups


def _of_pattern(request: str, candidates: Mapping[str, Sequence[str]]) -> dict[str, list[TensorOfProgram]]:
    """Return the tensors of each name that a request fits and that several programs have."""
    found: dict[str, list[TensorOfProgram]] = {}
    for program, names in candidates.items():
        for name in names:
            if name == request or ("*" in request and match_pattern(request, name)):
                found.setdefault(name, []).append(TensorOfProgram(program, name))
    several = {name: ends for name, ends in found.items() if len(ends) > 1}
    if several:
        return several
    known = dict.fromkeys(name for names in candidates.values() for name in names)
    if not found:
        near = suggest_names(request, sorted(known), f"share one of {', '.join(sorted(known)[:8])}")
        raise share_error(request, "no program has an input, parameter or output of this name", near)
    [first, *_] = found.values()
    lacking = next(program for program in candidates if program != first[0].program) if len(candidates) > 1 else ""
    what = f"only {first[0].program} has it, {lacking} lacks it" if lacking else f"only {first[0].program} has it"
    fix = f"pair it with a tensor of another name: --share {first[0]}={lacking or first[0].program}:NAME"
    raise share_error(first[0].tensor, what, fix)


def _parse_end(end: str, request: str, candidates: Mapping[str, Sequence[str]]) -> TensorOfProgram:
    program, colon, tensor = end.partition(":")
    if not colon or program not in candidates:
        programs = ", ".join(candidates)
        raise share_error(request, f"expected PROGRAM:NAME, got {end!r}", f"the programs are {programs}")
    if tensor not in candidates[program]:
        near = suggest_names(tensor, sorted(candidates[program]), "share an input, a parameter or an output")
        raise share_error(request, f"{program} has no input, parameter or output {tensor!r}", near)
    return TensorOfProgram(program, tensor)


class _Groups:
    """Connected components of tensors, in the order in which they were begun."""

    def __init__(self) -> None:
        self._of: dict[TensorOfProgram, list[TensorOfProgram]] = {}

    def join(self, a: TensorOfProgram, b: TensorOfProgram) -> bool:
        """Join two tensors. Returns False if they are joined already."""
        one, other = self._of.setdefault(a, [a]), self._of.setdefault(b, [b])
        if one is other:
            return False
        one.extend(other)
        for end in other:
            self._of[end] = one
        return True

    def groups(self) -> list[list[TensorOfProgram]]:
        """Return the components."""
        return [list(ends) for first, ends in self._of.items() if ends[0] == first]


def share_error(name: str, what: str, fix: str) -> TmmuError:
    """Return the refusal of a shared tensor."""
    return TmmuError("INVALID_BINDING", what, place=f"shared tensor {name!r}", fix=fix, binding=name)


def set_error(what: str, fix: str) -> TmmuError:
    """Return the refusal of a set as a whole."""
    return TmmuError("INVALID_BINDING", what, place="the plan set", fix=fix, binding="set")
