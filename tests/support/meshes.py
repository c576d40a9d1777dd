"""Random meshes, shard specs and models to put on them: sizes that divide, sizes that do not, and every collective.

What is drawn from `chance` is a number's alone (`random.Random(number)`), or Hypothesis' to shrink.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeVar

from hypothesis import strategies as st

from tmmu.core.dtypes import nbytes
from tmmu.core.vocabulary import Bindings, Body, Model, Node, Phase, Role, Tensor, View
from tmmu.planner.sharding.spec import resolve
from tmmu.planner.training.expand import expand_to_joint

Made = TypeVar("Made")

SIZES = (1, 2, 3, 4, 6)
"""Dimensions: each divides by some axis and not by another."""

AXES = ("data", "tensor")
OPERATORS = (
    "Add", "Mul", "MatMul", "Relu", "Tanh", "Reshape", "Transpose", "Softmax", "Concat", "Split", "ReduceSum", "Gather",
    "Gemm", "Scramble", "Identity", "Same",
)  # fmt: skip
ACROSS = [{"op": "Softmax", "across": [-1]}]


@dataclass(frozen=True)
class Example:
    """A model and what its nodes' attributes would say, by node."""

    model: Model
    attributes: dict[str, Any]


def _tensor(name: str, shape: Sequence[int], role: Role = Role.ACTIVATION, view: View | None = None) -> Tensor:
    return Tensor(name, tuple(shape), "float64", role, nbytes(tuple(shape), "float64"), 8, view)


