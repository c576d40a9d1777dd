"""Zeros and debug patterns: the bytes at the address and no other. spec: U3.1 to U3.5"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.refusals import refused
from tests.support.text_models import text_model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.runtime import philox
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.commit import commit_execution
from tmmu.runtime.filling import EXECUTION_MODES, debug_fill_tensor, storage_seed, zero_tensor
from tmmu.runtime.memory import MappedMemory

# The generator. The vectors are those of Random123 (kat_vectors, philox4x32 10).

VECTORS = [
    ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), VECTORS)
def test_the_generator_gives_the_published_words(counter: tuple[int, ...], key: tuple[int, int], words: str) -> None:
    drawn = philox.draws(np.array([counter, counter], np.uint64), key)
    assert [" ".join(f"{int(word):08x}" for word in row) for row in drawn] == [words, words]


def scalar(counter: list[int], key: list[int], width: int, multipliers: tuple[int, int], weyl: tuple[int, int]) -> Any:
    """Philox of four words of any width, a word at a time in Python's integers."""
    mask = (1 << width) - 1
    counter, key = list(counter), list(key)
    for _ in range(10):
        products = (multipliers[0] * counter[0], multipliers[1] * counter[2])
        counter = [
            products[1] >> width ^ counter[1] ^ key[0], products[1] & mask,
            products[0] >> width ^ counter[3] ^ key[1], products[0] & mask,
        ]  # fmt: skip
        key = [(k + w) & mask for k, w in zip(key, weyl, strict=True)]
    return counter


