"""GGUF files: what is read is what gguf's own reader reads, and nothing that is wrong is read. spec: FD5.1 to FD5.5"""

from __future__ import annotations

import os
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest

from tests.support.gguf_parts import Parts, Tensor, llama, numbers, texts, tiny, value
from tmmu.core.errors import TmmuError
from tmmu.foundry import weights
from tmmu.foundry.shapes import LlamaShape, Rotation, open_llama
from tmmu.foundry.weights import open_gguf


def refused(path: Path) -> TmmuError:
    with pytest.raises(TmmuError) as caught:
        open_llama(path)
    assert (caught.value.code_id, caught.value.file) == ("INVALID_WEIGHTS", str(path))
    assert caught.value.fix
    return caught.value


@pytest.mark.parametrize("file_type", ["f32", "f16", "q8_0", "q4_0"])
def test_metadata_and_tensors_are_those_that_gguf_reads(file_type: str, tmp_path: Path) -> None:
    path = tiny(tmp_path, file_type)
    found, judge = open_llama(path), gguf.GGUFReader(path)
    metadata = {key: item.tolist() if isinstance(item, np.ndarray) else item for key, item in found.metadata.items()}
    fields = {key: read.contents() for key, read in judge.fields.items() if not key.startswith("GGUF.")}
    assert metadata == fields
    assert list(found.tensors) == [tensor.name for tensor in judge.tensors]
    for tensor in judge.tensors:
        weight = found.tensors[tensor.name]
        assert (weight.name, weight.type) == (tensor.name, tensor.tensor_type.name)
        assert [weight.columns, weight.rows][: len(tensor.shape)] == tensor.shape.tolist()
        assert weight.blocks.shape[0] == weight.rows
        assert weight.blocks.tobytes() == tensor.data.tobytes()


def test_hyperparameters_are_those_of_the_file(tmp_path: Path) -> None:
    found = open_llama(tiny(tmp_path)).shape
    rotations = (Rotation(10000.0, original=512),)
    assert found == LlamaShape(320, 64, 2, 4, 2, 16, 96, 512, rotations, float(np.float32(1e-5)), 0.25)


def test_a_file_with_what_is_optional_is_read(tmp_path: Path) -> None:
    """Heads of any even width, and the embedding in place of a matrix of the logits. spec: FD5.4"""
    parts, path = llama(), tmp_path / "m.gguf"
    parts.keys |= {
        "llama.attention.head_count": value(3), "llama.attention.key_length": value(64),
        "llama.attention.value_length": value(64), "llama.rope.freq_base": value(500000.0),
        "llama.rope.scaling.type": value("none"), "llama.rope.scaling.factor": value(1.0),
        "llama.rope.scale_linear": value(1.0), "llama.expert_used_count": value(0), "llama.expert_count": value(0),
        "llama.attention.causal": value(True), "llama.vocab_size": value(4), "other.key": numbers(5, "i", [1, -1]),
        "general.alignment": value(64), "llama.tensor_data_layout": value("Meta AI original pth"),
    }  # fmt: skip
    parts.alignment = 64
    for name, rows in (("attn_q", 192), ("attn_k", 64), ("attn_v", 64)):
        parts.tensors[f"blk.0.{name}.weight"].dims = (32, rows)
    parts.tensors["blk.0.attn_output.weight"].dims = (192, 32)
    path.write_bytes(parts.encoded())
    assert open_llama(path).output.name == "output.weight"
    del parts.tensors["output.weight"]
    path.write_bytes(parts.encoded())
    found = open_llama(path)
    assert found.output is found.tensors["token_embd.weight"]
    assert (found.shape.head_dim, found.shape.rotations[0].base) == (64, 500000.0)


