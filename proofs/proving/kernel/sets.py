"""Ask the installed program about a plan set: do its programs run in turn as in private memory?

The program decodes the file of each plan. Beside them it reads the agreement: what is kept between calls, in which
tensors each program finds and leaves it, and which arenas of two plans are one. The agreement is trusted, except for
the places, which the plans must have. What `SetFile.v` calls evidence is not trusted. spec: V6.24
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from proofs.proving.certificate.slots import Rows
from proofs.proving.kernel import installed
from proofs.proving.kernel.answer import NOT_ASKED, NOT_INSTALLED
from proofs.proving.kernel.arms import NotExpressed
from proofs.proving.kernel.evidence import file_columns
from proofs.proving.kernel.memory import Column
from proofs.proving.kernel.program import PlanFile, run_program
from proofs.proving.obligations.context import Context

WITH_STREAMS = "the theorem about plan sets has no steps on streams"
"""The reason why the kernel is not asked about a set of such plans. spec: PS4.7"""
VERSION = 1
"""The version of the words about a set, as in `SetFile.v`."""
NONE = -1
ANSWER = re.compile(
    r"(?:accepted set|rejected set (?P<part>[0-6]) (?P<program>-1|[0-9]{1,10}))(?P<digests>(?: [0-9a-f]{64})+)\n"
)
PARTS = (
    "places of the state", "arenas", "entries and exits", "bytes beside the state", "entries that steps write",
    "first calls", "plans",
)  # fmt: skip
"""The parts of the decision on a set, by the number that the program prints if one fails."""


class Ends(NamedTuple):
    """The tensors of one program that have the value of a kept tensor when a call begins and ends, or None."""

    entry: int | None = None
    exit: int | None = None


class KeptTensor(NamedTuple):
    """What is kept between calls: its place, whether the caller writes it before the first call, and its tensors.

    `ends` gives them for each program that has it, by the position of the program. Without an exit a program leaves it
    as it was, and may not write a byte of it.
    """

    arena: str
    address: int
    bytes: int
    is_initial: bool
    ends: Mapping[int, Ends]


class JudgedProgram(NamedTuple):
    """A program of a set: its plan, which passed the gate, and the plan's file."""

    context: Context
    of: PlanFile


def judge_set(programs: Sequence[JudgedProgram], kept: Sequence[KeptTensor], timeout_s: float) -> dict[str, Any]:
    """Return the kernel's answer about a set, in the fields of `answer.kernel_answer`. Arenas of one name are one.

    An accepted set runs as in private memory in every sequence of calls (`accepted_set_files_run_as_private`), and so
    does each of its plans. `reason` of a rejected set is the part that fails and the position of the program. Kept
    tensors of no bytes are left out. O(n log n) in the plans and the tensors of all programs that are kept.
    """
    found: dict[str, Any] = {"answer": NOT_INSTALLED, "sources": installed.digest()}
    path = installed.find_program()
    if path is None:
        refused = installed.refusal()
        return found if refused is None else {**found, "reason": f"{NOT_INSTALLED}: {refused}"}
    try:
        if any(one.context.plan.allocation.streams for one in programs):
            raise NotExpressed(WITH_STREAMS)
        words = set_columns([one.context for one in programs], kept)
        output, failure = run_program([path, "--set"], words, [one.of for one in programs], timeout_s)
    except NotExpressed as error:
        return {**found, "answer": NOT_ASKED, "reason": str(error)}
    answer, reason = ("no_answer", failure) if failure else _read_answer(output, [one.of.sha256 for one in programs])
    return {**found, "answer": answer, **({"reason": reason} if reason else {})}


def _read_answer(output: str, digests: Sequence[bytes]) -> tuple[str, str]:
    """Return the answer and the reason. An answer for other files is none."""
    match = ANSWER.fullmatch(output)
    if match is None:
        return "no_answer", "its answer is not understood"
    if match["digests"].split() != [digest.hex() for digest in digests]:
        return "no_answer", "its answer is for other files"
    if match["part"] is None:
        return "accepted", ""
    where = "" if match["program"] == "-1" else f" of program {match['program']}"
    return "rejected", PARTS[int(match["part"])] + where


