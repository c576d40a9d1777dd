"""Lies in the model file that is given with a plan: no model at all, or one that cannot be planned."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.nightly.soak.lies.models import wrong_besides
from tests.nightly.soak.lies.telling import Files, Lie
from tests.nightly.soak.scenes import Scene, encoded
from tmmu.core import canonical
from tmmu.core.vocabulary import MAIN, Model
from tmmu.ir import columns


def _given(scene: Scene, model: bytes) -> Files:
    return Files(scene.plan_files[:1], model=model)


def _of(tell: Callable[[Model, random.Random], Model | None]) -> Callable[[Scene, random.Random], Files | None]:
    """A plan, right or not, with a wrong model."""

    def told(scene: Scene, chance: random.Random) -> Files | None:
        model = tell(scene.model, chance)
        return None if model is None else Files((wrong_besides(scene, chance),), model=encoded(model))

    return told


def shortened(scene: Scene, chance: random.Random) -> Files:
    """The model file ends early, or goes on."""
    data = scene.model_file
    if chance.random() < 0.5:
        return _given(scene, data[: chance.randrange(len(data))])
    return _given(scene, data + chance.randbytes(chance.randrange(1, 9)))


def other_table(scene: Scene, chance: random.Random) -> Files:
    """A key of the model file is missing, or one stands there that is none."""
    body = columns.to_object(scene.model)
    tables = ("tensors", "nodes", "bodies")
    where = chance.choice([body, *(body[table] for table in tables if body.get(table))])
    if chance.random() < 0.5:
        where[f"key{chance.randrange(1 << 20)}"] = 0
    else:
        del where[chance.choice(sorted(where))]
    return _given(scene, canonical.encode(body))


def cycle(model: Model, chance: random.Random) -> Model | None:
    """A node reads its own result, or one that is made of it."""
    nodes = list(model.nodes)
    plain = [n for n, node in enumerate(nodes) if node.body == MAIN and node.writes and not node.mutates]
    made = [
        (n, t) for n in plain for t in nodes[n].writes
        if model.tensors[t].view is None and t not in model.inputs and t not in nodes[n].reads
    ]  # fmt: skip
    if not made:
        return None
    n, t = chance.choice(made)
    before = [m for m in plain if m < n and set(nodes[m].writes) & set(nodes[n].reads)]
    at = chance.choice([n, *before])
    if any(b.owner == at for b in model.bodies):
        return None
    nodes[at] = replace(nodes[at], reads=(*nodes[at].reads, t))
    return replace(model, nodes=tuple(nodes))


def _tensor(model: Model, chance: random.Random, **fields: object) -> Model | None:
    rows = [t for t, tensor in enumerate(model.tensors) if all(isinstance(dim, int) for dim in tensor.shape)]
    if not rows:
        return None
    at = chance.choice(rows)
    tensors = [replace(x, **fields) if t == at else x for t, x in enumerate(model.tensors)]  # type: ignore[arg-type]  # fields of several types
    return replace(model, tensors=tuple(tensors))


def no_type(scene: Scene, chance: random.Random) -> Files | None:
    """The elements of some tensors are of a type that there is not."""
    body = columns.to_object(scene.model)
    if not body["dtypes"]:
        return None
    k = chance.randrange(len(body["dtypes"]))
    body["dtypes"] = [f"{each}{chance.choice('x9_')}" if i == k else each for i, each in enumerate(body["dtypes"])]
    return _given(scene, canonical.encode(body))


def odd_alignment(model: Model, chance: random.Random) -> Model | None:
    """A tensor has an alignment that is no power of two."""
    return _tensor(model, chance, alignment=chance.choice((0, 3, 5, 6, 12, 96)))


def too_large(model: Model, chance: random.Random) -> Model | None:
    """A tensor has a shape whose bytes do not fit 64 bits."""
    shape = (1 << chance.randrange(32, 63), 1 << chance.randrange(40, 63))
    return _tensor(model, chance, shape=shape, dtype=chance.choice(("float32", "uint8")))


LIES = (
    Lie("INVALID_IR", "shortened", shortened, with_model=True),
    Lie("INVALID_IR", "other_table", other_table, with_model=True),
    Lie("INVALID_IR", "no_type", no_type, with_model=True),
    *(
        Lie(code, tell.__name__, _of(tell), with_model=True)
        for code, tell in (
            ("LIVENESS_CYCLE", cycle), ("ALIGNMENT_VIOLATION", odd_alignment),
            ("ALLOCATION_OVERFLOW", too_large),
        )
    ),
)  # fmt: skip
