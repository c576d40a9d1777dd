"""The models that a session runs: their architectures in GGUF, hyperparameters, and the tensors that they must have.

An architecture is a decoder of the kind of Llama. It may have biases, norms of heads, norms behind attention and behind
the feed-forward network, a window on most layers, limits on scores and logits, or another rotation of positions. Each
of these is a field of `LlamaShape`, which `forward` turns into operations. A key or tensor that would change the
computation in another way is refused by its name.

`llama` rotates adjacent pairs of a head, elements 2i and 2i + 1 (its wq and wk are stored permuted); the others rotate
the elements i and i + head_dim / 2.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tmmu.foundry.weights import PLAIN_TYPES, GgufFile, Value, Weight, WeightType, open_gguf

Half = NDArray[np.float16]

BIASES = tuple(
    f"{name}.bias" for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
)
"""The biases that a layer may have."""

HEAD_NORMS = ("attn_q_norm.weight", "attn_k_norm.weight")
POST_NORMS = ("post_attention_norm.weight", "post_ffw_norm.weight")
ROPE_FACTORS = "rope_freqs.weight"
"""The divisors of the angles of RoPE, one for each pair of a head."""


@dataclass(frozen=True)
class Architecture:
    """An architecture of GGUF.

    `halves` says whether RoPE rotates elements i and i + head_dim / 2. Each layer has the tensors `needs`, and may have
    those of `may`. `gate` is the activation of the feed-forward network. `period` is the number of layers of which the
    last one has no window, 0 if no layer has one.
    """

    halves: bool = True
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    gate: Literal["silu", "gelu"] = "silu"
    period: int = 0


ARCHITECTURES = {
    "llama": Architecture(halves=False, may=BIASES),
    "qwen2": Architecture(may=BIASES[:3]),
    "qwen3": Architecture(needs=HEAD_NORMS),
    "gemma": Architecture(gate="gelu"),
    "gemma2": Architecture(needs=POST_NORMS, gate="gelu", period=2),
    "gemma3": Architecture(needs=(*HEAD_NORMS, *POST_NORMS), gate="gelu", period=6),
}
"""The architectures that are run, by `general.architecture`. Mistral's files have the name `llama`."""

READ = {
    "context_length", "embedding_length", "block_count", "feed_forward_length", "vocab_size", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
    "rope.dimension_count", "rope.freq_base", "rope.scaling.type", "rope.scaling.factor", "rope.scale_linear",
    "rope.scaling.original_context_length", "rope.scaling.attn_factor",
}  # fmt: skip
"""The keys of an architecture from which the hyperparameters are read."""

READ_WITH_WINDOW = {"attention.sliding_window", "attn_logit_softcapping", "final_logit_softcapping"}
"""The further keys that are read if an architecture has windows."""

NEUTRAL: dict[str, tuple[Value, ...]] = {
    "expert_count": (0,), "expert_used_count": (0,), "attention.causal": (True,),
    "rope.scaling.finetuned": (True, False), "rope.scaling.yarn_log_multiplier": (0.0,),
}  # fmt: skip
"""The keys of an architecture that are accepted with these values only, which have no effect."""

LOCAL_BASE = 10000.0
"""The base of RoPE on the layers of gemma3 that have a window."""

LARGEST = {"gemma2": 46, "gemma3": 62}
"""The layers of the models whose scores are scaled by embedding and heads, as in llama.cpp."""


