"""The forward pass of a Llama as a model that can be planned: its tensors, and the operations that use them.

One pass takes up to `rows` tokens at consecutive positions. Its tensors hold a row for each token, with elements of the
type of the activations. Memory that an operation needs for itself (a tile of decompressed weights, sums in float32, the
scores of attention) is its scratch. All of these are planned, so tensors that are not needed at the same time share
memory. Weights and the KV cache are separate buffers, which live as long as the session and are not part of the plan.

The logits are computed in private scratch and copied to the output, which is Shared (F7).
spec: FD6.1, FD6.2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tmmu.core.vocabulary import ArenaConfiguration, ArenaPolicy, Body, Model, Node, Role, Rule, Scratch, Tensor
from tmmu.foundry.device import ALIGNMENT
from tmmu.foundry.weights import LlamaShape, WeightType

DOMAIN = "foundry"

ARENAS = (
    ArenaConfiguration("intermediates", (Role.ACTIVATION, Role.SCRATCH), alignment=ALIGNMENT),
    ArenaConfiguration("inputs", (Role.INPUT,), alignment=ALIGNMENT),
    ArenaConfiguration("outputs", (), alignment=ALIGNMENT),
)
"""Private intermediates, Shared inputs (token ids), Shared outputs (logits)."""

POLICY = ArenaPolicy(rules=(Rule(("outputs",), names=("output",)),))
"""The output has a separate arena, whatever its role."""


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
        The most tokens of one pass: the larger of prefill chunk and decode batch.
    output_rows
        The most rows of logits: the decode batch.
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

    def workspace(self, operation: Operation, weights: Sequence[Matrix], shape: LlamaShape, size: PassSize) -> int:
        """Return the bytes that the operation needs for itself on this device."""
        ...


def widths(shape: LlamaShape) -> dict[str, int]:
    """Return the elements of a row of each kind of tensor, by the part of its name after the layer."""
    query, shared = shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
    return {
        "hidden": shape.d_model, "attention_norm": shape.d_model, "q": query, "k": shared, "v": shared, "q_rot": query,
        "k_rot": shared, "attention": query, "projected": shape.d_model, "attended": shape.d_model,
        "feed_norm": shape.d_model, "gate": shape.d_ff, "up": shape.d_ff, "gated": shape.d_ff,
        "fed": shape.d_model, "final_norm": shape.d_model,
    }  # fmt: skip


def iterate_operations(shape: LlamaShape, output: str) -> Iterator[Operation]:
    """Yield the operations of a pass in order; `output` names the matrix of the logits in the file. O(layers)."""
    hidden = "hidden"
    yield Operation("embed", "Embed", ("ids",), (hidden,), ("token_embd.weight",))
    for i in range(shape.n_layers):
        at, weight = f"layer{i}.", f"blk.{i}."

        def of(
            name: str, kind: str, reads: tuple[str, ...], writes: str, *weights: str,
            at: str = at, weight: str = weight, layer: int = i,
        ) -> Operation:  # fmt: skip
            stored = tuple(f"{weight}{w}.weight" for w in weights)
            return Operation(at + name, kind, reads, (at + writes,), stored, layer)

        yield of("norm", "RmsNorm", (hidden,), "attention_norm", "attn_norm")
        for name in "qkv":
            yield of(f"project_{name}", "Project", (at + "attention_norm",), name, f"attn_{name}")
        yield of("rotate_q", "Rope", (at + "q",), "q_rot")
        yield of("rotate_k", "Rope", (at + "k",), "k_rot")
        yield of("attend", "Attention", (at + "q_rot", at + "k_rot", at + "v"), "attention")
        yield of("project_out", "Project", (at + "attention",), "projected", "attn_output")
        yield of("add_attention", "Add", (hidden, at + "projected"), "attended")
        yield of("feed_norm", "RmsNorm", (at + "attended",), "feed_norm", "ffn_norm")
        yield of("project_gate", "Project", (at + "feed_norm",), "gate", "ffn_gate")
        yield of("project_up", "Project", (at + "feed_norm",), "up", "ffn_up")
        yield of("swiglu", "SwiGlu", (at + "gate", at + "up"), "gated")
        yield of("project_down", "Project", (at + "gated",), "fed", "ffn_down")
        yield of("add_fed", "Add", (at + "attended", at + "fed"), "hidden")
        hidden = at + "hidden"
    yield Operation("final_norm", "RmsNorm", (hidden,), ("final_norm",), ("output_norm.weight",))
    yield Operation("logits", "Logits", ("final_norm",), ("output",), (output,))


def build_forward_model(
    shape: LlamaShape, size: PassSize, output: str, weights: Mapping[str, Matrix], device: Workspaces
) -> Model:
    """Build the pass as a model of the IR, with every size stated; `weights` are those of the file, by name.

    The operators have the domain `foundry`, about which neither planner nor verifier assumes anything. The exception is
    `Add`, whose result may take the bytes of its first operand (T3). O(layers).
    """
    wide = widths(shape)
    tensors = [Tensor("ids", (size.rows,), "uint32", Role.INPUT, 4 * size.rows, ALIGNMENT)]
    row = {"ids": 0}
    nodes: list[Node] = []
    for operation in iterate_operations(shape, output):
        for name in operation.writes:
            row[name] = len(tensors)
            if name == "output":
                lines, columns = size.output_rows, shape.vocab
            else:
                lines, columns = size.rows, wide[name.rsplit(".", 1)[-1]]
            bytes_ = lines * columns * size.element
            tensors.append(Tensor(name, (lines, columns), size.dtype, Role.ACTIVATION, bytes_, ALIGNMENT))
        reads = tuple(row[name] for name in operation.reads)
        writes = tuple(row[name] for name in operation.writes)
        needed = device.workspace(operation, [weights[name] for name in operation.weights], shape, size)
        is_add = operation.kind == "Add"
        nodes.append(
            Node(
                operation.name, operation.kind, reads, writes,
                domain="" if is_add else DOMAIN,
                in_place=((writes[0], reads[0]),) if is_add else (),
                scratch=(Scratch(needed, ALIGNMENT, "intermediates"),) if needed else (),
            )
        )  # fmt: skip
    body = Body(-1, "", (row["ids"],), (row["output"],))
    return Model("forward", tuple(tensors), tuple(nodes), (body,))


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