WIDE = (0xD2E7470EE14C6C93, 0xCA5A826395121157), (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
NARROW = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
word64 = st.integers(0, (1 << 64) - 1)


@given(st.lists(word64, min_size=2, max_size=2), st.lists(word64, min_size=4, max_size=4))
def test_the_oracle_is_numpys_generator_where_both_are_of_64_bits(key: list[int], counter: list[int]) -> None:
    """NumPy has Philox4x64-10 alone; it counts before it draws."""
    whole = sum(word << 64 * i for i, word in enumerate(counter))
    bits = np.random.Philox(key=key[0] | key[1] << 64, counter=whole).random_raw(4)
    after = (whole + 1) % (1 << 256)
    expected = scalar([after >> 64 * i & (1 << 64) - 1 for i in range(4)], key, 64, *WIDE)
    assert bits.tolist() == expected


@given(st.integers(0, philox.SEED_END - 1), st.integers(0, 100))
def test_a_pattern_is_what_the_oracle_draws(seed: int, size: int) -> None:
    made = b"".join(piece.tobytes() for piece in philox.pattern(seed, size))
    expected = b""
    for draw in range(-(-size // 16)):
        counter = (seed >> 64) + draw
        words = scalar(
            [counter >> 32 * i & 0xFFFFFFFF for i in range(4)], [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF], 32,
            *NARROW,
        )  # fmt: skip
        expected += b"".join(word.to_bytes(4, "little") for word in words)
    assert made == expected[:size]


@pytest.mark.parametrize("high", [0xFFFFFFFF, (1 << 64) - 1, (1 << 64) - 2])
def test_the_counter_carries_over_all_its_words(high: int) -> None:
    made = np.concatenate(list(philox.pattern(high << 64 | 5, 64)))
    one = high + 1
    words = scalar([one >> 32 * i & 0xFFFFFFFF for i in range(4)], [5, 0], 32, *NARROW)
    assert made[16:32].tobytes() == b"".join(word.to_bytes(4, "little") for word in words)


def test_a_long_pattern_comes_in_pieces_and_is_one_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(philox.pattern(9, 1000)))
    monkeypatch.setattr(philox, "BLOCK", 7)
    pieces = list(philox.pattern(9, 1000))
    assert [len(piece) for piece in pieces] == [112] * 8 + [104]
    assert (np.concatenate(pieces) == whole).all()


@pytest.mark.parametrize("seed", [-1, philox.SEED_END])
def test_a_seed_of_more_than_128_bits_is_refused(seed: int) -> None:
    with pytest.raises(ValueError, match="is not in"):
        list(philox.pattern(seed, 1))
    with MappedMemory.map(plan()) as memory, refused("INVALID_BINDING", "pattern seed"):
        debug_fill_tensor(memory, ("activations", 0), 8, seed, "local")


# Fills.


def plan() -> Any:
    return plan_memory(
        text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y", sizes={"a": 100})
    ).plan


def test_zeros_go_to_the_bytes_at_the_address_and_to_no_other() -> None:
    with MappedMemory.map(plan()) as memory:
        content = memory.arenas[2].content
        for offset, size in ((0, 1), (5, 100), (len(content) - 1, 1), (7, 0), (0, len(content))):
            content[:] = 0xFF
            for _ in range(2):
                zero_tensor(memory, ("activations", offset), size)
                assert not content[offset : offset + size].any()
                assert (np.delete(content, slice(offset, offset + size)) == 0xFF).all()


def test_a_fill_outside_the_arena_writes_nothing() -> None:
    with MappedMemory.map(plan()) as memory:
        content = memory.arenas[2].content
        content[:] = 0xFF
        end = len(content)
        for address, size in ((("activations", end - 1), 2), (("activations", 1 << 63), 1), (("heap", 0), 1)):
            with refused("INVALID_ADDRESS"):
                zero_tensor(memory, address, size)
            with refused("INVALID_ADDRESS"):
                debug_fill_tensor(memory, address, size, 1, "local")
        assert (content == 0xFF).all()


def test_a_refusal_names_the_operator_that_failed() -> None:
    with MappedMemory.map(plan()) as memory:
        for fill, operator in (
            (lambda: zero_tensor(memory, ("heap", 0), 1), "UML_OS.TMMU.ZeroTensor_v1"),
            (lambda: debug_fill_tensor(memory, ("heap", 0), 1, 1, "local"), "UML_OS.TMMU.DebugFillTensor_v1"),
        ):
            with pytest.raises(Exception) as caught:  # noqa: PT011
                fill()
            assert caught.value.record().failure_operator == operator  # type: ignore[attr-defined]


def test_the_pattern_goes_to_the_bytes_at_the_address_and_is_the_same_again() -> None:
    with MappedMemory.map(plan()) as memory:
        content = memory.arenas[2].content
        for _ in range(2):
            content[:] = 0
            debug_fill_tensor(memory, ("activations", 3), 50, 77, "managed")
            assert content[3:53].tobytes() == b"".join(piece.tobytes() for piece in philox.pattern(77, 50))
            assert not np.delete(content, slice(3, 53)).any()


@pytest.mark.parametrize("mode", EXECUTION_MODES)
def test_a_debug_fill_is_refused_in_confidential_and_regulated_mode(mode: str) -> None:
    allowed = mode in ("local", "managed")
    with MappedMemory.map(plan()) as memory:
        content = memory.arenas[2].content
        if allowed:
            debug_fill_tensor(memory, ("activations", 0), 64, 1, mode)
            apply_plan(plan(), execution_mode=mode, debug_seed=1).close()
        else:
            with refused("MODE_VIOLATION", mode):
                debug_fill_tensor(memory, ("activations", 0), 64, 1, mode)
            with refused("MODE_VIOLATION", mode):
                apply_plan(plan(), execution_mode=mode, debug_seed=1)
        assert content.any() == allowed


def test_an_applied_plan_holds_the_patterns_at_once_and_at_each_birth() -> None:
    made = plan()
    s = made.allocation.storages

    def expected(k: int) -> bytes:
        seed = storage_seed(made, 5, k)
        return b"".join(piece.tobytes() for piece in philox.pattern(seed, int(s.bytes[k])))

    with apply_plan(made, debug_seed=5) as execution:
        assert execution.memory.arenas[2].content.any()
        for _ in range(2):
            execution.begin()
            for step in range(len(made.allocation.steps)):
                execution.step(step)
                for k in np.flatnonzero(s.birth == step).tolist():
                    assert execution.memory.bytes(2, int(s.offset[k]), int(s.bytes[k])).tobytes() == expected(k)
            commit_execution(execution)


def test_a_pattern_differs_by_storage_seed_and_token() -> None:
    one, other = (
        plan(),
        plan_memory(text_model("node relu Relu x -> y"), options=PlanOptions(replay_token=bytes(32))).plan,
    )
    seeds = {storage_seed(one, 1, 0), storage_seed(one, 1, 1), storage_seed(one, 2, 0), storage_seed(other, 1, 0)}
    assert len(seeds) == 4
    assert all(0 <= seed < philox.SEED_END for seed in seeds)


def test_persistent_arenas_have_no_pattern() -> None:
    made = plan_memory(text_model("node add Add x w -> y", parameters="w")).plan
    with apply_plan(made, debug_seed=1) as execution:
        assert not execution.memory.arenas[0].content.any()
        assert execution.memory.arenas[2].content.any()