class Builder:
    """A model in the making, a node at a time; a result is named by the number of its node."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []
        self.attributes: dict[str, Any] = {}

    def given(self, name: str, shape: Sequence[int], role: Role) -> int:
        self.tensors.append(_tensor(name, shape, role))
        return len(self.tensors) - 1

    def node(
        self, op: str, reads: Sequence[int], shapes: Sequence[Sequence[int]], domain: str = "", attribute: Any = None
    ) -> list[int]:
        name, first = f"n{len(self.nodes)}", len(self.tensors)
        shown = op in ("Reshape", "Identity")
        for k, shape in enumerate(shapes):
            view = View(reads[0], 0, self.tensors[reads[0]].bytes) if shown else None
            self.tensors.append(_tensor(f"t{len(self.nodes)}_{k}" if k else f"t{len(self.nodes)}", shape, view=view))
        writes = tuple(range(first, len(self.tensors)))
        hints = tuple(
            (first, t) for t in dict.fromkeys(reads) if op in ("Add", "Mul", "Relu") and self.shape(t) == shapes[0]
        )
        self.nodes.append(Node(name, op, tuple(reads), writes, domain, in_place=hints))
        if attribute is not None:
            self.attributes[name] = attribute
        return list(writes)

    def shape(self, t: int) -> tuple[int, ...]:
        return self.tensors[t].shape


def _drawn(make: Callable[[random.Random], Made]) -> st.SearchStrategy[Made]:
    return st.randoms(use_true_random=False).map(make)


def examples(most: int = 8) -> st.SearchStrategy[Example]:
    """`example` for Hypothesis."""
    return _drawn(lambda chance: example(chance, most))


def trained(most: int = 6) -> st.SearchStrategy[Example]:
    """`training` for Hypothesis."""
    return _drawn(lambda chance: training(chance, most))


def specs(model: Model, sizes: Sequence[int] = (1, 2, 2, 3)) -> st.SearchStrategy[dict[str, Any]]:
    """`shard_spec` for Hypothesis."""
    return _drawn(lambda chance: shard_spec(chance, model, sizes))


def example(chance: random.Random, most: int) -> Example:
    """A model of forward nodes of every family; operands of other shapes are made to fit by parameters of their own."""
    build = Builder()
    pool = [build.given("x", [chance.choice(SIZES) for _ in range(chance.randint(2, 3))], Role.INPUT)]
    for k in range(chance.randint(1, most)):
        t = chance.choice(pool)
        shape = build.shape(t)
        op = chance.choice(OPERATORS)
        if op in ("Add", "Mul"):
            keep = chance.randint(1, len(shape))
            other = [n if chance.random() < 0.5 else 1 for n in shape[-keep:]]
            pool += build.node(op, (t, build.given(f"w{k}", other, Role.PARAMETER)), [shape])
        elif op == "Same":
            alike = [p for p in pool if build.shape(p) == shape]
            pool += build.node("Add", (t, chance.choice(alike)), [shape])
        elif op == "MatMul" or (op == "Gemm" and len(shape) == 2):
            n = chance.choice(SIZES)
            reads = [t, build.given(f"w{k}", [shape[-1], n], Role.PARAMETER)]
            if op == "Gemm" and chance.random() < 0.5:
                reads.append(build.given(f"b{k}", [n], Role.PARAMETER))
            pool += build.node(op, reads, [(*shape[:-1], n)])
        elif op == "Reshape":
            flat, first = prod(shape), chance.choice(SIZES)
            pool += build.node(op, (t,), [(first, flat // first) if flat % first == 0 else (flat,)])
        elif op == "Transpose":
            order = chance.sample(range(len(shape)), len(shape))
            pool += build.node(op, (t,), [[shape[d] for d in order]], attribute=order)
        elif op in ("Concat", "ReduceSum", "Split"):
            d = chance.randint(0, len(shape) - 1)
            if op == "Concat":
                other = build.given(
                    f"w{k}", [chance.choice(SIZES) if e == d else n for e, n in enumerate(shape)], Role.PARAMETER
                )
                joined = shape[d] + build.shape(other)[d]
                pool += build.node(op, (t, other), [[joined if e == d else n for e, n in enumerate(shape)]], "", d)
            elif op == "ReduceSum":
                pool += build.node(op, (t,), [[1 if e == d else n for e, n in enumerate(shape)]], "", d)
            elif shape[d] % 2 == 0:
                halves = [[n // 2 if e == d else n for e, n in enumerate(shape)]] * 2
                pool += build.node(op, (t,), halves, "", d)
        elif op == "Gather":
            d, count = chance.randint(0, len(shape) - 1), chance.choice(SIZES)
            at = build.given(f"i{k}", [count], Role.INPUT)
            pool += build.node(op, (t, at), [[count if e == d else n for e, n in enumerate(shape)]], "", d)
        elif op == "Scramble":
            pool += build.node(op, (t,), [shape], "com.example")
        elif op != "Gemm":
            pool += build.node(op, (t,), [shape])
    if not build.nodes:
        build.node("Relu", (0,), [build.shape(0)])
    inputs = tuple(t for t, tensor in enumerate(build.tensors) if tensor.role is Role.INPUT)
    main = Body(-1, "", inputs, (len(build.tensors) - 1,))
    return Example(Model("random", tuple(build.tensors), tuple(build.nodes), (main,)), build.attributes)


def momentum_steps(build: Builder, weights: Sequence[int]) -> tuple[list[str], list[int]]:
    """A momentum step for each of these weights; the names that it changes in place, and the gradients given to it."""
    donated: list[str] = []
    gradients: list[int] = []
    for w in weights:
        name = build.tensors[w].name
        gradient = build.given(f"{name}.grad", build.shape(w), Role.INPUT)
        gradients.append(gradient)
        state = build.given(f"{name}.m", build.shape(w), Role.OPTIMIZER)
        donated += [name, f"{name}.m"]
        build.nodes.append(Node(f"{name}.step", "Momentum", (w, gradient, state), (w, state), "com.example",
                                mutates=(w, state), phase=Phase.OPTIMIZER))  # fmt: skip
    return donated, gradients


def training(chance: random.Random, most: int) -> Example:
    """A joint graph of dense layers with skips, and a momentum step for each of some weights."""
    build = Builder()
    sizes = SIZES[1:]
    batch = chance.choice(sizes)
    pool = [build.given("x", [batch, chance.choice(sizes)], Role.INPUT)]
    weights = []
    for k in range(chance.randint(1, most)):
        t = chance.choice(pool)
        shape = build.shape(t)
        op = chance.choice(("MatMul", "MatMul", "Add", "Mul", "Relu", "Tanh", "Softmax", "Reshape", "Skip"))
        if op in ("Add", "Mul", "MatMul"):
            other = [shape[-1], chance.choice(sizes)] if op == "MatMul" else [shape[-1]]
            weights.append(build.given(f"w{k}", other, Role.PARAMETER))
            pool += build.node(op, (t, weights[-1]), [(shape[0], other[-1])])
        elif op == "Skip":
            alike = [p for p in pool if build.shape(p) == shape]
            pool += build.node("Add", (t, chance.choice(alike)), [shape])
        elif op == "Reshape":
            pool += build.node(op, (t,), [shape[::-1]])
        else:
            pool += build.node(op, (t,), [shape])
    shape, n = build.shape(pool[-1]), chance.choice(sizes)
    weights.append(build.given("w", [shape[-1], n], Role.PARAMETER))  # the output depends on one at least
    pool += build.node("MatMul", (pool[-1], weights[-1]), [(shape[0], n)])
    donated, gradients = momentum_steps(build, [w for w in weights if chance.random() < 0.5])
    produced = [t for t in pool if build.tensors[t].role is Role.ACTIVATION]
    main = Body(-1, "", (0, *gradients), (produced[-1],))
    model = Model("trained", tuple(build.tensors), tuple(build.nodes), (main,),
                  bindings=Bindings(donated=tuple(sorted(donated))))  # fmt: skip
    return Example(expand_to_joint(replace(model)), build.attributes)


def shard_spec(chance: random.Random, model: Model, sizes: Sequence[int]) -> dict[str, Any]:
    """A shard spec for a model: a mesh with axes of some sizes, some tensors split somehow, ZeRO, stages, padding."""
    mesh = {axis: chance.choice(sizes) for axis in AXES}
    if chance.random() < 0.5:
        mesh = dict(reversed(mesh.items()))
    document: dict[str, Any] = {"pad": chance.random() < 0.5, "operators": ACROSS, "rules": []}
    if chance.random() < 0.5:
        mesh = {"pipeline": chance.choice(sizes), **mesh}
        document["pipeline"] = {"axis": "pipeline"}
    document["mesh"] = mesh
    zero = chance.choice((0, 0, 1, 2, 3))
    if zero:
        document["zero"] = {"axis": "data", "stage": zero}
    for tensor in chance.sample(model.tensors, chance.randint(0, min(6, len(model.tensors)))):
        free = ["", *AXES]
        split = []
        for n in tensor.shape:
            fits = [a for a in free if not a or document["pad"] or n % mesh[a] == 0]
            split.append(chance.choice(fits))
            free = [axis for axis in free if not axis or axis != split[-1]]
        role = Role.GRADIENT if tensor.name.endswith(".seed") else tensor.role
        document["rules"].append({"roles": [str(role)], "names": [tensor.name], "split": split})
    return resolve(document)
