"""Each architecture that is run: bits of the plain run, logits of llama.cpp, and every difference counts.

spec: FD5.4, FD5.15
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.gguf_parts import value
from tests.support.model_kinds import KINDS, LONG, RECORDED, Kind, parts_of, write_kind
from tests.support.plain_llama import PlainLlama
from tests.support.small_llama import model_of, session_of
from tmmu.core.errors import TmmuError
from tmmu.foundry.shapes import ARCHITECTURES, BIASES, HEAD_NORMS, POST_NORMS, Rotation, open_llama
from tmmu.tasks.language_session import SessionOptions, compile_model, plan_session, verdicts_on

TYPES = {"f16": np.float16, "f32": np.float32}


def log_probabilities(logits: NDArray[Any]) -> NDArray[np.float64]:
    wide = logits.astype(np.float64)
    found: NDArray[np.float64] = wide - wide.max() - np.log(np.exp(wide - wide.max()).sum())
    return found


def test_there_is_a_model_of_each_architecture() -> None:
    assert {kind.architecture for kind in KINDS.values()} == set(ARCHITECTURES)
    assert json.loads(RECORDED.read_text()).keys() == KINDS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_is_the_plain_run_bit_for_bit_and_near_llama_cpp(kind: str, tmp_path: Path) -> None:
    """Beyond windows and a block of positions, for two chunks, and over a growth. spec: FD6.5, FD6.6, FD5.15"""
    path = write_kind(tmp_path, kind)
    for activation, tokens, chunk in (("f32", LONG, "32"), ("f16", LONG[:50], "7")):
        plain = PlainLlama(open_llama(path), TYPES[activation], 512)
        expected = plain.run(tokens)
        environment = {"METALLIC_PREFILL_CHUNK_SIZE": chunk}
        session = session_of(model_of(path), SessionOptions(initial=128, activations=activation), environment)
        session.prefill(tokens)
        assert session.output[0].tobytes() == expected.tobytes()
        assert list(session.generate([3], 3)) == plain.greedy([3], 3)
        if activation == "f32":
            found, recorded = log_probabilities(expected), json.loads(RECORDED.read_text())[kind]
            assert int(np.argmax(found)) == recorded[0][0]
            for token, wanted in recorded:
                assert abs(found[token] - wanted) <= 1e-2
        session.close()


@pytest.mark.skipif(importlib.util.find_spec("ggml") is None, reason="ggml-python is not installed")  # it is an extra
@pytest.mark.parametrize("kind", KINDS)
def test_ggml_is_near_llama_cpp_and_gives_the_same_bits_in_each_batch(kind: str, tmp_path: Path) -> None:
    """spec: FD10.5, FD10.7, FD5.15"""
    options = SessionOptions(initial=128, device="ggml", threads=2, budget=1 << 26)
    model = compile_model(write_kind(tmp_path, kind), options)
    whole = session_of(model, options, {"METALLIC_PREFILL_CHUNK_SIZE": "200"})
    whole.prefill(LONG)
    found = log_probabilities(whole.output[0])
    for token, wanted in json.loads(RECORDED.read_text())[kind]:
        assert abs(found[token] - wanted) <= 5e-2
    parts = session_of(model, options, {"METALLIC_FOUNDRY_DECODE_BATCH_SIZE": "3"})
    rows = [row.tobytes() for part in parts.passes(LONG) for row in part]
    assert rows[-1] == whole.output[0].tobytes()


def test_plans_of_each_kind_are_proved(tmp_path: Path) -> None:
    """spec: FD6.1"""
    for kind in ("qwen2", "qwen3", "gemma3"):
        session = session_of(model_of(write_kind(tmp_path, kind)))
        verdicts = verdicts_on(plan_session(session.forward), session.forward)
        assert [verdict.verdict for verdict in verdicts] == ["PROVED"] * 3
        session.close()


def without(kind: Kind, *keys: str, **changed: Any) -> Kind:
    return replace(kind, keys={key: found for key, found in kind.keys.items() if key not in keys}, **changed)


BIASED = KINDS["llama-biases"]
CHANGES: dict[str, tuple[Kind, Kind]] = {
    "factors": (KINDS["llama-factors"], KINDS["llama"]),
    "linear": (KINDS["llama-linear"], KINDS["llama"]),
    "yarn": (KINDS["llama-yarn"], without(KINDS["llama-yarn"], "rope.scaling.type")),
    "the context of yarn": (KINDS["llama-yarn"], without(KINDS["llama-yarn"], "rope.scaling.original_context_length")),
    "none": (KINDS["llama-linear"], replace(KINDS["llama"], keys={"rope.scaling.type": "none",
                                                                  "rope.scaling.factor": 4.0})),
    "window": (KINDS["gemma3"], replace(KINDS["gemma3"], keys={**KINDS["gemma3"].keys,
                                                               "attention.sliding_window": 39})),
    "scores": (KINDS["gemma2"], replace(KINDS["gemma2"], keys={**KINDS["gemma2"].keys, "attn_logit_softcapping": 9.0})),
    "logits": (KINDS["gemma2"], replace(KINDS["gemma2"], keys={**KINDS["gemma2"].keys,
                                                               "final_logit_softcapping": 9.0})),
    "the rotation of halves": (KINDS["qwen2"], replace(KINDS["llama"], extras=BIASES[:3])),
    "the gate": (replace(KINDS["gemma"], tied=False), replace(KINDS["llama"], heads=(4, 1, 32))),
    **{bias: (BIASED, replace(BIASED, extras=tuple(one for one in BIASED.extras if one != bias)))
       for bias in BIASED.extras},
}  # fmt: skip


@pytest.mark.parametrize(("one", "other"), CHANGES.values(), ids=CHANGES)
def test_every_difference_of_a_kind_changes_the_logits(one: Kind, other: Kind, tmp_path: Path) -> None:
    """So that the tests above could fail. spec: FD5.15"""
    found = []
    for number, kind in enumerate((one, other)):
        path = tmp_path / f"{number}.gguf"
        path.write_bytes(parts_of(kind).encoded())
        found.append(PlainLlama(open_llama(path), np.float32, 256).run(LONG[:45]))
    assert np.abs(found[0] - found[1]).max() > 1e-3


@pytest.mark.parametrize("name", [*HEAD_NORMS, *POST_NORMS])
def test_a_norm_that_an_architecture_needs_is_missed(name: str, tmp_path: Path) -> None:
    """spec: FD5.4"""
    parts = parts_of(KINDS["gemma3"])
    del parts.tensors[f"blk.1.{name}"]
    path = tmp_path / "m.gguf"
    path.write_bytes(parts.encoded())
    with pytest.raises(TmmuError, match="the tensor is not in the file") as caught:
        open_llama(path)
    assert caught.value.place == f"blk.1.{name}"


@pytest.mark.parametrize(
    ("kind", "key", "given"),
    [
        ("gemma3", "rope.scaling.type", "yarn"),
        ("gemma2", "attention.sliding_window", 0),
        ("gemma2", "attn_logit_softcapping", 0.0),
        ("qwen2", "attention.sliding_window", 4096),
        ("qwen3", "expert_count", 8),
        ("qwen2-yarn", "rope.scaling.original_context_length", 0),
        ("llama-yarn", "rope.scaling.attn_factor", 0.0),
    ],
)
def test_a_key_that_is_not_computed_is_refused(kind: str, key: str, given: Any, tmp_path: Path) -> None:
    """spec: FD5.5"""
    parts, architecture = parts_of(KINDS[kind]), KINDS[kind].architecture
    parts.keys[f"{architecture}.{key}"] = value(given)
    path = tmp_path / "m.gguf"
    path.write_bytes(parts.encoded())
    with pytest.raises(TmmuError) as caught:
        open_llama(path)
    assert caught.value.place == f"{architecture}.{key}"


def test_windows_follow_their_pattern_and_have_their_own_rotation(tmp_path: Path) -> None:
    """spec: FD5.15"""
    shape = open_llama(write_kind(tmp_path, "gemma3")).shape
    assert [shape.window_of(layer) for layer in range(7)] == [40] * 5 + [0, 40]
    assert [shape.rotation_of(layer) for layer in range(7)] == [1] * 5 + [0, 1]
    shape = open_llama(write_kind(tmp_path, "gemma2")).shape
    assert [shape.window_of(layer) for layer in range(3)] == [40, 0, 40]
    assert [shape.rotation_of(layer) for layer in range(3)] == [0, 0, 0]
    assert shape.embedding_scale == 8.0


def test_yarn_leaves_fast_pairs_and_scales_slow_ones() -> None:
    """The first pair of 64 elements turns many times in 256 positions, the last one never. spec: FD4.5"""
    plain, scaled = Rotation(10000.0, magnitude=1 / (1 + 0.1 * np.log(4.0))), Rotation(10000.0, 0.25)
    yarn = Rotation(10000.0, 0.25, 1.0, float(plain.magnitude), 256)
    rows = [by.compute_rows(100, 3, 64)[1] for by in (Rotation(10000.0), scaled, yarn)]
    assert np.array_equal(rows[2][:, 0], rows[0][:, 0])
    assert np.array_equal(rows[2][:, -1], rows[1][:, -1])
