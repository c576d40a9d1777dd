"""Damaged GGUF files: they are refused, or what is read lies inside of them. spec: FD5.2"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.gguf_parts import TINY, llama, tiny
from tmmu.core.errors import TmmuError
from tmmu.foundry.shapes import open_llama
from tmmu.foundry.tokenizer import PromptTokenizer

HAND_MADE = llama().encoded()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def drawn(folder: Path) -> bytes:
    return tiny(folder, "q8_0", TINY).read_bytes()


def read(path: Path, data: bytes) -> bool:
    """Whether it is refused as it should be, or read: every byte of its tensors is touched, and its vocabulary used."""
    path.write_bytes(data)
    try:
        file = open_llama(path)
        for weight in file.tensors.values():
            weight.blocks.max(initial=0)
        tokenizer = PromptTokenizer(file)
        tokenizer.decode(tokenizer.encode("a b"))
    except TmmuError as error:
        return (error.code_id, error.file) == ("INVALID_WEIGHTS", str(path))
    return True


changes = st.lists(st.tuples(st.integers(0, 1 << 14), st.binary(min_size=1, max_size=9)), min_size=1, max_size=3)


@given(changes, st.booleans(), st.data())
def test_a_damaged_file_is_refused_or_read_within_its_bytes(
    folder: Path, drawn: bytes, edits: list[tuple[int, bytes]], by_hand: bool, data: st.DataObject
) -> None:
    damaged = bytearray(HAND_MADE if by_hand else drawn)
    for place, found in edits:
        place %= min(len(damaged) - 9, 1400 if by_hand else 1 << 14)
        damaged[place : place + len(found)] = found
    end = data.draw(st.one_of(st.none(), st.integers(0, len(damaged))))
    assert read(folder / "damaged.gguf", bytes(damaged[:end]))


def test_files_that_are_not_damaged_are_read(folder: Path, drawn: bytes) -> None:
    assert read(folder / "whole.gguf", drawn)
    assert open_llama(folder / "whole.gguf").shape.n_layers == TINY.n_layers
