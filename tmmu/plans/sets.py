"""A plan set as data: the agreement of several programs on one memory, and its manifest `set.cbor` (spec/set.cddl).

A set is a folder with the manifest and a plan `NAME.cbor` of each program. Each plan states the digest of the
agreement, and the manifest the file digest of each plan, so that neither can be exchanged unnoticed. Reading checks
that the bytes are a manifest. Whether the set is right is for `proofs.sets`.
spec: PS1.1, PS1.3, PS2.1 to PS2.5
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tmmu.core import canonical, kind
from tmmu.core.columns import NONE, build_column
from tmmu.core.dtypes import BITS
from tmmu.core.errors import TmmuError
from tmmu.core.fields import (
    check_boolean,
    check_distinct,
    check_integer,
    check_keys,
    check_one_of,
    check_size,
    check_text,
    plan_error,
    read_entries,
    read_record,
    unexpected_error,
)
from tmmu.core.vocabulary import Role
from tmmu.plans import file
from tmmu.plans.columns import IS_RETURNED, ROLES
from tmmu.plans.gate import SPEC_VERSION
from tmmu.plans.provenance import check_digest
from tmmu.plans.sections import Membership, Plan
from tmmu.plans.shapes import compute_peaks

FORMAT = "tmmu-set"
MANIFEST = kind.MANIFEST
"""The name of the manifest in the folder of a set."""
LAYOUTS = ("slots", "packed")
"""The layouts that a set can have."""
LIMIT = 1 << 26
"""The largest manifest that is read, in bytes."""
MAX_PROGRAMS, MAX_SHARED = 256, 65_536
"""The most programs and shared tensors of a set."""
PERSISTENT = (ROLES.index(Role.PARAMETER), ROLES.index(Role.OPTIMIZER))
MAX_NAME = 200
"""The longest name of a program, in bytes."""


class SharedUse(NamedTuple):
    """The tensors of one program that have the value of a shared tensor: at its begin, and at its end.

    `entry` is None if the program does not read the value that it finds. `exit` is None if it leaves it unchanged. A
    program that mutates its entry has it as exit too.
    """

    entry: str | None = None
    exit: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors, each once."""
        return tuple(dict.fromkeys(name for name in self if name is not None))


@dataclass(frozen=True)
class SharedTensor:
    """State that the programs of a set find at the same bytes: its place and type, and its tensors in each program.

    `is_initial` states that the caller writes it before the first call.
    """

    name: str
    arena: str
    offset: int
    bytes: int
    alignment: int
    dtype: str
    is_initial: bool
    uses: Mapping[str, SharedUse]

    @property
    def is_weight(self) -> bool:
        """Whether no program writes it."""
        return all(use.exit is None for use in self.uses.values())


class SetArena(NamedTuple):
    """An arena of a set: the bytes that it needs for all programs, and the alignment of its base."""

    name: str
    bytes: int
    alignment: int


@dataclass(frozen=True)
class Agreement:
    """What the programs of a set agree on: their names, the arenas, and the shared tensors."""

    programs: tuple[str, ...]
    arenas: tuple[SetArena, ...]
    shared: tuple[SharedTensor, ...]

    @cached_property
    def digest(self) -> bytes:
        """The digest that each plan of the set states."""
        return canonical.digest(agreement_object(self))


@dataclass(frozen=True)
class PlanSet:
    """The manifest of a set: the agreement, the layout, and the file digest of each program's plan."""

    agreement: Agreement
    layout: str
    members: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def footprint(self) -> int:
        """The bytes of all arenas."""
        return sum(arena.bytes for arena in self.agreement.arenas)

    def membership(self, program: str) -> Membership:
        """Return the section of a program's plan about the set."""
        return Membership(program, self.agreement.digest)


def agreement_object(agreement: Agreement) -> dict[str, Any]:
    """Convert an agreement to an object for a file."""
    shared = [
        {
            "name": one.name, "arena": one.arena, "offset": one.offset, "bytes": one.bytes, "alignment": one.alignment,
            "dtype": one.dtype, "initial": one.is_initial,
            "uses": {program: use._asdict() for program, use in one.uses.items()},
        }
        for one in agreement.shared
    ]  # fmt: skip
    return {
        "programs": list(agreement.programs), "arenas": [arena._asdict() for arena in agreement.arenas],
        "shared": shared,
    }  # fmt: skip


def encode(plan_set: PlanSet) -> bytes:
    """Return the bytes of `set.cbor`."""
    value = {
        "format": FORMAT, "spec_version": SPEC_VERSION, "agreement": agreement_object(plan_set.agreement),
        "layout": plan_set.layout, "members": dict(plan_set.members),
    }  # fmt: skip
    return canonical.encode(value | {"file_digest": canonical.digest(value)})