def test_no_byte_of_a_tensor_is_read(tmp_path: Path) -> None:
    """Four GiB, of which the file system has the header alone. spec: FD5.1"""
    parts, path = llama(), tmp_path / "m.gguf"
    parts.tensors["output.weight"].dims = (32, 1 << 25)
    parts.tensors["token_embd.weight"].dims = (32, 1 << 25)
    for k, tensor in enumerate(parts.tensors.values()):
        tensor.offset, tensor.data = k << 32, b""
    path.write_bytes(parts.encoded())
    with path.open("r+b") as file:
        file.truncate(13 << 32)
    tracemalloc.start()
    found = open_llama(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    assert found.output.blocks.nbytes == 1 << 32
    assert not found.output.blocks[-1].any()
    assert not found.output.blocks.flags.writeable


def key(name: str, given: bytes) -> Callable[[Parts], None]:
    return lambda parts: parts.keys.update({name: given})


def number(name: str, given: bool | int | float | str) -> Callable[[Parts], None]:
    return key(f"llama.{name}", value(given))


def tensor(name: str, **given: object) -> Callable[[Parts], None]:
    return lambda parts: parts.tensors.update({f"{name}.weight": replace(parts.tensors[f"{name}.weight"], **given)})


def whole(**given: object) -> Callable[[Parts], None]:
    return lambda parts: parts.__dict__.update(given)


def without(name: str) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        del (parts.tensors if name in parts.tensors else parts.keys)[name]

    return change


def further(name: str, *dims: int) -> Callable[[Parts], None]:
    return lambda parts: parts.tensors.update({name: Tensor(dims)})


EMBEDDING, Q = "token_embd.weight", "blk.0.attn_q.weight"

WRONG: list[tuple[str, Callable[[Parts], None], str | None]] = [
    ("another format", whole(magic=b"GGML"), None),
    ("the first version", whole(version=1), "the header"),
    ("big-endian", whole(version=0x03000000), "the header"),
    ("too many tensors", whole(tensor_count=2**63), "the header"),
    ("too many keys", whole(key_count=2**64 - 1), "the header"),
    ("a key too many", whole(key_count=9), "tensor 0"),
    ("a tensor too many", whole(tensor_count=13), "output.weight"),
    ("a key twice", whole(again=["llama.block_count"]), "llama.block_count"),
    ("a tensor twice", whole(again=[Q]), Q),
    ("an unknown kind of value", key("k", struct.pack("<I", 13)), "k"),
    ("an array of arrays", key("k", struct.pack("<IIQ", 9, 9, 1)), "k"),
    ("an endless array", key("k", struct.pack("<IIQ", 9, 0, 2**64 - 1)), "k"),
    ("an endless array of texts", key("k", struct.pack("<IIQ", 9, 8, 2**61)), "k"),
    ("an endless text", key("k", struct.pack("<IQ", 8, 2**64 - 1)), "k"),
    ("bytes that are no text", key("k", struct.pack("<IQ", 8, 1) + b"\xff"), "k"),
    ("an alignment of 0", key("general.alignment", value(0)), "general.alignment"),
    ("an alignment of 4", key("general.alignment", value(4)), "general.alignment"),
    ("an alignment of 24", key("general.alignment", value(24)), "general.alignment"),
    ("an alignment that is a text", key("general.alignment", value("32")), "general.alignment"),
    ("an alignment of true", key("general.alignment", value(True)), "general.alignment"),
    ("another architecture", key("general.architecture", value("mamba")), "general.architecture"),
    ("keys of another architecture", key("general.architecture", value("qwen2")), "qwen2.attention.head_count"),
    ("an architecture that is a number", key("general.architecture", value(7)), "general.architecture"),
    ("no architecture", without("general.architecture"), "general.architecture"),
    ("Q4_K", tensor("blk.0.ffn_down", kind=12, dims=(256, 8)), "blk.0.ffn_down.weight"),
    ("a type that is unknown", tensor("blk.0.attn_q", kind=77), Q),
    ("part of a block", tensor("blk.0.attn_q", kind=8, dims=(48, 32)), Q),
    ("no dimension", tensor("blk.0.attn_q", dims=()), Q),
    ("three dimensions", tensor("blk.0.attn_q", dims=(32, 32, 1)), Q),
    ("five dimensions", tensor("blk.0.attn_q", dims=(1, 1, 1, 1, 1)), Q),
    ("a dimension of 0", tensor("blk.0.attn_q", dims=(0, 32), data=b""), Q),
    ("a dimension that is huge", tensor("blk.0.attn_q", dims=(2**63, 2**63), data=b""), Q),
    ("a tensor beyond the end", tensor("output", offset=2**40), "output.weight"),
    ("a tensor beyond the end by one block", tensor("output", data=bytes(480)), "output.weight"),
    ("an offset that wraps round", tensor("output", offset=2**64 - 32), "output.weight"),
    ("an offset that is not aligned", tensor("blk.0.attn_q", offset=16), Q),
    ("tensors that overlap", tensor("blk.0.attn_q", offset=512), Q),
    ("tensors at one place", tensor("blk.0.attn_norm", offset=0), EMBEDDING),
    ("an absent tensor", without(Q), Q),
    ("an absent embedding", without(EMBEDDING), EMBEDDING),
    ("absent layers", number("block_count", 2**31 - 1), "blk.1.attn_norm.weight"),
    ("a layer too many", further("blk.1.attn_norm.weight", 32), "blk.1.attn_norm.weight"),
    ("factors of RoPE that are 0", further("rope_freqs.weight", 8), "rope_freqs.weight"),
    ("factors of RoPE of another head", further("rope_freqs.weight", 16), "rope_freqs.weight"),
    ("factors of RoPE of another type", lambda parts: parts.tensors.update(
        {"rope_freqs.weight": Tensor((8,), 1, data=np.ones(8, np.float16).tobytes())}), "rope_freqs.weight"),
    ("a bias of a norm", further("blk.0.attn_norm.bias", 32), "blk.0.attn_norm.bias"),
    ("a bias of another matrix", further("blk.0.attn_q.bias", 16), "blk.0.attn_q.bias"),
    ("a bias of another type", lambda parts: parts.tensors.update(
        {"blk.0.attn_q.bias": Tensor((32,), 1, data=bytes(64))}), "blk.0.attn_q.bias"),
    ("a norm of heads", further("blk.0.attn_q_norm.weight", 16), "blk.0.attn_q_norm.weight"),
    ("a matrix of another shape", tensor("blk.0.attn_q", dims=(32, 16)), Q),
    ("a transposed matrix", tensor("blk.0.ffn_down", dims=(32, 64)), "blk.0.ffn_down.weight"),
    ("logits of another vocabulary", tensor("output", dims=(32, 3)), "output.weight"),
    ("another scaling of RoPE", number("rope.scaling.type", "longrope"), "llama.rope.scaling.type"),
    ("a scaling of RoPE that is a number", number("rope.scaling.type", 1), "llama.rope.scaling.type"),
    ("a factor of RoPE", number("rope.scaling.factor", -2.0), "llama.rope.scaling.factor"),
    ("a factor of RoPE, as it was called", number("rope.scale_linear", -2.0), "llama.rope.scale_linear"),
    ("a parameter of YaRN", number("rope.scaling.yarn_log_multiplier", 1.0), "llama.rope.scaling.yarn_log_multiplier"),
    ("a limit on scores", number("attn_logit_softcapping", 50.0), "llama.attn_logit_softcapping"),
    ("experts", number("expert_count", 8), "llama.expert_count"),
    ("experts that are used", number("expert_used_count", 2), "llama.expert_used_count"),
    ("attention to what follows", number("attention.causal", False), "llama.attention.causal"),
    ("a key that is unknown", number("attention.sliding_window", 4096), "llama.attention.sliding_window"),
    ("a scale of attention in an array", key("llama.k", numbers(6, "f", [1.0])), "llama.k"),
    ("heads that do not divide d", number("attention.head_count", 3), "llama.attention.head_count"),
    ("heads that do not divide", number("attention.head_count_kv", 2**20), "llama.attention.head_count_kv"),
    ("heads by layer", key("llama.attention.head_count", numbers(4, "I", [2])), "llama.attention.head_count"),
    ("an odd head", number("attention.key_length", 15), "llama.attention.key_length"),
    ("values of another width", number("attention.value_length", 8), "llama.attention.value_length"),
    ("RoPE on part of a head", number("rope.dimension_count", 8), "llama.rope.dimension_count"),
    ("another vocabulary", number("vocab_size", 5), "llama.vocab_size"),
    ("no layers", number("block_count", 0), "llama.block_count"),
    ("a count of true", number("block_count", True), "llama.block_count"),
    ("a count that is negative", key("llama.block_count", struct.pack("<Ii", 5, -1)), "llama.block_count"),
    ("a count of 2^31", number("context_length", 2**31), "llama.context_length"),
    ("an absent count", without("llama.context_length"), "llama.context_length"),
    ("an absent epsilon", without("llama.attention.layer_norm_rms_epsilon"), "llama.attention.layer_norm_rms_epsilon"),
    ("a base of 0", number("rope.freq_base", 0.0), "llama.rope.freq_base"),
    ("an endless base", number("rope.freq_base", float("inf")), "llama.rope.freq_base"),
    ("a base that is NaN", number("rope.freq_base", float("nan")), "llama.rope.freq_base"),
    ("an integer as base", number("rope.freq_base", 10000), "llama.rope.freq_base"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "place"), [entry[1:] for entry in WRONG], ids=[entry[0] for entry in WRONG])
def test_a_wrong_file_is_refused_at_its_place(
    change: Callable[[Parts], None], place: str | None, tmp_path: Path
) -> None:
    """spec: FD5.2, FD5.3, FD5.4, FD5.5"""
    parts, path = llama(), tmp_path / "m.gguf"
    path.write_bytes(parts.encoded())
    assert open_llama(path).shape.n_layers == 1
    change(parts)
    path.write_bytes(parts.encoded())
    assert refused(path).place == place


def test_a_type_is_refused_by_its_name(tmp_path: Path) -> None:
    """spec: FD5.3"""
    parts, path = llama(), tmp_path / "m.gguf"
    parts.tensors[Q].kind = 12
    path.write_bytes(parts.encoded())
    assert "Q4_K" in refused(path).what


def test_values_of_every_type_are_those_that_gguf_reads(tmp_path: Path) -> None:
    parts, path = llama(), tmp_path / "m.gguf"
    forms = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
    for kind, form in forms.items():
        given = 1.5 if form in "fd" else 101 if form.isupper() else -101
        parts.keys[f"single.{kind}"] = struct.pack(f"<I{form}", kind, given)
        parts.keys[f"array.{kind}"] = numbers(kind, form, [given, 0, 1])
    parts.keys |= {"flag": value(True), "flags": numbers(7, "?", [True, False]), "texts": texts(["a", "", "é"])}
    path.write_bytes(parts.encoded())
    judge = gguf.GGUFReader(path).fields
    for name, found in open_gguf(path).metadata.items():
        assert (found.tolist() if isinstance(found, np.ndarray) else found) == judge[name].contents()


def test_the_reader_of_gguf_follows_a_count_beyond_the_end_and_an_offset_into_the_header(tmp_path: Path) -> None:
    """49 bytes are a thousand values for it, each an array of its own; a million of them take a gigabyte."""
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 0, 1000))
    assert len(gguf.GGUFReader(path).fields["k"].data) == 1000
    assert refused(path).place == "k"
    parts = llama()
    parts.tensors[Q].offset = 2**64 - 64
    path.write_bytes(parts.encoded())
    with np.errstate(over="ignore"):
        judge = gguf.GGUFReader(path)
    assert judge.tensors[2].data_offset < judge.data_offset
    assert refused(path).place == Q


def test_what_is_no_file_with_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "empty", tmp_path / "absent", tmp_path, tmp_path / "pipe"):
        refused(path)


def test_a_long_header_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, path = llama(), tmp_path / "m.gguf"
    parts.keys["k"] = texts(["word"] * 100)
    path.write_bytes(parts.encoded())
    open_gguf(path)
    monkeypatch.setattr(weights, "HEADER_LIMIT", 1000)
    assert refused(path).place == "k"


def test_a_file_that_is_cut_off_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    """spec: FD5.2"""
    whole_file, path = llama().encoded(), tmp_path / "m.gguf"
    for length in range(len(whole_file)):
        if length < 1500 or length % 97 == 0 or length > len(whole_file) - 3:
            path.write_bytes(whole_file[:length])
            refused(path)
