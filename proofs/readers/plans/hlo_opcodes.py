"""The opcodes of HLO: a closed set, with what each reads to make an element of its result, and its attributes.

An opcode or an attribute that is not in these tables is refused (FP4.2). The tables are written from HLO's grammar and
from the definition of each operation. `Reads` decides which results may be written over an operand (FP4.13): the index
rules themselves are in `hlo_reads`, and the few operations that update an operand as a whole are in `UPDATES`.

spec: FP4.2, FP4.12, FP4.13
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple


class Reads(Enum):
    """How an element of the result depends on the elements of the operands."""

    NOTHING = auto()
    """It has no operands: parameters, constants, counters."""
    SAME = auto()
    """The element at the same index of each operand; of a scalar operand its one element."""
    SAME_BITS = auto()
    """As SAME if the types have one width; otherwise any elements."""
    BYTES = auto()
    """The element at the same place in memory, whatever the two shapes are."""
    ROW_MAJOR = auto()
    """The element at the same place in row-major order."""
    BROADCAST = auto()
    TRANSPOSED = auto()
    SLICED = auto()
    REVERSED = auto()
    JOINED = auto()
    PADDED = auto()
    DYNAMIC_SLICED = auto()
    UPDATED = auto()
    """In a window the element of the update, elsewhere the element of operand 0."""
    SCATTERED = auto()
    """The element of operand k for result k, and any elements of the indices and the updates."""
    REDUCED = auto()
    WINDOWED = auto()
    CONTRACTED = auto()
    ANY = auto()
    """Any elements: the values of other operands choose them, or no rule describes them."""
    WHOLE = auto()
    """The operand itself, of any shape, with everything in it."""
    TUPLED = auto()
    ELEMENT = auto()
    CALLED = auto()
    """It runs computations of the program: control flow, calls, operations that are started."""
    FUSED = auto()


VALUE = re.compile(r".*", re.DOTALL | re.ASCII)
INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
INTEGERS = re.compile(r"\{\s*(?:\d{1,19}\s*(?:,\s*\d{1,19}\s*)*)?\}", re.ASCII)
PAIRS = re.compile(r"\{\s*(?:\{[\d,\s]*\}\s*(?:,\s*\{[\d,\s]*\}\s*)*)?\}", re.ASCII)
REAL = re.compile(r"[-+\w.]+", re.ASCII)
BOOL = re.compile(r"true|false", re.ASCII)
WORD = re.compile(r"[\w.\-]+", re.ASCII)
TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL | re.ASCII)
COMPUTATION = re.compile(r"%?[\w.\-]+", re.ASCII)
COMPUTATIONS = re.compile(r"\{\s*%?[\w.\-]+\s*(?:,\s*%?[\w.\-]+\s*)*\}", re.ASCII)
NAMES = re.compile(r"\{\s*(?:%?[\w.\-]+\s*(?:,\s*%?[\w.\-]+\s*)*)?\}", re.ASCII)
SLICES = re.compile(
    r"\{\s*(?:\[\d{1,19}:\d{1,19}(?::\d{1,19})?\]\s*(?:,\s*\[\d{1,19}:\d{1,19}(?::\d{1,19})?\]\s*)*)?\}", re.ASCII
)
PADDING = re.compile(r"-?\d{1,19}_-?\d{1,19}(?:_\d{1,19})?(?:x-?\d{1,19}_-?\d{1,19}(?:_\d{1,19})?)*", re.ASCII)
WINDOW = re.compile(r"\{\s*(?:[a-z_]+=[\dx_\-]+(?:\s+[a-z_]+=[\dx_\-]+)*)?\s*\}", re.ASCII)
LABELS = re.compile(r"[\w?]+_[\w?]+->[\w?]+", re.ASCII)
GROUP = re.compile(r"\{.*\}", re.DOTALL | re.ASCII)
ALIASES = re.compile(
    r"\{\s*(?:\{[\d,\s]*\}:\s*\(\d{1,9},\s*\{[\d,\s]*\}\)\s*(?:,\s*\{[\d,\s]*\}:\s*\(\d{1,9},\s*\{[\d,\s]*\}\)\s*)*)?\}",
    re.ASCII,
)

IGNORED: Mapping[str, re.Pattern[str]] = {
    "metadata": GROUP, "sharding": GROUP, "frontend_attributes": GROUP, "statistics": GROUP, "origin": GROUP,
    "original_value": GROUP, "parameter_replication": GROUP, "backend_config": VALUE,
}  # fmt: skip
"""Attributes of any instruction that do not affect the bytes that are read or written: names and places in the source,
settings of the partitioner and the backend, and figures for people.
"""

PREDECESSORS = "control-predecessors"
"""Instructions that must run before this one: in a schedule they are above it."""

ALIASING = "output_to_operand_aliasing"
CALLING = ("to_apply", "calls", "body", "condition", "branch_computations", "true_computation", "false_computation",
           "called_computations", "select", "scatter")  # fmt: skip
"""The attributes that name computations."""


class Opcode(NamedTuple):
    """An operation: how its result's elements depend on operands, its number of operands (None: any), its attributes.

    `required` are the attributes without which the operation means nothing.
    """

    reads: Reads
    arity: int | None = None
    attributes: Mapping[str, re.Pattern[str]] = {}
    required: tuple[str, ...] = ()


def _of(reads: Reads, arity: int | None, *names: str, **attributes: re.Pattern[str]) -> dict[str, Opcode]:
    """Return a row for each of some operations that are alike; an attribute whose name ends with `_` is required."""
    stated = {name.removesuffix("_"): grammar for name, grammar in attributes.items()}
    required = tuple(name[:-1] for name in attributes if name.endswith("_"))
    return dict.fromkeys(names, Opcode(reads, arity, stated, required))


_GROUPS = {"replica_groups": VALUE, "channel_id": INTEGER, "constrain_layout": BOOL, "use_global_device_ids": BOOL}
_CHANNEL = {"channel_id": INTEGER, "is_host_transfer": BOOL}
_DOT = {
    "lhs_contracting_dims": INTEGERS, "rhs_contracting_dims": INTEGERS, "lhs_batch_dims": INTEGERS,
    "rhs_batch_dims": INTEGERS, "operand_precision": NAMES, "algorithm": WORD,
}  # fmt: skip
_CONVOLUTION = {
    "window": WINDOW, "feature_group_count": INTEGER, "batch_group_count": INTEGER, "operand_precision": NAMES,
    "padding_type": WORD,
}  # fmt: skip
_BATCH_NORM = {"epsilon_": REAL, "feature_index_": INTEGER}

OPCODES: Mapping[str, Opcode] = {
    **_of(Reads.NOTHING, 0, "parameter", "constant", "partition-id", "replica-id"),
    **_of(Reads.NOTHING, 0, "iota", iota_dimension_=INTEGER),
    **_of(Reads.NOTHING, 0, "rng-get-and-update-state", delta_=INTEGER),
    **_of(
        Reads.SAME, 1, "abs", "ceil", "convert", "copy", "count-leading-zeros", "floor", "imag", "is-finite", "negate",
        "not", "popcnt", "real", "round-nearest-afz", "round-nearest-even", "sign",
    ),
    **_of(
        Reads.SAME, 1, "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cosine", "cosh", "erf",
        "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "rsqrt", "sine", "sinh", "sqrt",
        "tan", "tanh", result_accuracy=GROUP,
    ),
    **_of(
        Reads.SAME, 2, "add", "and", "atan2", "complex", "divide", "maximum", "minimum", "mulhi", "multiply", "or",
        "power", "remainder", "shift-left", "shift-right-arithmetic", "shift-right-logical", "stochastic-convert",
        "subtract", "xor",
    ),
    **_of(Reads.SAME, 2, "compare", direction_=WORD, type=WORD),
    **_of(Reads.SAME, 3, "clamp", "select"),
    **_of(Reads.SAME, 1, "reduce-precision", exponent_bits_=INTEGER, mantissa_bits_=INTEGER),
    **_of(Reads.SAME, None, "map", to_apply_=COMPUTATION, dimensions=INTEGERS),
    **_of(Reads.SAME_BITS, 1, "bitcast-convert"),
    **_of(Reads.BYTES, 1, "bitcast"),
    **_of(Reads.ROW_MAJOR, 1, "reshape", inferred_dimension=INTEGER),
    **_of(Reads.BROADCAST, 1, "broadcast", dimensions_=INTEGERS),
    **_of(Reads.TRANSPOSED, 1, "transpose", dimensions_=INTEGERS),
    **_of(Reads.SLICED, 1, "slice", slice_=SLICES),
    **_of(Reads.REVERSED, 1, "reverse", dimensions_=INTEGERS),
    **_of(Reads.JOINED, None, "concatenate", dimensions_=INTEGERS),
    **_of(Reads.PADDED, 2, "pad", padding_=PADDING),
    **_of(Reads.DYNAMIC_SLICED, None, "dynamic-slice", dynamic_slice_sizes_=INTEGERS),
    **_of(Reads.UPDATED, None, "dynamic-update-slice"),
    **_of(
        Reads.SCATTERED, None, "scatter", update_window_dims_=INTEGERS, inserted_window_dims_=INTEGERS,
        scatter_dims_to_operand_dims_=INTEGERS, index_vector_dim_=INTEGER, to_apply_=COMPUTATION,
        indices_are_sorted=BOOL, unique_indices=BOOL, input_batching_dims=INTEGERS,
        scatter_indices_batching_dims=INTEGERS,
    ),
    **_of(Reads.REDUCED, None, "reduce", dimensions_=INTEGERS, to_apply_=COMPUTATION),
    **_of(Reads.WINDOWED, None, "reduce-window", window=WINDOW, to_apply_=COMPUTATION),
    **_of(Reads.CONTRACTED, 2, "dot", **_DOT),
    **_of(Reads.ANY, 3, "ragged-dot", **_DOT, lhs_ragged_dims=INTEGERS, rhs_group_dims=INTEGERS),
    **_of(Reads.ANY, 4, "scaled-dot", **_DOT),
    **_of(Reads.ANY, 2, "convolution", **_CONVOLUTION, dim_labels_=LABELS, conv_kind=WORD),
    **_of(
        Reads.ANY, 2, "gather", offset_dims_=INTEGERS, collapsed_slice_dims_=INTEGERS, start_index_map_=INTEGERS,
        index_vector_dim_=INTEGER, slice_sizes_=INTEGERS, indices_are_sorted=BOOL, operand_batching_dims=INTEGERS,
        start_indices_batching_dims=INTEGERS,
    ),
    **_of(Reads.ANY, 3, "select-and-scatter", select_=COMPUTATION, scatter_=COMPUTATION, window=WINDOW),
    **_of(
        Reads.ANY, None, "scan", to_apply_=COMPUTATION, dimensions_=INTEGERS, num_carries_=INTEGER, is_reverse=BOOL,
        is_associative=BOOL,
    ),
    **_of(Reads.ANY, 1, "fft", fft_type_=WORD, fft_length_=INTEGERS),
    **_of(Reads.ANY, 2, "triangular-solve", left_side=BOOL, lower=BOOL, unit_diagonal=BOOL, transpose_a=WORD),
    **_of(Reads.ANY, 1, "cholesky", lower=BOOL),
    **_of(Reads.ANY, None, "sort", dimensions_=INTEGERS, is_stable=BOOL, to_apply_=COMPUTATION),
    **_of(Reads.ANY, 1, "topk", k_=INTEGER, largest=BOOL),
    **_of(Reads.ANY, 3, "batch-norm-training", **_BATCH_NORM),
    **_of(Reads.ANY, 5, "batch-norm-inference", "batch-norm-grad", **_BATCH_NORM),
    **_of(Reads.ANY, None, "rng", distribution_=WORD),
    **_of(Reads.ANY, 1, "rng-bit-generator", algorithm_=WORD),
    **_of(Reads.ANY, 1, "get-dimension-size", dimensions_=INTEGERS),
    **_of(Reads.ANY, 2, "set-dimension-size", dimensions_=INTEGERS),
    **_of(Reads.ANY, None, "dynamic-reshape"),
    **_of(
        Reads.ANY, None, "custom-call", custom_call_target_=TEXT, **_CONVOLUTION, dim_labels=LABELS,
        operand_layout_constraints=GROUP, custom_call_has_side_effect=BOOL, to_apply=COMPUTATION,
        called_computations=COMPUTATIONS, output_to_operand_aliasing=ALIASES, literal=VALUE, schedule=WORD,
        api_version=WORD,
    ),
    **_of(Reads.SAME, None, "all-reduce", "all-reduce-start", **_GROUPS, to_apply_=COMPUTATION, mode=WORD),
    **_of(Reads.ANY, None, "reduce-scatter", **_GROUPS, to_apply_=COMPUTATION, mode=WORD, dimensions_=INTEGERS),
    **_of(Reads.ANY, None, "all-gather", **_GROUPS, dimensions_=INTEGERS),
    **_of(Reads.ANY, None, "all-to-all", **_GROUPS, dimensions=INTEGERS),
    **_of(Reads.ANY, 6, "ragged-all-to-all", **_GROUPS, dimensions=INTEGERS),
    **_of(Reads.ANY, None, "collective-broadcast", "collective-reduce", **_GROUPS),
    **_of(
        Reads.ANY, None, "collective-permute", "collective-permute-start", channel_id=INTEGER,
        source_target_pairs_=PAIRS, slice_sizes=PAIRS,
    ),
    **_of(Reads.ANY, None, "all-gather-start", **_GROUPS, dimensions_=INTEGERS),
    **_of(Reads.ANY, 1, "all-reduce-done", "all-gather-done", "collective-permute-done", "copy-done"),
    **_of(Reads.ANY, 1, "copy-start", cross_program_prefetch_index=INTEGER),
    **_of(Reads.ANY, 2, "send", **_CHANNEL),
    **_of(Reads.ANY, 1, "recv", "send-done", "recv-done", **_CHANNEL),
    **_of(Reads.ANY, 1, "infeed", infeed_config=TEXT),
    **_of(Reads.ANY, 2, "outfeed", outfeed_config=TEXT, outfeed_shape=VALUE),
    **_of(Reads.ANY, None, "after-all"),
    **_of(Reads.WHOLE, 1, "opt-barrier", "optimization-barrier"),
    **_of(Reads.WHOLE, 1, "domain", domain_=GROUP),
    **_of(Reads.WHOLE, 2, "add-dependency"),
    **_of(Reads.TUPLED, None, "tuple"),
    **_of(Reads.ELEMENT, 1, "get-tuple-element", index_=INTEGER),
    **_of(Reads.CALLED, 1, "while", condition_=COMPUTATION, body_=COMPUTATION),
    **_of(
        Reads.CALLED, None, "conditional", branch_computations=COMPUTATIONS, true_computation=COMPUTATION,
        false_computation=COMPUTATION,
    ),
    **_of(Reads.CALLED, None, "call", to_apply_=COMPUTATION, is_composite=BOOL),
    **_of(
        Reads.CALLED, None, "async-start", calls_=COMPUTATION, async_execution_thread=TEXT,
        output_to_operand_aliasing=ALIASES,
    ),
    **_of(Reads.CALLED, 1, "async-update", "async-done", calls=COMPUTATION, async_execution_thread=TEXT),
    **_of(
        Reads.FUSED, None, "fusion", kind_=WORD, calls_=COMPUTATION, output_to_operand_aliasing=ALIASES,
    ),
}  # fmt: skip

STARTS = ("send", "recv")
"""Operations that start one, without the name of a start."""
_ASYNC = {"async_execution_thread": TEXT, ALIASING: ALIASES}
_SUFFIXES = ("-start", "-update", "-done")


def opcode(name: str) -> Opcode | None:
    """Return the row of an opcode, None for one that HLO does not have.

    Any operation may be started: `NAME-start` has the operands and attributes of NAME, and `NAME-update` and
    `NAME-done` have the start as their operand.

    >>> opcode("add").arity, opcode("dot-start").arity, opcode("dot-done").arity, opcode("madd"), opcode("madd-start")
    (2, 2, 1, None, None)
    """
    if name in OPCODES:
        return OPCODES[name]
    plain, dash, which = name.rpartition("-")
    started = OPCODES.get(plain)
    if started is None or f"{dash}{which}" not in _SUFFIXES:
        return None
    if which == "start":
        return Opcode(Reads.ANY, started.arity, {**started.attributes, **_ASYNC}, started.required)
    return Opcode(Reads.ANY, 1, _ASYNC)


def is_start(name: str) -> bool:
    """Whether an operation goes on after it, until its done.

    >>> is_start("all-gather-start"), is_start("send"), is_start("send-done")
    (True, True, False)
    """
    return name.endswith("-start") or name in STARTS


UPDATES: Mapping[str, tuple[int, ...]] = {
    "triangular-solve": (1,), "set-dimension-size": (0,), "ragged-all-to-all": (1,), "collective-permute": (1,),
}  # fmt: skip
"""Operations that are defined to update an operand in the result's place: the operands whose bytes a result may take.

Result k of `sort` may take operand k. `collective-permute` updates its second operand if it has one. No other operand
of the operation may be in those bytes.
"""