@dataclass(frozen=True)
class Rotation:
    """The angles by which RoPE rotates the pairs of a head.

    Attributes
    ----------
    base
        The angle of pair i at a position is position / base^(2i/head_dim).
    scale
        The factor of all angles, which a longer context has below 1.
    mixing
        The weight of YaRN: with 1, angles of pairs that turn often are not scaled; 0: all are.
    magnitude
        The factor of cosine and sine, beside that of YaRN.
    original
        The context of the model before it was scaled, which YaRN needs.
    factors
        Divisors of the angles, one for each pair, or none.
    """

    base: float
    scale: float = 1.0
    mixing: float = 0.0
    magnitude: float = 1.0
    original: int = 0
    factors: tuple[float, ...] = ()

    FAST, SLOW = 32.0, 1.0

    def compute_rows(self, first: int, count: int, head_dim: int) -> tuple[Half, Half]:
        """Return cosine and sine of the angles of `count` positions from `first`, both [count, head_dim/2].

        All is computed in float32 and rounded to F16 at the end, so the bits of a row do not depend on the rows that
        are computed with it. spec: FD4.5

        >>> cos, sin = Rotation(10000.0).compute_rows(1, 1, 4)
        >>> cos.tolist(), sin.tolist()
        ([[0.54052734375, 1.0]], [[0.84130859375, 0.01000213623046875]])
        """
        exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
        angles = np.arange(first, first + count, dtype=np.float32)[:, None] / np.float32(self.base) ** exponents
        if self.factors:
            angles /= np.array(self.factors, np.float32)
        scaled, magnitude = angles * np.float32(self.scale), self.magnitude
        if self.mixing:
            mix = self._mix(head_dim)
            scaled = scaled * (np.float32(1) - mix) + angles * mix
            magnitude *= 1 + 0.1 * math.log(1 / self.scale)
        cos, sin = (part(scaled) * np.float32(magnitude) for part in (np.cos, np.sin))
        return cos.astype(np.float16), sin.astype(np.float16)

    def _mix(self, head_dim: int) -> NDArray[np.float32]:
        """Return the weight of the unscaled angle of each pair, by YaRN."""

        def turns(count: float) -> float:
            return head_dim * math.log(self.original / (count * 2 * math.pi)) / (2 * math.log(self.base))

        low, high = max(0, math.floor(turns(self.FAST))), min(head_dim - 1, math.ceil(turns(self.SLOW)))
        ramp = (np.arange(head_dim // 2, dtype=np.float32) - np.float32(low)) / np.float32(max(0.001, high - low))
        found: NDArray[np.float32] = (np.float32(1) - np.clip(ramp, 0, 1)) * np.float32(self.mixing)
        return found


@dataclass(frozen=True)
class LlamaShape:
    """The hyperparameters of a decoder; `head_dim · n_heads` need not be `d_model`.

    Attributes
    ----------
    rotations
        RoPE, and, if there are two, RoPE on the layers that have a window.
    attention_scale
        The factor of scores.
    architecture
        The name in GGUF.
    extras
        The tensors that each layer has besides those of `llama`.
    embedding_scale
        The factor of the embedding.
    window
        The positions to which a row of a layer with a window attends, its own included; 0 if no layer has one.
    score_limit, logit_limit
        Scores and logits x become limit · tanh(x / limit); 0: they stay as they are.
    """

    vocab: int
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    d_ff: int
    context_length: int
    rotations: tuple[Rotation, ...]
    rms_eps: float
    attention_scale: float
    architecture: str = "llama"
    extras: frozenset[str] = frozenset()
    embedding_scale: float = 1.0
    window: int = 0
    score_limit: float = 0.0
    logit_limit: float = 0.0
    kind: Architecture = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look up the architecture."""
        object.__setattr__(self, "kind", ARCHITECTURES[self.architecture])

    def window_of(self, layer: int) -> int:
        """Return the positions to which a row of a layer attends at most; 0: all before it."""
        period = self.kind.period
        return self.window if period and layer % period < period - 1 else 0

    def rotation_of(self, layer: int) -> int:
        """Return the number of the rotation of a layer."""
        return len(self.rotations) - 1 if self.window_of(layer) else 0

    def tensors(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the tensors that a file must have, with rows and columns, in the order of a forward pass.

        Norms and biases have one row. `output.weight` is not required: if it is absent, the logits are products with
        the embedding.
        """
        d, q, kv, ff = self.d_model, self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim, self.d_ff
        yield "token_embd.weight", (self.vocab, d)
        further = {
            "attn_q.bias": q, "attn_k.bias": kv, "attn_v.bias": kv, "attn_output.bias": d, "ffn_gate.bias": ff,
            "ffn_up.bias": ff, "ffn_down.bias": d, **dict.fromkeys(HEAD_NORMS, self.head_dim),
            **dict.fromkeys(POST_NORMS, d),
        }  # fmt: skip
        for layer in range(self.n_layers):
            for name, rows, columns in (
                ("attn_norm", 1, d), ("attn_q", q, d), ("attn_k", kv, d), ("attn_v", kv, d), ("attn_output", d, q),
                ("ffn_norm", 1, d), ("ffn_gate", ff, d), ("ffn_up", ff, d), ("ffn_down", d, ff),
            ):  # fmt: skip
                yield f"blk.{layer}.{name}.weight", (rows, columns)
            for name in sorted(self.extras):
                yield f"blk.{layer}.{name}", (1, further[name])
        yield "output_norm.weight", (1, d)


@dataclass(frozen=True)
class LlamaFile(GgufFile):
    """A GGUF file that has every tensor of its architecture, with its shape. spec: FD5.1"""

    shape: LlamaShape

    @property
    def output(self) -> Weight:
        """The matrix of the logits, [vocab, d_model]: `output.weight`, or the embedding if the file has none."""
        return self.tensors.get("output.weight") or self.tensors["token_embd.weight"]


def open_llama(path: str | os.PathLike[str], types: tuple[WeightType, ...] = PLAIN_TYPES) -> LlamaFile:
    """Map a file and check it against its architecture; `types` are those that its tensors may have.

    Raises
    ------
    TmmuError
        INVALID_WEIGHTS for each defect of the file, with the tensor or key; MISSING_PACKAGE if the package gguf is
        not installed.

    Notes
    -----
    O(metadata) time and memory; no byte of a tensor is read, except those of `rope_freqs.weight`. The file must not be
    shortened while it is mapped: the system ends a process that reads beyond the end. spec: FD5.1 to FD5.5, FD5.15
    """
    file = open_gguf(path, types)
    shape = _read_shape(file)
    names = {"output.weight", ROPE_FACTORS} & file.tensors.keys()
    for name, (rows, columns) in shape.tensors():
        if name not in file.tensors:
            file.refuse("the tensor is not in the file", name)
        _check_shape(file, name, rows, columns)
        if name.endswith(".bias") and file.tensors[name].type != "F32":
            file.refuse(f"expected a bias of F32, got {file.tensors[name].type}", name)
        names.add(name)
    if "output.weight" in names:
        _check_shape(file, "output.weight", shape.vocab, shape.d_model)
    if other := sorted(file.tensors.keys() - names):
        what = f"the tensor is not part of the architecture {shape.architecture}"
        file.refuse(what, other[0], "use a model without it, as one without experts")
    return LlamaFile(file.path, file.metadata, file.tensors, shape)


def _check_shape(file: GgufFile, name: str, rows: int, columns: int) -> None:
    found = file.tensors[name]
    if (found.rows, found.columns) != (rows, columns):
        file.refuse(
            f"expected {rows} rows of {columns} from the hyperparameters, got {found.rows} of {found.columns}", name
        )


def _read_shape(file: GgufFile) -> LlamaShape:
    """Read the hyperparameters; refuse those out of range, inconsistent or not implemented."""
    architecture = file.metadata.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        file.refuse(
            f"expected one of the architectures {known}, got {architecture!r}", "general.architecture",
            "use a model of one of these",
        )  # fmt: skip
    kind, keys = ARCHITECTURES[architecture], _Keys(file, architecture)
    keys.check(READ | READ_WITH_WINDOW if kind.period else READ)
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None:
        file.refuse("the tensor is not in the file", "token_embd.weight")
    heads, d_model = keys.integer("attention.head_count"), keys.integer("embedding_length")
    if not keys.has("attention.key_length") and d_model % heads:
        file.refuse(f"{heads} heads do not divide {d_model}", f"{architecture}.attention.head_count")
    head_dim, layers = keys.integer("attention.key_length", d_model // heads), keys.integer("block_count")
    context = keys.integer("context_length")
    is_gemma, scale = architecture.startswith("gemma"), head_dim
    if LARGEST.get(architecture) == layers:
        scale = d_model // heads
    has_window = architecture == "gemma2" or (kind.period > 0 and keys.has("attention.sliding_window"))
    limits = (50.0, 30.0) if architecture == "gemma2" else (0.0, 0.0)
    shape = LlamaShape(
        vocab=embedding.rows,
        d_model=d_model,
        n_layers=layers,
        n_heads=heads,
        n_kv_heads=keys.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        d_ff=keys.integer("feed_forward_length"),
        context_length=context,
        rotations=_read_rotations(file, keys, context, head_dim),
        rms_eps=keys.positive("attention.layer_norm_rms_epsilon", None),
        attention_scale=float(np.float32(1) / np.sqrt(np.float32(scale))),
        architecture=architecture,
        extras=frozenset(kind.needs) | {name for name in kind.may if f"blk.0.{name}" in file.tensors},
        embedding_scale=math.sqrt(d_model) if is_gemma else 1.0,
        window=keys.integer("attention.sliding_window", 4096) if has_window else 0,
        score_limit=keys.positive("attn_logit_softcapping", limits[0]),
        logit_limit=keys.positive("final_logit_softcapping", limits[1]),
    )
    for key, found, expected in (
        ("attention.value_length", keys.integer("attention.value_length", head_dim), head_dim),
        ("rope.dimension_count", keys.integer("rope.dimension_count", head_dim), head_dim),
        ("vocab_size", keys.integer("vocab_size", shape.vocab), shape.vocab),
        ("attention.head_count_kv", heads % shape.n_kv_heads, 0),
        ("attention.key_length", head_dim % 2, 0),
    ):
        if found != expected:
            file.refuse(f"heads of {head_dim} ({shape.n_heads}, {shape.n_kv_heads} of keys and values) and "
                        f"{shape.vocab} rows of the embedding do not go with it", f"{architecture}.{key}")  # fmt: skip
    return shape


def _read_rotations(file: GgufFile, keys: _Keys, context: int, head_dim: int) -> tuple[Rotation, ...]:
    """Read how RoPE rotates, on layers without and with a window. spec: FD5.15"""
    kind = file.metadata.get(f"{keys.architecture}.rope.scaling.type", "linear")
    known = ("none", "", "linear", "yarn") if keys.architecture != "gemma3" else ("none", "", "linear")
    if kind not in known:
        file.refuse(
            f"expected a scaling of RoPE among {', '.join(filter(None, known))}, got {kind!r}",
            f"{keys.architecture}.rope.scaling.type", "use another model",
        )  # fmt: skip
    stated = [keys.positive(name, 0.0, least=0.0) for name in ("rope.scaling.factor", "rope.scale_linear")]
    factor = next(filter(None, stated), 1.0) if kind not in ("none", "") else 1.0
    original = keys.integer("rope.scaling.original_context_length", context)
    factors: tuple[float, ...] = ()
    if (found := file.tensors.get(ROPE_FACTORS)) is not None and keys.architecture == "llama":
        _check_shape(file, ROPE_FACTORS, 1, head_dim // 2)
        if found.type != "F32":
            file.refuse(f"expected F32, got {found.type}", ROPE_FACTORS)
        read: list[float] = found.blocks.view(np.float32)[0].tolist()
        factors = tuple(read)
        if not all(0 < one < math.inf for one in factors):
            file.refuse("a factor is not a finite number above 0", ROPE_FACTORS)
    elif found is not None:
        file.refuse(
            f"the tensor is not part of the architecture {keys.architecture}", ROPE_FACTORS, "use another model"
        )
    magnitude = keys.positive("rope.scaling.attn_factor", 1.0)
    base = keys.positive("rope.freq_base", 10000.0)
    whole = Rotation(base, 1 / factor, float(kind == "yarn"), magnitude, original, factors)
    return (whole, Rotation(LOCAL_BASE, magnitude=magnitude)) if keys.architecture == "gemma3" else (whole,)


@dataclass(frozen=True)
class _Keys:
    """The keys of an architecture in a file."""

    file: GgufFile
    architecture: str

    def check(self, known: set[str]) -> None:
        """Refuse keys that would change the computation in a way that is not implemented."""
        for key, value in self.file.metadata.items():
            name = key.removeprefix(f"{self.architecture}.")
            if name == key or name in known or name == "tensor_data_layout":
                continue
            if isinstance(value, np.ndarray | list) or value not in NEUTRAL.get(name, ()):
                shown = "an array" if isinstance(value, np.ndarray | list) else repr(value)
                what = f"{shown} changes the computation in a way that is not implemented"
                self.file.refuse(what, key, "use another model")

    def has(self, name: str) -> bool:
        """Whether the file states a key."""
        return f"{self.architecture}.{name}" in self.file.metadata

    def integer(self, name: str, default: int | None = None) -> int:
        """Read an integer of [1, 2^31); the default holds if the key is absent."""
        value = self._read(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1 << 31:
            self.file.refuse("the value is not one integer from 1 to 2^31 - 1", f"{self.architecture}.{name}")
        return value

    def positive(self, name: str, default: float | None, least: float | None = None) -> float:
        """Read a finite number above 0, or from `least`; the default holds if the key is absent."""
        value = self._read(name, default)
        is_stated = self.has(name)
        if not isinstance(value, float) or not math.isfinite(value) or (is_stated and value <= 0 and value != least):
            self.file.refuse("the value is not a finite float above 0", f"{self.architecture}.{name}")
        return value

    def _read(self, name: str, default: Any) -> Any:
        value = self.file.metadata.get(f"{self.architecture}.{name}", default)
        if value is None:
            self.file.refuse("the key is not in the metadata", f"{self.architecture}.{name}")
        return value
