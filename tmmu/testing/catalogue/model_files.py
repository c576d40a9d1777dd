"""Faults in the model file that is given with a plan: not a model at all, or one that cannot be planned."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tmmu.core import canonical
from tmmu.core.vocabulary import MAIN, Model
from tmmu.ir import columns
from tmmu.testing.catalogue.fault import Case, Inject, Injected, encoded, fault, in_case, require, some
from tmmu.testing.catalogue.files import cut
from tmmu.testing.catalogue.model import wrong_besides


def _given(case: Case, model: bytes) -> Injected:
    return Injected(case.plan_files[:1], model=model)


def _in_model(edit: Callable[[Model, random.Random], Model]) -> Inject:
    """Turn an edit of the model into a fault; the plan given with it may be right or wrong."""

    def inject(case: Case, chance: random.Random) -> Injected:
        model = edit(case.model, chance)
        return Injected((wrong_besides(case, chance),), model=encoded(model))

    return inject


@fault("INVALID_IR", in_case, with_model=True)
def shortened(case: Case, chance: random.Random) -> Injected:
    """The model file ends early, or has more bytes."""
    return _given(case, cut(case.model_file, chance))


@fault("INVALID_IR", in_case, with_model=True)
def other_table(case: Case, chance: random.Random) -> Injected:
    """A key of the model file is missing, or there is an unknown key."""
    body = columns.to_object(case.model)
    where = chance.choice([body, *(body[table] for table in ("tensors", "nodes", "bodies") if body.get(table))])
    if chance.random() < 0.5:
        where[f"key{chance.randrange(1 << 20)}"] = 0
    else:
        del where[chance.choice(sorted(where))]
    return _given(case, canonical.encode(body))


@fault("INVALID_IR", in_case, with_model=True)
def no_type(case: Case, chance: random.Random) -> Injected:
    """The elements of some tensors have an unknown type."""
    body = columns.to_object(case.model)
    types = body["dtypes"] = list(body["dtypes"])
    types[some(chance, range(len(types)))] += chance.choice("x9_")
    return _given(case, canonical.encode(body))


@fault("LIVENESS_CYCLE", _in_model, with_model=True)
def cycle(model: Model, chance: random.Random) -> Model:
    """A node reads its own result, or a result that depends on it."""
    nodes = list(model.nodes)
    plain = [n for n, node in enumerate(nodes) if node.body == MAIN and node.writes and not node.mutates]
    n, t = some(chance, [
        (n, t) for n in plain for t in nodes[n].writes
        if model.tensors[t].view is None and t not in model.inputs and t not in nodes[n].reads
    ])  # fmt: skip
    at = chance.choice([n, *(m for m in plain if m < n and set(nodes[m].writes) & set(nodes[n].reads))])
    require(all(b.owner != at for b in model.bodies))
    nodes[at] = replace(nodes[at], reads=(*nodes[at].reads, t))
    return replace(model, nodes=tuple(nodes))


def _with_tensor(model: Model, chance: random.Random, **fields: Any) -> Model:
    """Return the model with other fields of a tensor whose shape has no open dimension."""
    tensors = list(model.tensors)
    at = some(chance, [t for t, x in enumerate(tensors) if all(isinstance(dim, int) for dim in x.shape)])
    tensors[at] = replace(tensors[at], **fields)
    return replace(model, tensors=tuple(tensors))


@fault("ALIGNMENT_VIOLATION", _in_model, with_model=True)
def odd_alignment(model: Model, chance: random.Random) -> Model:
    """A tensor has an alignment that is not a power of two."""
    return _with_tensor(model, chance, alignment=chance.choice((0, 3, 5, 6, 12, 96)))


@fault("ALLOCATION_OVERFLOW", _in_model, with_model=True)
def too_large(model: Model, chance: random.Random) -> Model:
    """A tensor has a shape whose bytes do not fit 64 bits."""
    shape = (1 << chance.randrange(32, 63), 1 << chance.randrange(40, 63))
    return _with_tensor(model, chance, shape=shape, dtype=chance.choice(("float32", "uint8")))