def set_columns(contexts: Sequence[Context], kept: Sequence[KeptTensor]) -> Iterator[Column]:
    """Yield the words of a set, in the order of `SetFile.v`. O(n log n)."""
    names = [arena.name for context in contexts for arena in context.placement.arenas]
    arenas = {name: row for row, name in enumerate(dict.fromkeys([*names, *(one.arena for one in kept)]))}
    placed = sorted((one for one in kept if one.bytes), key=lambda one: (arenas[one.arena], one.address))
    rank, leaver = _first_calls(placed, len(contexts))
    arena = np.array([arenas[one.arena] for one in placed], np.int64)
    address, size = (np.array(column, np.uint64) for column in ([k.address for k in placed], [k.bytes for k in placed]))
    initial = np.array([one.is_initial for one in placed], np.int64)
    columns = (arena, address, size, initial, np.array(leaver, np.int64) + 1)
    yield np.array([2 + len(columns) * len(placed), VERSION, len(placed)])
    yield from columns
    ends = [list[tuple[int, Ends]]() for _ in contexts]
    for k, one in enumerate(placed):
        for c, pair in one.ends.items():
            ends[c].append((k, pair))
    for c, context in enumerate(contexts):
        own = np.array([arenas[arena.name] for arena in context.placement.arenas], np.int64)
        below = _count_below(*_places(context, own), arena, address + size)
        link = _link(ends[c], own, len(arenas), rank[c], below)
        named = [column for _, column in file_columns(context)]
        readers = int(named[0][0])
        yield np.array([readers, sum(map(len, named[1:])) - readers, sum(map(len, link))])
        yield from named[1:]
        yield from link


def _places(context: Context, own: Rows) -> tuple[Rows, Column]:
    """Return the arena of the set and the address of each tensor of a plan."""
    t, s = context.plan.allocation.tensors, context.placement.storages
    return own[s.arena[t.storage]], s.offset[t.storage].astype(np.uint64) + t.window.astype(np.uint64)


def _count_below(arena: Rows, address: Column, of: Rows, ends: Column) -> Rows:
    """Return how many kept tensors are in an earlier arena, or in the arena and end at or below the address.

    `of` and `ends` are the arenas and the ends of the kept tensors, in their order.
    """
    found = np.searchsorted(of, arena)
    order = np.argsort(arena, kind="stable")
    arenas, starts = np.unique(arena[order], return_index=True)
    for a, here in zip(arenas, np.split(order, starts[1:]), strict=True):
        low, high = np.searchsorted(of, [a, a + 1])
        found[here] += np.searchsorted(ends[low:high], address[here], side="right")
    return found


def _link(ends: Sequence[tuple[int, Ends]], own: Rows, arenas: int, rank: int, below: Rows) -> list[Column]:
    """Return the words that link a program to its set."""
    beyond = dict[int, int]()
    for k, pair in reversed(ends):
        if pair.exit is not None:
            beyond[k] = beyond.get(k + 1, k + 1)
    rows = [(k, *(NONE if row is None else row for row in pair), beyond.get(k, 0)) for k, pair in ends]
    kept, entry, exit_, after = np.array(rows, np.int64).reshape(-1, 4).T
    plans_own = np.zeros(arenas, np.int64)
    plans_own[own] = np.arange(len(own))
    return [np.array([len(rows), arenas, rank]), own, plans_own, kept, entry + 1, exit_ + 1, after, below]


def _first_calls(kept: Sequence[KeptTensor], programs: int) -> tuple[list[int], list[int]]:
    """Return the position of each program in an order of first calls, and who leaves each tensor first, or `NONE`.

    A program that no order makes ready has the last position. O(programs + tensors of programs that are kept)
    """
    lacks, readers, leaves = [0] * programs, [list[int]() for _ in kept], [list[int]() for _ in range(programs)]
    for k, one in enumerate(kept):
        for c, ends in one.ends.items():
            if ends.entry is not None and not one.is_initial:
                lacks[c] += 1
                readers[k].append(c)
            if ends.exit is not None:
                leaves[c].append(k)
    order = [c for c in range(programs) if not lacks[c]]
    rank, leaver = [programs] * programs, [NONE] * len(kept)
    for position, c in enumerate(order):  # it grows
        rank[c] = position
        for k in leaves[c]:
            if leaver[k] == NONE:
                leaver[k] = c
                for reader in readers[k]:
                    lacks[reader] -= 1
                    if not lacks[reader]:
                        order.append(reader)
    return rank, leaver
