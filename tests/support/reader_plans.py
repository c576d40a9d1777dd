"""Plans that do exactly what a model says, every tensor in bytes of its own: what the tests of the readers change.

Nothing is planned here. `steps` writes a model down by hand, `plan_of` turns it into columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from proofs.readers.models.reference import Expected, ExpectedBody, ExpectedStep
from tests.support.assembled import assembled
from tmmu.core.columns import NONE, U8, U32, U64, Names, column
from tmmu.core.dtypes import BITS
from tmmu.core.vocabulary import MAIN, ArenaConfiguration, Part, Role, Shares
from tmmu.plan.columns import (
    IS_INPUT,
    IS_OUTPUT,
    IS_RETURNED,
    IS_SAVED,
    PARTS,
    ROLES,
    SHARES,
    Bodies,
    Slots,
    Steps,
    Storages,
    Tensors,
)
from tmmu.plan.sections import Plan, Usage

DTYPES = {bits: dtype for dtype, bits in reversed(BITS.items())}
"""A type for each width of an element."""


def step(text: str, *, part: Part = Part.WHOLE, body: str = "", mutates: str = "") -> ExpectedStep:
    """A step written as `node domain::op: reads -> writes`, the domain left out for ai.onnx.

    >>> step("n Add: a b -> c").reads
    ('a', 'b')
    """
    head, _, accesses = text.partition(": ")
    node, operator = head.split()
    domain, _, op = operator.rpartition("::")
    reads, _, writes = accesses.partition("->")
    return ExpectedStep(
        node, domain, op, part, body, tuple(reads.split()), tuple(writes.split()), tuple(mutates.split())
    )


def stated(
    *steps: ExpectedStep,
    inputs: str = "x",
    outputs: str = "y",
    parameters: str = "",
    sizes: Mapping[str, tuple[int, int]] | None = None,
    bodies: Mapping[str, ExpectedBody] | None = None,
) -> Expected:
    """What a model of these steps says; a tensor has 64 bytes of 32-bit elements unless `sizes` says otherwise."""
    names = dict.fromkeys(f"{inputs} {parameters}".split())
    names.update(dict.fromkeys(name for s in steps for name in (*s.reads, *s.writes)))
    roles = dict.fromkeys(names, Role.ACTIVATION)
    roles |= dict.fromkeys(inputs.split(), Role.INPUT) | dict.fromkeys(parameters.split(), Role.PARAMETER)
    return Expected(
        steps=list(steps),
        bodies=dict(bodies or {}),
        sizes={name: (sizes or {}).get(name, (64, 32)) for name in names},
        shapes=dict.fromkeys(names, (16,)),
        alignments=dict.fromkeys(names, 4),
        roles=roles,
        inputs=tuple(inputs.split()),
        outputs=tuple(outputs.split()),
    )


def plan_of(
    expected: Expected,
    *,
    shares: Mapping[str, tuple[Shares, str]] | None = None,
    inside: Mapping[str, tuple[str, int]] | None = None,
    dtypes: Mapping[str, str] | None = None,
    mode: str = "inference",
) -> Plan:
    """The plan that runs the model's steps as listed. `shares` is its word on single tensors.

    `inside` puts a tensor at a byte of another one's storage; otherwise each has a storage of its own. Lifetimes
    are those of the whole run: the readers do not look at them.
    """
    names, last = list(expected.sizes), max(0, len(expected.steps) - 1)
    row = {name: index for index, name in enumerate(names)}
    bodies = ["", *expected.bodies]
    parts = {(s.node, s.part): at for at, s in enumerate(expected.steps)}
    ops = list(dict.fromkeys((s.domain, s.op) for s in expected.steps))
    writer = {name: at for at, s in enumerate(expected.steps) for name in s.writes if name not in s.mutates}
    types = [(dtypes or {}).get(name, DTYPES[expected.sizes[name][1]]) for name in names]
    used = list(dict.fromkeys(types))
    sizes = [expected.sizes[name][0] for name in names]
    words = [(shares or {}).get(name, (Shares.NONE, "")) for name in names]
    homes = [(inside or {}).get(name, (name, 0)) for name in names]
    flags = [
        IS_INPUT * (name in expected.inputs)
        + IS_OUTPUT * (name in expected.outputs)
        + IS_SAVED * (name in expected.saved)
        + IS_RETURNED * returned(expected, name, mode)
        for name in names
    ]
    zeros, ends = [0] * len(names), [last] * len(names)
    return assembled(
        (ArenaConfiguration("memory", tuple(Role)),),
        (Usage(sum(sizes), sum(sizes), 0, len(names), len(names), 0, False),),
        Slots(_u32(zeros), _u64(sizes), _u64([1] * len(names)), _u32(range(len(names)))),
        model="model", mode=mode, source_digest=expected.source_digest, bindings=replace(expected.bindings, ranges={}),
        ops=tuple(ops), dtypes=tuple(used),
        tensors=Tensors(
            Names.of(names), _u8(used.index(dtype) for dtype in types),
            _u8(ROLES.index(expected.roles[name]) for name in names), _u8(flags), _u64(sizes),
            _u64(expected.alignments[name] for name in names), _u32(zeros), _u32(ends),
            _u32(row[home] for home, _ in homes), _u64(window for _, window in homes),
            _u32(writer.get(name, NONE) for name in names), _u8(SHARES.index(word) for word, _ in words),
            _u32(row[of] if of else NONE for _, of in words),
        ),
        storages=Storages(_u32(zeros), _u64(sizes), _u64([1] * len(names)), _u32(zeros), _u32(ends),
                          _u64(list(accumulate([0, *sizes]))[:-1])),
        steps=Steps(
            Names.of([s.node for s in expected.steps]), _u32(ops.index((s.domain, s.op)) for s in expected.steps),
            _u8(PARTS.index(s.part) for s in expected.steps), _u32(bodies.index(s.body) for s in expected.steps),
            *_lists(row, [s.reads for s in expected.steps]), *_lists(row, [s.writes for s in expected.steps]),
            *_lists(row, [s.mutates for s in expected.steps]),
        ),
        bodies=Bodies(
            Names.of(bodies), _u32([NONE, *(bodies.index(b.parent) for b in expected.bodies.values())]),
            _u32([NONE, *(parts[b.owner, Part.ENTER] for b in expected.bodies.values())]),
            _u32([NONE, *(parts[b.owner, Part.LEAVE] for b in expected.bodies.values())]),
            _u8([MAIN, *(b.iterates for b in expected.bodies.values())]), _u8([0] * (1 + len(expected.bodies))),
        ),
        must_not_alias=tuple((row[a], row[b]) for a, b in (sorted(pair) for pair in expected.must_not_alias)),
        unproduced=tuple(sorted(expected.unproduced)),
    )  # fmt: skip


def returned(expected: Expected, name: str, mode: str) -> bool:
    """Whether the caller reads a tensor at the end."""
    kept = expected.roles[name] in (Role.PARAMETER, Role.OPTIMIZER)
    return name in expected.outputs or kept or (mode == "forward" and name in expected.saved)


def lines(expected: Expected) -> list[str]:
    """The steps as text, a line each."""
    return [
        f"{s.node} {s.op} {s.part} [{s.body}] {' '.join(s.reads)} -> {' '.join(s.writes)}".replace(" whole", "")
        for s in expected.steps
    ]


def _lists(row: Mapping[str, int], lists: Sequence[tuple[str, ...]]) -> tuple[U32, U32]:
    """Bounds and flat rows of one list for each step."""
    bounds = accumulate((len(names) for names in lists), initial=0)
    return _u32(bounds), _u32(row[name] for names in lists for name in names)


def _u8(values: Iterable[int]) -> U8:
    return column(list(values), np.uint8)


def _u32(values: Iterable[int]) -> U32:
    return column(list(values), np.uint32)


def _u64(values: Iterable[int]) -> U64:
    return column(list(values), np.uint64)