def decode(data: bytes) -> PlanSet:
    """Decode a manifest. Raises INVALID_PLAN with the place if the bytes are none. O(bytes). spec: PS2.4

    A file digest that does not recompute is refused: a manifest has no content without it that could be proved.
    """
    value = canonical.decode(data, "set")
    known = ("format", "spec_version", "agreement", "layout", "members", "file_digest")
    value = check_keys(value, known, "set")
    check_one_of(value["format"], (FORMAT,), "format")
    check_one_of(value["spec_version"], (SPEC_VERSION,), "spec_version")
    check_one_of(value["layout"], LAYOUTS, "layout")
    agreement = _agreement(value["agreement"])
    members = check_keys(value["members"], agreement.programs, "members")
    digests = {name: check_digest(digest, f"members.{name}") for name, digest in members.items()}
    stated = check_digest(value["file_digest"], "file_digest")
    actual = canonical.digest({key: value[key] for key in known[:-1]})
    if stated != actual:
        raise plan_error("file_digest", f"it is stated as {stated.hex()}; it is {actual.hex()}")
    return PlanSet(agreement, value["layout"], digests)


def check_program(value: Any, place: str) -> str:
    """Check and return the name of a program: a plain file name. spec: PS2.5"""
    name = check_text(value, place)
    plain = name not in ("", ".", "..") and not any(c in "/\\:" or unicodedata.category(c)[0] == "C" for c in name)
    if not plain or len(name.encode()) > MAX_NAME or name + ".cbor" == MANIFEST:
        raise unexpected_error(place, f"a file name without separators, up to {MAX_NAME} bytes", value)
    return name


def _agreement(value: Any) -> Agreement:
    def programs(item: Any, place: str) -> tuple[str, ...]:
        names = read_entries(item, place, check_program)
        check_distinct(names, place)
        if not 1 <= len(names) <= MAX_PROGRAMS:
            raise plan_error(place, f"expected 1 to {MAX_PROGRAMS} programs, got {len(names)}")
        return names

    def arenas(item: Any, place: str) -> tuple[SetArena, ...]:
        readers: dict[str, Any] = {"name": check_text, "bytes": check_integer, "alignment": check_size}
        found = read_entries(item, place, lambda one, at: SetArena(**read_record(readers, one, at)))
        check_distinct([arena.name for arena in found], place)
        return found

    def shared(item: Any, place: str) -> tuple[SharedTensor, ...]:
        if isinstance(item, list) and len(item) > MAX_SHARED:
            raise plan_error(place, f"expected at most {MAX_SHARED} shared tensors, got {len(item)}")
        found = read_entries(item, place, _shared_tensor)
        check_distinct([one.name for one in found], place)
        return found

    readers: dict[str, Any] = {"programs": programs, "arenas": arenas, "shared": shared}
    made = Agreement(**read_record(readers, value, "agreement"))
    ends = {arena.name: arena.bytes for arena in made.arenas}
    for i, one in enumerate(made.shared):
        place = f"agreement.shared[{i}]"
        if one.arena not in ends:
            raise plan_error(place, f"the arena {one.arena!r} is not listed")
        if one.offset + one.bytes > ends[one.arena]:
            raise plan_error(place, f"it ends at {one.offset + one.bytes}, its arena at {ends[one.arena]}")
        if unknown := one.uses.keys() - set(made.programs):
            raise plan_error(f"{place}.uses", f"the program {min(unknown)!r} is not listed")
    in_order = (
        replace(one, uses={program: one.uses[program] for program in made.programs if program in one.uses})
        for one in made.shared
    )
    made = replace(made, shared=tuple(in_order))
    for program in made.programs:
        names = [name for one in made.shared if program in one.uses for name in one.uses[program].names]
        check_distinct(names, f"agreement.shared: tensors of {program}")
    return made


def _shared_tensor(value: Any, place: str) -> SharedTensor:
    readers: dict[str, Any] = {
        "name": check_text, "arena": check_text, "offset": check_integer, "bytes": check_integer,
        "alignment": check_size, "dtype": lambda item, at: check_one_of(item, tuple(BITS), at),
        "initial": check_boolean, "uses": _uses,
    }  # fmt: skip
    found = read_record(readers, value, place)
    return SharedTensor(is_initial=found.pop("initial"), **found)


def _uses(value: Any, place: str) -> dict[str, SharedUse]:
    if not isinstance(value, dict) or not value:
        raise unexpected_error(place, "the tensors of one program or more", value)
    return {program: _use(item, f"{place}.{program}") for program, item in value.items()}


def _use(value: Any, place: str) -> SharedUse:
    def tensor(item: Any, at: str) -> str | None:
        return None if item is None else check_text(item, at)

    use = SharedUse(**read_record({"entry": tensor, "exit": tensor}, value, place))
    if not use.names:
        raise plan_error(place, "expected an entry or an exit, got neither")
    return use


is_set = kind.is_set


def load(folder: str | os.PathLike[str]) -> PlanSet:
    """Read the manifest in a folder. Raises INVALID_PLAN naming file and place, and OSError if it cannot be read."""
    path = os.path.join(folder, MANIFEST)
    try:
        return decode(canonical.read_bounded(path, LIMIT))
    except TmmuError as error:
        error.in_file(path)
        raise


