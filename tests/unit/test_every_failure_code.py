"""Every failure code, provoked from the command line: one clear line with its file and its code, and nothing written.

A new code of the registry needs a command line here that reaches it.
spec: R5.1, R5.2, C2.6
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.example_models import large
from tests.support.onnx_files import network
from tests.support.text_models import text_model
from tmmu.cli.entry import run
from tmmu.core.errors import REGISTRY
from tmmu.core.vocabulary import Model
from tmmu.examples.broken.editing import changed
from tmmu.examples.llama import SeededLlama, file_pieces
from tmmu.ir import files
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.npy_files import ArrayVectors
from tmmu.mnemosyne.store import VectorStore
from tmmu.mnemosyne.store_blocks import PutOptions
from tmmu.planner import plan_memory
from tmmu.plans import file

CHAIN = text_model("node relu Relu x -> a", "node relu2 Relu a -> y")


def saved(model: Model, name: str = "m.ir.cbor") -> str:
    files.save(model, Path(name))
    return name


def bytes_of(name: str, content: bytes | str) -> str:
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def planned(name: str = "p.plan.cbor") -> str:
    file.save(plan_memory(CHAIN).plan, Path(name))
    return name


def with_shape(*shape: int) -> Model:
    """A model whose first tensor states `shape` with a size that it does not give."""
    first, *others = CHAIN.tensors
    return replace(CHAIN, tensors=(replace(first, shape=shape), *others))


Provoked = tuple[list[str], str]
"""A command line, and what its message must name."""


def configuration() -> Provoked:
    where = bytes_of("arenas.toml", '[arenas.activations]\nroles = ["input", "heap"]\n')
    return ["plan", saved(CHAIN), "--arenas", where], "arenas.toml"


def shards() -> Provoked:
    return ["plan", saved(CHAIN), "--shard", bytes_of("shards.toml", "[mesh]\nmodel = 0\n")], "shards.toml"


def mode() -> Provoked:
    return ["plan", saved(CHAIN), "--mode", "inference", "--preset", "train_full"], "train_full"


def binding() -> Provoked:
    return ["plan", bytes_of("m.onnx", network()), "--dim", "n=2", "--dim", "zz=3"], "m.onnx"


def no_model() -> Provoked:
    return ["plan", bytes_of("m.onnx", b"\x08\x08 no model")], "m.onnx"


def misaligned() -> Provoked:
    view = text_model(
        "node relu Relu x -> a", "node identity Identity a -> v", "node relu2 Relu v -> y", "tensor v f32 2 view a 3",
    )  # fmt: skip
    return ["plan", saved(view)], "m.ir.cbor"


def no_folder() -> Provoked:
    return ["plan", saved(CHAIN), "-o", "no/such/folder/p.cbor"], "no/such/folder/p.cbor"


def overflow() -> Provoked:
    return ["plan", saved(large(8, 1 << 62)), "--layout", "slots"], "m.ir.cbor"


def too_small() -> Provoked:
    text = "[arenas.a]\nroles = ['input','activation','gradient','scratch','parameter','optimizer']\ncapacity = 64\n"
    return ["plan", saved(CHAIN), "--arenas", bytes_of("arenas.toml", text)], "64"


def cycle() -> Provoked:
    return [
        "plan",
        saved(text_model("node add Add x b -> a", "node relu Relu a -> b", "node relu2 Relu b -> y")),
    ], "m.ir.cbor"


def shapes() -> Provoked:
    return ["plan", bytes_of("m.onnx", network())], "--dim"


def collision() -> Provoked:
    token = bytes_of("token", bytes(64))
    return ["plan", saved(large(3, 1 << 61)), "--layout", "hashed", "--address-token", token], "m.ir.cbor"


def no_plan() -> Provoked:
    return ["show", bytes_of("p.cbor", b"no plan")], "p.cbor"


def over_budget() -> Provoked:
    return ["apply", planned(), "--budget", "64"], "p.plan.cbor"


def far_away() -> Provoked:
    moved = changed(plan_memory(CHAIN).plan, "storages", 1, offset=1 << 63)
    file.save(moved, Path("p.plan.cbor"))
    return ["apply", "p.plan.cbor"], "p.plan.cbor"


def no_vectors() -> Provoked:
    return ["mnemosyne", "delta", bytes_of("v.npy", "no array")], "v.npy"


def no_record() -> Provoked:
    return ["trace", "show", bytes_of("run.trace", b"no trace")], "run.trace"


def another_plan() -> Provoked:
    other = file.encode(plan_memory(CHAIN).plan, {"plan_hash": bytes(32)})
    return ["apply", bytes_of("p.plan.cbor", other)], "p.plan.cbor"


def small_budget() -> Provoked:
    content = b"".join(file_pieces(SeededLlama("small", 64, 1, 2, 1, 64, vocab=260), 1))
    return ["session", "plan", bytes_of("m.gguf", content), "--budget", "1KiB"], "--budget"


def no_weights() -> Provoked:
    return ["session", "plan", bytes_of("m.gguf", b"GGUF")], "m.gguf"


def key(number: int = 7, mode: int = 0o600) -> str:
    os.chmod(bytes_of(f"k{number}", bytes([number] * 32)), mode)
    return f"k{number}"


def stored(*, cut: int = 0, flipped: int = 0) -> Provoked:
    """A store of two blocks after an attack: `cut` bytes off its end, or one flipped so many bytes before it."""
    store = VectorStore("S", MasterKey(bytes([7] * 32)))
    store.put(ArrayVectors(np.zeros((4, 2), np.float32)), PutOptions(block=2))
    content = bytearray(Path("S").read_bytes())
    content[-flipped] ^= flipped > 0
    bytes_of("S", bytes(content[: len(content) - cut]))
    return ["mnemosyne", "stat", "S", "--key", key()], "S: "


def no_key() -> Provoked:
    return ["mnemosyne", "stat", "S", "--key", key(mode=0o644)], "k7"


def no_log() -> Provoked:
    return ["mnemosyne", "get", bytes_of("S", b"no log"), "--key", key(), "-o", "w.npy"], "S: "


def another_key() -> Provoked:
    stored()
    return ["mnemosyne", "rekey", "S", "--key", key(8), "--new-key", key(9)], "S: "


def older() -> Provoked:
    command, named = stored()
    old = Path("S").read_bytes()
    stored()
    bytes_of("S", old)
    return command, named


PROVOKE: dict[str, Callable[[], Provoked]] = {
    "INVALID_SETTING": small_budget,
    "INVALID_WEIGHTS": no_weights,
    "INVALID_ARENA_CONFIG": configuration,
    "INVALID_SHARDING": shards,
    "MODE_VIOLATION": mode,
    "INVALID_BINDING": binding,
    "INVALID_IR": no_model,
    "ALIGNMENT_VIOLATION": misaligned,
    "TMMU_ALLOCATION_FAILURE": no_folder,
    "ALLOCATION_OVERFLOW": overflow,
    "ARENA_TOO_SMALL": too_small,
    "LIVENESS_CYCLE": cycle,
    "INVALID_IR_SHAPES": shapes,
    "ADDRESS_COLLISION": collision,
    "INVALID_PLAN": no_plan,
    "INVALID_ADDRESS": far_away,
    "INVALID_RECORD": no_record,
    "INVALID_VECTORS": no_vectors,
    "INVALID_KEY": no_key,
    "INVALID_LOG": no_log,
    "NOT_AUTHENTIC": lambda: stored(flipped=130),
    "ROLLED_BACK": older,
    "WRONG_KEY": another_key,
    "LOG_TRUNCATED": lambda: stored(cut=100),
    "CONTRACT_VIOLATION": over_budget,
    "REPLAY_DIVERGENCE": another_plan,
}


OF_THE_LIBRARY = {
    "USE_AFTER_FREE": "a command keeps nothing of a session or a pool that it has closed or reset",
    "OUT_OF_MEMORY": "a command's context is clamped to the budget, and a test cannot take all memory of the machine",
    "PRIVATE_ACCESS": "a command reads Shared buffers alone",
    "IN_USE": "a command exports no view of a pool",
    "REGION_REFUSED": "a command maps whole pages that a file has",
    "MEMORY_BOUND": "a command maps a window of 32 MiB",
    "REGION_LOST": "it takes another process that truncates a file while a command reads it",
    "DATA_RACE": "no command has threads that share bytes",
}
"""The codes that no command line provokes, with the reason; tests of `tmmu.foundry` and `tmmu.mnemosyne` do."""
OF_PACKAGES = ("MISSING_PACKAGE",)
"""`test_missing_packages` has a command line for each package."""


def test_there_is_a_command_line_for_every_code_but_those_of_the_library() -> None:
    """spec: R5.1"""
    assert sorted([*PROVOKE, *OF_THE_LIBRARY, *OF_PACKAGES]) == sorted(REGISTRY)


@pytest.mark.parametrize("code", PROVOKE)
def test_a_code_is_one_clear_line_and_nothing_is_written(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: R5.1, R5.2, C2.6"""
    monkeypatch.chdir(tmp_path)
    arguments, named = PROVOKE[code]()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    ended = run(arguments)
    said = capsys.readouterr().err
    assert said.endswith(f"[{code}]\n"), said
    assert (ended, said.count("\n")) == (2 if code in ("INVALID_BINDING", "INVALID_SETTING", "INVALID_KEY") else 4, 1)
    assert said.startswith("error: ")
    assert named in said
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
