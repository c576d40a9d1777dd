"""Training steps of large decoders as models in the IR: Llama 405B, and a mixture of 512 experts, with Adam.

`python -m tests.benchmarks.decoder NAME -o FILE.ir.cbor` writes one. Weights are bfloat16, states float32. Heads are a
dimension of their own, in groups that share a key and a value, so that an axis of a mesh can split them; gradients are
inputs named after their parameters, which mode `backward` replaces by the steps that compute them. Microbatches are
unrolled: each runs all layers, and their losses are summed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

from tmmu.core.dtypes import nbytes
from tmmu.core.vocabulary import Bindings, Body, Model, Node, Phase, Role, Tensor
from tmmu.ir import files

ADAM = "ai.onnx.preview.training"
SHARDS = """\
[mesh]                             # {pipeline} x {data} x {tensor} ranks; the last axis varies fastest
pipeline = {pipeline}
data = {data}
tensor = {tensor}

[zero]
axis = "data"
stage = {zero}

[pipeline]                         # {layers} layers; the first stage has the embedding, the last one the loss
axis = "pipeline"
stages = [{stages}]

[[rules]]                          # the batch
roles = ["input"]
names = ["ids*"]
split = ["data"]

[[rules]]                          # heads, in groups that share a key and a value
names = ["*.q.weight", "*.k.weight", "*.v.weight", "*.o.weight"]
split = ["tensor"]

[[rules]]                          # column parallel, then row parallel
names = ["*.gate.weight", "*.up.weight"]
split = ["", "tensor"]

[[rules]]
names = ["*.down.weight"]
split = ["tensor"]

[[operators]]
op = "Softmax"
across = [-1]

