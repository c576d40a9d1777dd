"""Plans that do exactly what a model states, every tensor in bytes of its own: what the tests of the readers change.

Nothing is planned here. `stated` is what a reader gives of a model, step by step; `plan_of` turns it into columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate

from proofs.readers.models.reference import ReferenceBody, ReferenceProgram, ReferenceStep
from tests.support.assembled import BodyRow, StepRow, StorageRow, TensorRow, assembled, own_slots, tables
from tmmu.core.columns import NONE
from tmmu.core.dtypes import BITS
from tmmu.core.statements import ARROW
from tmmu.core.vocabulary import ArenaConfiguration, NodePart, Role, Shares
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED, IS_SAVED
from tmmu.plans.sections import Plan, Usage
from tmmu.plans.text import FORMAT, read

DTYPES = {bits: dtype for dtype, bits in reversed(BITS.items())}
"""A type for each width of an element."""


def step(text: str, *, part: NodePart = NodePart.WHOLE, body: str = "") -> ReferenceStep:
    """A step as text plans state it (`spec/text-plan.md`), without the word `step`.

    >>> step("n Add a b -> b changes b").reads
    ('a', 'b')
    """
    _, _, *words = text.split()
    tensors = (f"tensor {name} 1 memory 0" for name in dict.fromkeys(words) if name not in (ARROW, "changes"))
    stated = (f"{FORMAT.title} {FORMAT.version}", "arena memory 1", *tensors, f"step {text}")
    allocation = read("\n".join(stated).encode(), "step").allocation  # type: ignore[union-attr]  # no buffers
    steps, name = allocation.steps, allocation.tensors.name.list()
    accesses = (tuple(name[t] for t in steps.listed(which)[0]) for which in ("reads", "writes", "mutates"))
    return ReferenceStep(str(steps.node[0]), *allocation.ops[0], part, body, *accesses)


def stated(
    *steps: ReferenceStep,
    inputs: str = "x",
    outputs: str = "y",
    parameters: str = "",
    sizes: Mapping[str, tuple[int, int]] | None = None,
    bodies: Mapping[str, ReferenceBody] | None = None,
) -> ReferenceProgram:
    """What a model of these steps says; a tensor has 64 bytes of 32-bit elements unless `sizes` says otherwise."""
    names = dict.fromkeys(f"{inputs} {parameters}".split())
    names.update(dict.fromkeys(name for s in steps for name in (*s.reads, *s.writes)))
    roles = dict.fromkeys(names, Role.ACTIVATION)
    roles |= dict.fromkeys(inputs.split(), Role.INPUT) | dict.fromkeys(parameters.split(), Role.PARAMETER)
    return ReferenceProgram(
        steps=list(steps),
        bodies=dict(bodies or {}),
        sizes={name: (size, DTYPES[bits]) for name in names for size, bits in [(sizes or {}).get(name, (64, 32))]},
        shapes=dict.fromkeys(names, (16,)),
        alignments=dict.fromkeys(names, 4),
        roles=roles,
        inputs=tuple(inputs.split()),
        outputs=tuple(outputs.split()),
    )


def plan_of(
    expected: ReferenceProgram,
    *,
    shares: Mapping[str, tuple[Shares, str]] | None = None,
    inside: Mapping[str, tuple[str, int]] | None = None,
    dtypes: Mapping[str, str] | None = None,
    mode: str = "inference",
) -> Plan:
    """The plan that runs the model's steps as listed. `shares` is what it declares of single tensors.

    `inside` puts a tensor at a byte of another one's storage; otherwise each has a storage of its own. Lifetimes
    are those of the whole run: the readers do not look at them.
    """
    names, last = list(expected.sizes), max(0, len(expected.steps) - 1)
    row = {name: index for index, name in enumerate(names)}
    bodies = ["", *expected.bodies]
    parts = {(s.node, s.part): at for at, s in enumerate(expected.steps)}
    writer = {name: at for at, s in enumerate(expected.steps) for name in s.writes if name not in s.mutates}
    sizes = [expected.sizes[name][0] for name in names]
    tensors = []
    for name in names:
        word, of = (shares or {}).get(name, (Shares.NONE, ""))
        of_storage, window = (inside or {}).get(name, (name, 0))
        flags = (
            IS_INPUT * (name in expected.inputs)
            + IS_OUTPUT * (name in expected.outputs)
            + IS_SAVED * (name in expected.saved)
            + IS_RETURNED * returned(expected, name, mode)
        )
        tensors.append(TensorRow(
            name, expected.sizes[name][0], 0, last, row[of_storage], expected.roles[name], flags, window,
            writer.get(name, NONE), (dtypes or {}).get(name, expected.sizes[name][1]),
            expected.alignments[name], word, row[of] if of else NONE,
        ))  # fmt: skip
    steps = [
        StepRow(
            s.node, (s.domain, s.op), *([row[name] for name in listed] for listed in (s.reads, s.writes, s.mutates)),
            s.part, bodies.index(s.body),
        )
        for s in expected.steps
    ]  # fmt: skip
    nested = [
        BodyRow(
            name, bodies.index(b.parent), parts[b.owner, NodePart.ENTER], parts[b.owner, NodePart.LEAVE], b.iterates
        )
        for name, b in expected.bodies.items()
    ]  # fmt: skip
    storages = [StorageRow(size, 0, last, at) for size, at in zip(sizes, accumulate(sizes, initial=0), strict=False)]
    return assembled(
        (ArenaConfiguration("memory", tuple(Role)),),
        (Usage(sum(sizes), sum(sizes), 0, len(names), len(names), 0, False),),
        own_slots(sizes),
        model="model", mode=mode, source_digest=expected.source_digest, bindings=replace(expected.bindings, ranges={}),
        must_not_alias=tuple((row[a], row[b]) for a, b in (sorted(pair) for pair in expected.must_not_alias)),
        unproduced=tuple(sorted(expected.unproduced)),
        **tables(tensors, storages, steps, [BodyRow(), *nested]),
    )  # fmt: skip


def returned(expected: ReferenceProgram, name: str, mode: str) -> bool:
    """Whether the caller reads a tensor at the end."""
    kept = expected.roles[name] in (Role.PARAMETER, Role.OPTIMIZER)
    return name in expected.outputs or kept or (mode == "forward" and name in expected.saved)


def lines(expected: ReferenceProgram) -> list[str]:
    """The steps as text, a line each."""
    return [
        f"{s.node} {s.op} {s.part} [{s.body}] {' '.join(s.reads)} -> {' '.join(s.writes)}".replace(" whole", "")
        for s in expected.steps
    ]