def plan_path(folder: str | os.PathLike[str], program: str) -> str:
    """Return the file of a program's plan in the folder of a set."""
    return os.path.join(folder, f"{program}.cbor")


def save(folder: str | os.PathLike[str], plan_set: PlanSet, plans: Mapping[str, bytes]) -> list[str]:
    """Write a set into a folder, which is made if it does not exist, and return the paths. `plans` are encoded.

    Every file is complete before the first is renamed, the manifest last. Plans of an older set that is replaced are
    removed. Raises TMMU_ALLOCATION_FAILURE and OSError; no file of the set is then changed. spec: PS2.1
    """
    folder = os.fspath(folder)
    old = load(folder).agreement.programs if is_set(folder) else ()
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise TmmuError(
            "TMMU_ALLOCATION_FAILURE", f"the folder cannot be made ({error.strerror})", file=folder,
            fix="choose another folder",
        ) from error  # fmt: skip
    manifest = os.path.join(folder, MANIFEST)
    paths = {program: plan_path(folder, program) for program in plans}
    with ExitStack() as stack:  # which closes, and so renames, the manifest last
        for path, data in ((manifest, encode(plan_set)), *((paths[name], data) for name, data in plans.items())):
            stack.enter_context(canonical.open_atomically(path)).write(data)
    for program in old:
        if program not in plans:
            canonical.remove(plan_path(folder, program))
    return [*paths.values(), manifest]


def footprints(plan: Plan) -> dict[str, int]:
    """Return the end of the last storage of each arena of a plan, by name. A storage of zero bytes counts as one."""
    found = dict.fromkeys((arena.name for arena in plan.allocation.arenas), 0)
    s = plan.allocation.storages
    for a, size, offset in zip(s.arena.tolist(), s.bytes.tolist(), s.offset.tolist(), strict=True):
        name = plan.allocation.arenas[a].name
        found[name] = max(found[name], offset + max(1, size))
    return found


def arenas_of(plans: Mapping[str, Plan]) -> tuple[SetArena, ...]:
    """Return the arenas of a set: of each name the largest end and the strictest base among the plans. O(storages)."""
    bytes_, alignments = dict[str, int](), dict[str, int]()
    for plan in plans.values():
        for name, end in footprints(plan).items():
            bytes_[name] = max(bytes_.get(name, 0), end)
        for name, needed in plan.allocation.needed_base_alignments().items():
            alignments[name] = max(alignments.get(name, 1), needed)
    return tuple(SetArena(name, end, alignments[name]) for name, end in bytes_.items())


def load_plans(folder: str | os.PathLike[str], plan_set: PlanSet) -> dict[str, Plan]:
    """Read the plan of each program of a set. Raises INVALID_PLAN for one that cannot be read, or is of another set."""
    plans = {}
    for program in plan_set.agreement.programs:
        path = plan_path(folder, program)
        try:
            plan = file.load(path).plan
        except OSError as error:
            what, fix = f"the plan of {program} cannot be read ({error.strerror})", "plan the set again"
            raise TmmuError("INVALID_PLAN", what, file=path, fix=fix) from error
        if plan.membership != plan_set.membership(program):
            raise TmmuError("INVALID_PLAN", "it is not a plan of this set", file=path, fix="plan the set again")
        plans[program] = plan
    return plans


def live_peaks(agreement: Agreement, plans: Mapping[str, Plan]) -> dict[str, int]:
    """Return the most bytes of each arena that one program has live together with all state: no set can need fewer.

    O(storages + arenas x steps). spec: PS3.5
    """
    state: dict[str, dict[int, int]] = {arena.name: {} for arena in agreement.arenas}
    most = dict.fromkeys(state, 0)
    for program, plan in plans.items():
        t, s = plan.allocation.tensors, plan.allocation.storages
        rows = {name: row for row, name in enumerate(t.name.list())}
        kept = (t.writer == NONE) & np.isin(t.role, PERSISTENT) & (t.flags & IS_RETURNED != 0)
        shared = [rows[name] for one in agreement.shared for name in one.uses.get(program, SharedUse()).names]
        of_state = np.zeros(len(s), np.bool_)
        of_state[t.storage[kept]], of_state[t.storage[shared]] = True, True
        for k in np.flatnonzero(of_state).tolist():
            at = state[plan.allocation.arenas[int(s.arena[k])].name]
            at[int(s.offset[k])] = max(at.get(int(s.offset[k]), 0), int(s.bytes[k]))
        rest = replace(s, bytes=build_column(np.where(of_state, 0, s.bytes), np.uint64))
        peaks = compute_peaks(rest, len(plan.allocation.arenas), max(1, len(plan.allocation.steps)))
        for arena, (live, _) in zip(plan.allocation.arenas, peaks, strict=True):
            most[arena.name] = max(most[arena.name], live)
    return {name: live + sum(state[name].values()) for name, live in most.items()}
