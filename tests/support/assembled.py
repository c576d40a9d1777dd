"""Plans put together from tables, without a planner, with every section that the planner writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tmmu.core.columns import NONE, Names, build_column, flatten_rows, number_values
from tmmu.core.vocabulary import ANYWHERE, ArenaConfiguration, Bindings, NodePart, Role, Shares
from tmmu.plans.allocation import Allocation, Arena
from tmmu.plans.columns import PARTS, ROLES, SHARES, Bodies, Slots, Steps, Storages, Tensors
from tmmu.plans.sections import ArenaUse, ClaimedConfiguration, Claims, Plan, Provenance, Usage


class TensorRow(NamedTuple):
    """A tensor, as a row of a plan."""

    name: str
    bytes: int
    birth: int
    death: int
    storage: int
    role: Role = Role.ACTIVATION
    flags: int = 0
    window: int = 0
    writer: int = NONE
    dtype: str = "uint8"
    alignment: int = 1
    shares: Shares = Shares.NONE
    of: int = NONE


class StepRow(NamedTuple):
    """A step, as a row of a plan."""

    node: str
    op: tuple[str, str]
    reads: Sequence[int]
    writes: Sequence[int]
    mutates: Sequence[int] = ()
    part: NodePart = NodePart.WHOLE
    body: int = 0


class StorageRow(NamedTuple):
    """A storage of arena 0, as a row of a plan."""

    bytes: int
    birth: int
    death: int
    offset: int


class BodyRow(NamedTuple):
    """A body, as a row of a plan; the main graph is the first."""

    name: str = ""
    parent: int = NONE
    enter: int = NONE
    leave: int = NONE
    iterates: bool = False
    exclusive: bool = False


def tables(
    tensors: Sequence[TensorRow],
    storages: Sequence[StorageRow],
    steps: Sequence[StepRow],
    bodies: Sequence[BodyRow] = (BodyRow(),),
) -> dict[str, Any]:
    """The tables of these rows, as `assembled` takes them."""
    ops, op = number_values([step.op for step in steps])
    dtypes, dtype = number_values([row.dtype for row in tensors])
    lists = (table for which in Steps.LISTS for table in flatten_rows([getattr(step, which) for step in steps]))
    return {
        "ops": tuple(ops),
        "dtypes": tuple(dtypes),
        "tensors": Tensors(
            Names.of([row.name for row in tensors]), _u8(dtype), _u8(ROLES.index(row.role) for row in tensors),
            _u8(row.flags for row in tensors), _u64(row.bytes for row in tensors),
            _u64(row.alignment for row in tensors), _u32(row.birth for row in tensors),
            _u32(row.death for row in tensors), _u32(row.storage for row in tensors),
            _u64(row.window for row in tensors), _u32(row.writer for row in tensors),
            _u8(SHARES.index(row.shares) for row in tensors), _u32(row.of for row in tensors),
        ),
        "storages": Storages(
            _u32([0] * len(storages)), _u64(row.bytes for row in storages), _u64([1] * len(storages)),
            _u32(row.birth for row in storages), _u32(row.death for row in storages),
            _u64(row.offset for row in storages),
        ),
        "steps": Steps(
            Names.of([step.node for step in steps]), _u32(op), _u8(PARTS.index(step.part) for step in steps),
            _u32(step.body for step in steps), *lists,
        ),
        "bodies": Bodies(
            Names.of([body.name for body in bodies]), *(_u32(body[k] for body in bodies) for k in (1, 2, 3)),
            *(_u8(body[k] for body in bodies) for k in (4, 5)),
        ),
    }  # fmt: skip


def own_slots(sizes: Sequence[int], alignment: int = 1, of: Sequence[int] | None = None) -> Slots:
    """A slot of arena 0 for each size; each storage has its own, or the one in `of`."""
    taken = range(len(sizes)) if of is None else of
    return Slots(_u32([0] * len(sizes)), _u64(sizes), _u64([alignment] * len(sizes)), _u32(taken))


def _u8(values: Iterable[int]) -> Any:
    return build_column(list(values), np.uint8)


def _u32(values: Iterable[int]) -> Any:
    return build_column(list(values), np.uint32)


def _u64(values: Iterable[int]) -> Any:
    return build_column(list(values), np.uint64)


def assembled(
    arenas: Sequence[ArenaConfiguration],
    usage: Sequence[Usage],
    slots: Slots,
    *,
    model: str = "assembled",
    mode: str = "inference",
    layout: str = "slots",
    source_digest: bytes | None = None,
    bindings: Bindings | None = None,
    **allocation: Any,
) -> Plan:
    """The plan with these arenas, claims and slots; `allocation` are the other fields of its allocation."""
    places = tuple(Arena(a.name, a.capacity, a.alignment, a.reuse, layout == "hashed" and a.reuse) for a in arenas)
    uses = tuple(map(ArenaUse.of, arenas))
    allocation.setdefault("must_not_alias", ())
    return Plan(
        Allocation(arenas=places, **allocation),
        Claims(tuple(usage), slots, ClaimedConfiguration(uses, ANYWHERE)),
        Provenance(model, mode, layout, "given", bytes(32), bytes(32), source_digest, bindings or Bindings()),
    )