[[operators]]
op = "RMSNormalization"
across = [-1]
"""
"""A shard spec for a decoder without experts."""


@dataclass(frozen=True)
class DecoderSize:
    """How large a decoder is, and what is trained in one step: `microbatches` of `batch` sequences of `length`."""

    name: str
    layers: int
    width: int
    inner: int
    groups: int
    shared_by: int
    head: int
    vocabulary: int
    batch: int = 1
    length: int = 4096
    microbatches: int = 1
    experts: int = 0
    each: int = 0
    """Tokens that an expert takes of a batch."""


SIZES = {
    "llama-405b": DecoderSize("llama-405b", 126, 16384, 53248, 8, 16, 128, 128256, microbatches=64),
    "llama-405b-fleet": DecoderSize("llama-405b", 126, 16384, 53248, 8, 16, 128, 128256, batch=64),
    "experts-512": DecoderSize(
        "experts-512", 58, 7168, 2048, 128, 1, 192, 129280, microbatches=1, experts=512, each=128
    ),
}  # fmt: skip
"""Those that are measured: Llama 405B over 64 microbatches, over 64 sequences, and 58 layers of 512 experts."""


@dataclass
class _Builder:
    size: DecoderSize
    tensors: list[Tensor] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)

    def tensor(self, name: str, shape: tuple[int, ...], role: Role = Role.ACTIVATION, dtype: str = "bfloat16") -> int:
        size = nbytes(shape, dtype)
        self.tensors.append(Tensor(name, shape, dtype, role, size, min(8, nbytes((1,), dtype))))
        return len(self.tensors) - 1

    def weight(self, name: str, *shape: int) -> int:
        self.weights.append(self.tensor(f"{name}.weight", shape, Role.PARAMETER))
        return self.weights[-1]

    def node(self, name: str, op: str, *reads: int, shape: tuple[int, ...], dtype: str = "bfloat16") -> int:
        made = self.tensor(f"{name}.y", shape, dtype=dtype)
        in_place = ((made, reads[0]),) if op in ("Add", "Mul", "Softmax") else ()
        self.nodes.append(Node(name, op, reads, (made,), in_place=in_place))
        return made

    def layer(self, at: str, weights: dict[str, int], x: int) -> int:
        """One layer for one microbatch; `x` is [batch, 1, length, width]."""
        s = self.size
        b, t, d, g, h = s.batch, s.length, s.width, s.groups, s.head
        n = self.node(f"{at}.norm1", "RMSNormalization", x, weights["norm1"], shape=(b, 1, t, d))
        q = self.node(f"{at}.q", "MatMul", n, weights["q"], shape=(b, g, t, s.shared_by * h))
        q = self.node(f"{at}.q.heads", "Reshape", q, shape=(b, g, t * s.shared_by, h))
        k = self.node(f"{at}.k", "MatMul", n, weights["k"], shape=(b, g, t, h))
        k = self.node(f"{at}.k.turned", "Transpose", k, shape=(b, g, h, t))
        v = self.node(f"{at}.v", "MatMul", n, weights["v"], shape=(b, g, t, h))
        p = self.node(f"{at}.scores", "MatMul", q, k, shape=(b, g, t * s.shared_by, t))
        p = self.node(f"{at}.softmax", "Softmax", p, shape=(b, g, t * s.shared_by, t))
        m = self.node(f"{at}.mixed", "MatMul", p, v, shape=(b, g, t * s.shared_by, h))
        m = self.node(f"{at}.mixed.heads", "Reshape", m, shape=(b, g, t, s.shared_by * h))
        o = self.node(f"{at}.o", "MatMul", m, weights["o"], shape=(b, g, t, d))
        o = self.node(f"{at}.o.sum", "ReduceSum", o, shape=(b, 1, t, d))
        x = self.node(f"{at}.attended", "Add", o, x, shape=(b, 1, t, d))
        n = self.node(f"{at}.norm2", "RMSNormalization", x, weights["norm2"], shape=(b, 1, t, d))
        fed = self.experts(at, weights, n) if s.experts else self.fed(at, weights, n, (b, 1, t))
        return self.node(f"{at}.out", "Add", fed, x, shape=(b, 1, t, d))

    def fed(self, at: str, weights: dict[str, int], x: int, rows: tuple[int, ...]) -> int:
        """down(silu(gate(x)) · up(x))."""
        wide, narrow = (*rows, self.size.inner), (*rows, self.size.width)
        gate = self.node(f"{at}.gate", "MatMul", x, weights["gate"], shape=wide)
        open_ = self.node(f"{at}.sigmoid", "Sigmoid", gate, shape=wide)
        gate = self.node(f"{at}.silu", "Mul", open_, gate, shape=wide)
        up = self.node(f"{at}.up", "MatMul", x, weights["up"], shape=wide)
        both = self.node(f"{at}.both", "Mul", up, gate, shape=wide)
        return self.node(f"{at}.down", "MatMul", both, weights["down"], shape=narrow)

    def experts(self, at: str, weights: dict[str, int], x: int) -> int:
        """A router spreads the tokens to places of experts, each works on its own, and their results are weighted."""
        s = self.size
        rows, places = s.batch * s.length, s.experts * s.each
        flat = self.node(f"{at}.tokens", "Reshape", x, shape=(rows, s.width))
        scores = self.node(f"{at}.router", "MatMul", flat, weights["router"], shape=(rows, places))
        share = self.node(f"{at}.shares", "Softmax", scores, shape=(rows, places))
        sent = self.node(f"{at}.to", "Transpose", share, shape=(places, rows))
        taken = self.node(f"{at}.taken", "MatMul", sent, flat, shape=(places, s.width))
        parts = [self.tensor(f"{at}.taken.{e}", (s.each, s.width)) for e in range(s.experts)]
        self.nodes.append(Node(f"{at}.split", "Split", (taken,), tuple(parts)))
        fed = []
        for e, part in enumerate(parts):
            own = {what: weights[f"{what}.{e}"] for what in ("gate", "up", "down")}
            fed.append(self.fed(f"{at}.expert{e}", own, part, (s.each,)))
        joined = self.node(f"{at}.joined", "Concat", *fed, shape=(places, s.width))
        back = self.node(f"{at}.back", "MatMul", share, joined, shape=(rows, s.width))
        return self.node(f"{at}.shaped", "Reshape", back, shape=(s.batch, 1, s.length, s.width))

    def weights_of(self, k: int) -> dict[str, int]:
        s, at = self.size, f"layer{k}"
        made = {"norm1": self.weight(f"{at}.norm1", s.width), "norm2": self.weight(f"{at}.norm2", s.width)}
        made["q"] = self.weight(f"{at}.q", s.groups, s.width, s.shared_by * s.head)
        made |= {what: self.weight(f"{at}.{what}", s.groups, s.width, s.head) for what in ("k", "v")}
        made["o"] = self.weight(f"{at}.o", s.groups, s.shared_by * s.head, s.width)
        if s.experts:
            made["router"] = self.weight(f"{at}.router", s.width, s.experts * s.each)
        for e in [f".{e}" for e in range(s.experts)] or [""]:
            made |= {what + e: self.weight(f"{at}{e}.{what}", s.width, s.inner) for what in ("gate", "up")}
            made["down" + e] = self.weight(f"{at}{e}.down", s.inner, s.width)
        return made

    def optimizer(self) -> list[str]:
        """Adam's step for each weight, which changes it and its states; the names of what it changes."""
        rate, step = self.tensor("rate", (), Role.INPUT, "float32"), self.tensor("step", (), Role.INPUT, "int64")
        changed = []
        for w in list(self.weights):
            name, shape = self.tensors[w].name, self.tensors[w].shape
            gradient = self.tensor(f"{name}.grad", shape, Role.INPUT)
            kept = (w, *(self.tensor(f"{name}.{s}", shape, Role.OPTIMIZER, "float32") for s in ("mean", "square")))
            reads = (rate, step, w, gradient, *kept[1:])
            self.nodes.append(Node(f"{name}.update", "Adam", reads, kept, ADAM, mutates=kept, phase=Phase.OPTIMIZER))
            changed += [self.tensors[t].name for t in kept]
        return changed


