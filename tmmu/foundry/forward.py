"""The forward passes of a decoder as models that can be planned: their tensors, and the operations that use them.

A session has two passes: `prefill` takes a chunk of tokens at consecutive positions and gives the logits of the last
one, `decode` takes fewer or more and gives the logits of all. The tensors of a pass hold a row for each token, with
elements of the type of the activations. Memory that an operation needs for itself (a tile of decompressed weights, sums
in float32, the scores of attention) is its scratch. All of these are planned, so tensors that are not needed at the
same time share memory, also those of the two passes.

Both passes change the same keys and values, which are the state of their plan set. Each of these tensors is a buffer of
its own, and so has a separate arena, with the bytes of the longest context. A buffer begins smaller and grows up to
that. Weights and the tables of positions are buffers that no operation writes. They are not part of the plans.

The logits are computed in private scratch and copied to the output, which is Shared (F7).
spec: FD6.1, FD6.2, FD6.17
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, Protocol

from tmmu.core.vocabulary import (
    ArenaConfiguration,
    ArenaPolicy,
    Bindings,
    Body,
    Model,
    Node,
    Role,
    Rule,
    Scratch,
    Tensor,
)
from tmmu.foundry.device import ALIGNMENT
from tmmu.foundry.shapes import HEAD_NORMS, POST_NORMS, ROPE_FACTORS, LlamaShape
from tmmu.foundry.weights import WeightType

DOMAIN = "foundry"

WORK = "work"
"""The tensor that holds what a device keeps for a whole pass. The first operation makes it, all others change it."""

THREADS = "threads"
"""The binding of a plan that states the threads of its device."""

ARENAS = (
    ArenaConfiguration("intermediates", (Role.ACTIVATION, Role.SCRATCH), alignment=ALIGNMENT),
    ArenaConfiguration("inputs", (Role.INPUT,), alignment=ALIGNMENT),
    ArenaConfiguration("outputs", (), alignment=ALIGNMENT),
)
"""Private intermediates, Shared inputs (token ids), Shared outputs (logits)."""

PREFILL, DECODE = "prefill", "decode"
"""The names of the two passes of a session."""

SHARED = "cache.*"
"""The tensors that both passes share: the keys and values of each layer."""


def cache_names(layer: int) -> tuple[str, str]:
    """Return the names of the keys and the values of a layer, which their arenas have too."""
    return f"cache.{layer}.keys", f"cache.{layer}.values"


def session_arenas(layers: int) -> tuple[ArenaConfiguration, ...]:
    """Return the arenas of the passes: `ARENAS`, and one for each buffer of keys or values."""
    caches = (ArenaConfiguration(name, (), alignment=ALIGNMENT) for i in range(layers) for name in cache_names(i))
    return (*ARENAS, *caches)


def session_policy(layers: int) -> ArenaPolicy:
    """Return the rules that give the output, and each buffer of keys or values, a separate arena."""
    caches = (Rule((name,), names=(name,)) for i in range(layers) for name in cache_names(i))
    return ArenaPolicy(rules=(Rule(("outputs",), names=("output",)), *caches))


GATES = {"silu": "SwiGlu", "gelu": "GeGlu"}
"""The kind of the operation that multiplies a gate with its operand, by its activation."""


class Operation(NamedTuple):
    """One step of a pass.

    `reads` and `writes` name tensors of the plan, `weights` tensors of the file; `layer` is the decoder layer, 0 if the
    operation belongs to none.
    """

    name: str
    kind: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    weights: tuple[str, ...] = ()
    layer: int = 0


@dataclass(frozen=True)
class PassSize:
    """The limits of one pass.

    Attributes
    ----------
    rows
        The most tokens of one pass: the prefill chunk, or the decode batch.
    output_rows
        The most rows of logits: 1, or the decode batch.
    context
        The most positions that attention may go over, a multiple of 128.
    dtype
        The type of the activations, "float16" or "float32".
    """

    rows: int
    output_rows: int
    context: int
    dtype: str = "float16"

    @property
    def element(self) -> int:
        """The bytes of an element of the activations."""
        return 2 if self.dtype == "float16" else 4


class ForwardPass(NamedTuple):
    """A pass of a session: its limits, and its model, which has its name."""

    size: PassSize
    model: Model


class Matrix(Protocol):
    """A weight with a known type and size; the result has `rows` elements a row, the operand has `columns`."""

    @property
    def type(self) -> WeightType:
        """The encoding of its elements."""
        ...

    @property
    def rows(self) -> int:
        """The elements of a row of the result."""
        ...

    @property
    def columns(self) -> int:
        """The elements of a row of the operand."""
        ...


class Workspaces(Protocol):
    """The source of the scratch sizes: a device with its kernels."""

    @property
    def threads(self) -> int | None:
        """The threads that sizes depend on, None if none does."""
        ...

    def workspace(self, operation: Operation, weights: Sequence[Matrix], shape: LlamaShape, size: PassSize) -> int:
        """Return the bytes that the operation needs for itself on this device."""
        ...

    def pass_workspace(
        self, operations: Sequence[Operation], weights: Mapping[str, Matrix], shape: LlamaShape, size: PassSize,
        cache_heads: int,
    ) -> int:  # fmt: skip
        """Return the bytes that the device keeps for a whole pass."""
        ...


def widths(shape: LlamaShape) -> dict[str, int]:
    """Return the elements of a row of each kind of tensor, by the part of its name after the layer."""
    query, shared = shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
    return {
        "hidden": shape.d_model, "attention_norm": shape.d_model, "q": query, "k": shared, "v": shared, "q_rot": query,
        "k_rot": shared, "q_norm": query, "k_norm": shared, "attention": query, "projected": shape.d_model,
        "attention_post": shape.d_model, "attended": shape.d_model,
        "feed_norm": shape.d_model, "gate": shape.d_ff, "up": shape.d_ff, "gated": shape.d_ff,
        "fed": shape.d_model, "fed_post": shape.d_model, "final_norm": shape.d_model,
    }  # fmt: skip


def iterate_operations(shape: LlamaShape, output: str) -> Iterator[Operation]:
    """Yield the operations of a pass in order; `output` names the matrix of the logits in the file. O(layers)."""
    hidden = "hidden"
    factors = (ROPE_FACTORS,) if shape.rotations[0].factors else ()
    yield Operation("embed", "Embed", ("ids",), (hidden,), ("token_embd.weight",))
    for i in range(shape.n_layers):
        at, weight = f"layer{i}.", f"blk.{i}."

        def of(
            name: str, kind: str, reads: tuple[str, ...], writes: str, *weights: str,
            at: str = at, weight: str = weight, layer: int = i,
        ) -> Operation:  # fmt: skip
            stored = tuple(f"{weight}{w}" for w in weights)
            return Operation(at + name, kind, reads, (at + writes,), stored, layer)

        def project(name: str, reads: str, writes: str, matrix: str, at: str = at, of: Any = of) -> Operation:
            bias = f"{matrix}.bias"
            biases = (bias,) if bias in shape.extras else ()
            made: Operation = of(f"project_{name}", "Project", (at + reads,), writes, f"{matrix}.weight", *biases)
            return made

        yield of("norm", "RmsNorm", (hidden,), "attention_norm", "attn_norm.weight")
        for name in "qkv":
            yield project(name, "attention_norm", name, f"attn_{name}")
        heads = {name: at + name for name in "qk"}
        for name in heads if HEAD_NORMS[0] in shape.extras else ():
            yield of(f"norm_{name}", "RmsNorm", (at + name,), f"{name}_norm", f"attn_{name}_norm.weight")
            heads[name] = f"{at}{name}_norm"
        for name, operand in heads.items():
            yield of(f"rotate_{name}", "Rope", (operand,), f"{name}_rot")._replace(weights=factors)
        yield of("attend", "Attention", (at + "q_rot", at + "k_rot", at + "v"), "attention")
        yield project("out", "attention", "projected", "attn_output")
        added, fed = at + "projected", at + "fed"
        if POST_NORMS[0] in shape.extras:
            yield of("post_norm", "RmsNorm", (added,), "attention_post", POST_NORMS[0])
            added = at + "attention_post"
        yield of("add_attention", "Add", (hidden, added), "attended")
        yield of("feed_norm", "RmsNorm", (at + "attended",), "feed_norm", "ffn_norm.weight")
        yield project("gate", "feed_norm", "gate", "ffn_gate")
        yield project("up", "feed_norm", "up", "ffn_up")
        gate = GATES[shape.kind.gate]
        yield of(gate.lower(), gate, (at + "gate", at + "up"), "gated")
        yield project("down", "gated", "fed", "ffn_down")
        if POST_NORMS[1] in shape.extras:
            yield of("post_feed_norm", "RmsNorm", (fed,), "fed_post", POST_NORMS[1])
            fed = at + "fed_post"
        yield of("add_fed", "Add", (at + "attended", fed), "hidden")
        hidden = at + "hidden"
    yield Operation("final_norm", "RmsNorm", (hidden,), ("final_norm",), ("output_norm.weight",))
    yield Operation("logits", "Logits", ("final_norm",), ("output",), (output,))


def build_forward_model(
    name: str, shape: LlamaShape, size: PassSize, output: str, *, cache_heads: int,
    weights: Mapping[str, Matrix], device: Workspaces,
) -> Model:  # fmt: skip
    """Build a pass as a model of the IR, with every size stated; `weights` are those of the file, by name.

    The operators have the domain `foundry`, about which neither planner nor verifier assumes anything. The exception is
    `Add`, whose result may take the bytes of its first operand (T3). Attention changes the keys and values of its
    layer, which the caller donates. If the device keeps memory for a whole pass, it is the tensor `WORK`, and the
    threads on which its size depends are bound. O(layers). spec: FD6.2, FD10.4
    """
    wide = widths(shape)
    tensors = [Tensor("ids", (size.rows,), "uint32", Role.INPUT, 4 * size.rows, ALIGNMENT)]
    held = (cache_heads, size.context, shape.head_dim)
    caches = [cache for layer in range(shape.n_layers) for cache in cache_names(layer)]
    tensors += [Tensor(cache, held, "float16", Role.INPUT, 2 * prod(held), ALIGNMENT) for cache in caches]
    row = {tensor.name: number for number, tensor in enumerate(tensors)}
    given = tuple(row.values())
    nodes: list[Node] = []
    operations = list(iterate_operations(shape, output))
    kept = device.pass_workspace(operations, weights, shape, size, cache_heads)
    if kept:
        row[WORK] = len(tensors)
        tensors.append(Tensor(WORK, (kept,), "uint8", Role.ACTIVATION, kept, ALIGNMENT))
    for operation in operations:
        for result in operation.writes:
            row[result] = len(tensors)
            if result == "output":
                lines, columns = size.output_rows, shape.vocab
            else:
                lines, columns = size.rows, wide[result.rsplit(".", 1)[-1]]
            bytes_ = lines * columns * size.element
            tensors.append(Tensor(result, (lines, columns), size.dtype, Role.ACTIVATION, bytes_, ALIGNMENT))
        changed = tuple(row[cache] for cache in cache_names(operation.layer)) if operation.kind == "Attention" else ()
        made: tuple[int, ...] = ()
        if kept and nodes:
            changed = (*changed, row[WORK])
        elif kept:
            made = (row[WORK],)
        reads = (*(row[operand] for operand in operation.reads), *changed)
        writes = (*(row[result] for result in operation.writes), *made, *changed)
        needed = device.workspace(operation, [weights[weight] for weight in operation.weights], shape, size)
        is_add = operation.kind == "Add"
        nodes.append(
            Node(
                operation.name, operation.kind, reads, writes,
                domain="" if is_add else DOMAIN,
                in_place=((writes[0], reads[0]),) if is_add else (),
                mutates=changed,
                scratch=(Scratch(needed, ALIGNMENT, "intermediates"),) if needed else (),
            )
        )  # fmt: skip
    body = Body(-1, "", given, (row["output"],))
    dims = {} if device.threads is None else {THREADS: device.threads}
    bindings = Bindings(dims=dims, donated=tuple(caches))
    return Model(name, tuple(tensors), tuple(nodes), (body,), bindings=bindings)


def scratch_name(operation: Operation) -> str:
    """Return the name of the tensor of the plan that holds the scratch of an operation."""
    return f"{operation.name}.scratch0"


def document_buffers(shape: LlamaShape, rows: int, capacity: int) -> dict[str, int]:
    """Return the elements of each of the 24 buffers that `initialize_session` of the document makes, by name.

    `rows` is the prefill chunk, `capacity` that of the cache in tokens. spec: FD6.9
    """
    d, ff, hd, heads, kv = shape.d_model, shape.d_ff, shape.head_dim, shape.n_heads, shape.n_kv_heads
    made = dict.fromkeys(
        ("hidden", "norm_out", "proj_out", "residual_1", "ffn_norm_out", "ffn_out", "final_norm_out", "attn_out"),
        rows * d,
    )
    made |= dict.fromkeys(("gate", "up"), rows * ff) | {"logits": rows * shape.vocab}
    made |= dict.fromkeys(("q", "q_rot"), rows * d) | dict.fromkeys(("k", "v", "k_rot"), rows * kv * hd)
    made |= {"q_heads": heads * rows * hd} | dict.fromkeys(("k_heads", "v_heads"), kv * rows * hd)
    made |= dict.fromkeys(("k_expanded", "v_expanded"), capacity * d)
    made |= dict.fromkeys(("k_slice", "v_slice"), kv * capacity * hd)
    return made | {"zero": 1}
