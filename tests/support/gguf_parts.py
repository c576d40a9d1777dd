"""GGUF files put together by hand from the format's definition, so that any part of one can be made wrong."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from tmmu.examples.llama import SeededLlama, file_pieces

SIZES = {0: (1, 4), 1: (1, 2), 2: (32, 18), 8: (32, 34), 12: (256, 144)}
"""Elements and bytes of a block by the type's number: F32, F16, Q4_0, Q8_0, Q4_K."""

TINY = SeededLlama("tiny", 64, 2, 4, 2, 96, vocab=320, context_length=512, tied=False)


def tiny(folder: Path, file_type: str = "f32", shape: SeededLlama = TINY, seed: int = 1) -> Path:
    """A model of two layers, which takes milliseconds."""
    path = folder / f"{shape.name}-{file_type}.gguf"
    path.write_bytes(b"".join(file_pieces(shape, seed, file_type)))
    return path


def text(value: str | bytes) -> bytes:
    encoded = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(encoded)) + encoded


def texts(values: list[str]) -> bytes:
    """The value of an array of texts, with its type."""
    return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def numbers(inner: int, form: str, values: list[int] | list[float]) -> bytes:
    """The value of an array of numbers, with its type."""
    return struct.pack(f"<IIQ{len(values)}{form}", 9, inner, len(values), *values)


def value(given: bool | int | float | str) -> bytes:
    """A single value, with its type."""
    if isinstance(given, bool):
        return struct.pack("<I?", 7, given)
    if isinstance(given, int):
        return struct.pack("<II", 4, given)
    return struct.pack("<If", 6, given) if isinstance(given, float) else struct.pack("<I", 8) + text(given)


@dataclass
class Tensor:
    """A row of the table; its bytes are zero where none are given."""

    dims: tuple[int, ...]
    kind: int = 0
    offset: int | None = None
    data: bytes | None = None

    @property
    def stored(self) -> bytes:
        count = 1
        for dim in self.dims:
            count *= dim
        elements, size = SIZES.get(self.kind, (1, 4))
        return bytes(count // elements * size) if self.data is None else self.data


@dataclass
class Parts:
    """A file: `keys` has each value with its type, `tensors` the table; what stands in `header` overrides."""

    keys: dict[str, bytes]
    tensors: dict[str, Tensor]
    magic: bytes = b"GGUF"
    version: int = 3
    tensor_count: int | None = None
    key_count: int | None = None
    again: list[str] = field(default_factory=list)
    alignment: int = 32

    def encoded(self) -> bytes:
        """The bytes; keys and tensors of `again` stand in it twice."""
        keys = [text(key) + found for key, found in self.keys.items()]
        keys += [text(key) + self.keys[key] for key in self.again if key in self.keys]
        rows, data = [], b""
        for name, tensor in self.tensors.items():
            offset = len(data) if tensor.offset is None else tensor.offset
            row = text(name) + struct.pack(f"<I{len(tensor.dims)}Q", len(tensor.dims), *tensor.dims)
            rows += [row + struct.pack("<IQ", tensor.kind, offset)] * (2 if name in self.again else 1)
            data += tensor.stored + bytes(-len(tensor.stored) % self.alignment)
        counts = (
            len(rows) if self.tensor_count is None else self.tensor_count,
            len(keys) if self.key_count is None else self.key_count,
        )
        header = self.magic + struct.pack("<IQQ", self.version, *counts) + b"".join(keys + rows)
        return header + bytes(-len(header) % self.alignment) + data


def llama() -> Parts:
    """A right file: one layer, d 32, two heads on one, ff 64, four tokens; every optional key absent."""
    keys: dict[str, bool | int | float | str] = {
        "general.architecture": "llama", "llama.context_length": 256, "llama.embedding_length": 32,
        "llama.block_count": 1, "llama.feed_forward_length": 64, "llama.attention.head_count": 2,
        "llama.attention.head_count_kv": 1, "llama.attention.layer_norm_rms_epsilon": 1e-5,
    }  # fmt: skip
    tensors = {
        "token_embd": (32, 4), "blk.0.attn_norm": (32,), "blk.0.attn_q": (32, 32), "blk.0.attn_k": (32, 16),
        "blk.0.attn_v": (32, 16), "blk.0.attn_output": (32, 32), "blk.0.ffn_norm": (32,), "blk.0.ffn_gate": (32, 64),
        "blk.0.ffn_up": (32, 64), "blk.0.ffn_down": (64, 32), "output_norm": (32,), "output": (32, 4),
    }  # fmt: skip
    return Parts(
        {key: value(found) for key, found in keys.items()},
        {f"{name}.weight": Tensor(dims) for name, dims in tensors.items()},
    )