def decoder(size: DecoderSize) -> Model:
    """The model of one training step. O(layers × microbatches × experts)."""
    build, rows = _Builder(size), (size.batch, 1, size.length)
    embedding = build.weight("embedding", size.vocabulary, size.width)
    weights = [build.weights_of(k) for k in range(size.layers)]
    last, head = build.weight("norm", size.width), build.weight("head", size.width, size.vocabulary)
    losses = []
    for m in range(size.microbatches):
        ids = build.tensor(f"ids{m}", rows, Role.INPUT, "int64")
        labels = build.tensor(f"labels{m}", (size.batch * size.length,), Role.INPUT, "int64")
        x = build.node(f"embed.{m}", "Gather", embedding, ids, shape=(*rows, size.width))
        for k, own in enumerate(weights):
            x = build.layer(f"layer{k}.{m}", own, x)
        x = build.node(f"norm.{m}", "RMSNormalization", x, last, shape=(*rows, size.width))
        x = build.node(f"head.{m}", "MatMul", x, head, shape=(*rows, size.vocabulary))
        x = build.node(f"logits.{m}", "Reshape", x, shape=(size.batch * size.length, size.vocabulary))
        losses.append(build.node(f"loss.{m}", "SoftmaxCrossEntropyLoss", x, labels, shape=(), dtype="float32"))
    total = losses[0] if len(losses) == 1 else build.node("total", "Sum", *losses, shape=(), dtype="float32")
    changed = build.optimizer()
    inputs = tuple(t for t, tensor in enumerate(build.tensors) if tensor.role is Role.INPUT)
    main = Body(-1, "", inputs, (total,))
    bindings = Bindings(donated=tuple(sorted(changed)))
    return Model(size.name, tuple(build.tensors), tuple(build.nodes), (main,), bindings=bindings)


def shards(size: DecoderSize, pipeline: int, data: int, tensor: int, zero: int) -> str:
    """A shard spec as TOML; the layers are spread evenly over the stages."""
    names: list[list[str]] = [[] for _ in range(pipeline)]
    for k in range(size.layers):
        names[k * pipeline // size.layers].append(f"layer{k}.*")
    names[0].append("embed.*")
    names[-1] = ["*"]
    stages = ",\n  ".join(str(patterns).replace("'", '"') for patterns in names)
    return SHARDS.format(
        pipeline=pipeline, data=data, tensor=tensor, zero=zero, layers=size.layers, stages=f"\n  {stages},\n"
    )


def main() -> None:
    """Write a model, or with --mesh a shard spec for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=SIZES)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--mesh", nargs=3, type=int, metavar=("PIPELINE", "DATA", "TENSOR"))
    parser.add_argument("--zero", type=int, default=2)
    given = parser.parse_args()
    size = SIZES[given.name]
    if given.mesh:
        with open(given.output, "w") as file:
            file.write(shards(size, *given.mesh, given.zero))
    else:
        files.save(decoder(size), given.output)


if __name__ == "__main__":
    main()
