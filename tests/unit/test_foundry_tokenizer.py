"""Prompts and tokens: merges by their definition, text and back, what is refused. spec: FD5.8 to FD5.10"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.gguf_parts import Parts, llama, numbers, texts, tiny, value
from tmmu.core.errors import TmmuError
from tmmu.examples.llama import SeededLlama
from tmmu.foundry.tokenizer import WHOLE_PIECES, PromptTokenizer
from tmmu.foundry.weights import open_gguf

SHAPE = SeededLlama("words", 64, 1, 2, 1, 96, vocab=9000)
TEXT = st.text(st.one_of(st.sampled_from("etaoin shr"), st.characters(exclude_categories=["Cs"]))).filter(
    lambda text: "▁" not in text
)
BYTES = [chr(b) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255 else None for b in range(256)]
SHOWN = [found or chr(256 + BYTES[:b].count(None)) for b, found in enumerate(BYTES)]
"""GPT-2's character for each byte."""


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> PromptTokenizer:
    return PromptTokenizer(open_gguf(tiny(tmp_path_factory.mktemp("files"), shape=SHAPE)))


def naive(pieces: list[str], text: str) -> list[int]:
    """SentencePiece by its definition: of all neighbours merge those of the best score, which here is the lowest id."""
    ids = {piece: k for k, piece in enumerate(pieces)}
    found = list("▁" + text.replace(" ", "▁")) if text else []
    while True:
        pairs = [(ids[a + b], k) for k, (a, b) in enumerate(pairwise(found)) if a + b in ids]
        if not pairs:
            break
        k = min(pairs)[1]
        found[k : k + 2] = [found[k] + found[k + 1]]
    tokens = []
    for piece in found:
        tokens += [ids[piece]] if piece in ids else [ids[f"<0x{byte:02X}>"] for byte in piece.encode()]
    return tokens


@given(TEXT)
def test_neighbours_of_the_best_score_are_merged(words: PromptTokenizer, text: str) -> None:
    """spec: FD5.8, FD5.9"""
    assert words.encode(text) == [1, *naive(words.pieces, text)]


@given(TEXT)
def test_tokens_become_the_text_again(words: PromptTokenizer, text: str) -> None:
    assert words.decode([*words.encode(text), 2]) == text


def test_control_tokens_are_not_found_in_a_text(words: PromptTokenizer) -> None:
    """spec: FD5.8"""
    assert not {0, 1, 2} & set(words.encode("<s> </s><unk>")[1:])


def test_a_prompt_that_is_no_unicode_is_refused(words: PromptTokenizer) -> None:
    with pytest.raises(TmmuError) as caught:
        words.encode("\udcff")
    assert caught.value.place == "--prompt"


def byte_level(merges: list[str], further: dict[str, bytes]) -> Parts:
    """A file of the kind `gpt2`: the bytes, what the merges form, a control token, and one that the user defined."""
    parts = llama()
    pieces = [*SHOWN, *(merge.replace(" ", "") for merge in merges), "<|end|>", "<|x|>"]
    parts.keys |= {
        "tokenizer.ggml.model": value("gpt2"), "tokenizer.ggml.pre": value("gpt-2"),
        "tokenizer.ggml.tokens": texts(pieces), "tokenizer.ggml.merges": texts(merges),
        "tokenizer.ggml.token_type": numbers(5, "i", [1] * (len(pieces) - 2) + [3, 4]), **further,
    }  # fmt: skip
    return parts


MERGES = ["t h", "th e", "Ġ the", "a n", "i n", "in g", "Ġ a", "Ġa n", "1 2", "12 3", "Ġ Ġ"]


def read(parts: Parts, folder: Path) -> PromptTokenizer:
    path = folder / "m.gguf"
    path.write_bytes(parts.encoded())
    return PromptTokenizer(open_gguf(path))


def merged(part: str, merges: list[str]) -> list[str]:
    """Byte-level BPE by its definition: the first merge of the list that applies, everywhere, until none does."""
    found = [SHOWN[byte] for byte in part.encode()]
    while True:
        pairs = [(merges.index(f"{a} {b}"), k) for k, (a, b) in enumerate(pairwise(found))
                 if f"{a} {b}" in merges]  # fmt: skip
        if not pairs:
            return found
        k = min(pairs)[1]
        found[k : k + 2] = [found[k] + found[k + 1]]


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?[a-zA-Z]+| ?[0-9]+| ?[^\sa-zA-Z0-9]+|\s+(?!\S)|\s+"
SPLITS = {
    "gpt-2": lambda text: re.findall(GPT2, text),
    "smollm": lambda text: [part for run in re.split(r"([0-9])", text) for part in re.findall(GPT2, run)],
    "llama-bpe": lambda text: re.findall(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\na-zA-Z0-9]?[a-zA-Z]+|[0-9]{1,3}| ?[^\sa-zA-Z0-9]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+", text,
    ),
    "qwen2": lambda text: re.findall(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\na-zA-Z0-9]?[a-zA-Z]+|[0-9]| ?[^\sa-zA-Z0-9]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+", text,
    ),
    "tekken": lambda text: re.findall(
        r"[^\r\na-zA-Z0-9]?[A-Z]*[a-z]+|[^\r\na-zA-Z0-9]?[A-Z]+[a-z]*|[0-9]| ?[^\sa-zA-Z0-9]+[\r\n/]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+", text,
    ),
}  # fmt: skip


@pytest.mark.parametrize("pre", SPLITS)
def test_bytes_are_merged_within_the_parts_of_a_text(pre: str, tmp_path: Path) -> None:
    """On ASCII, where Python's expressions have the same classes. spec: FD5.8"""
    tokenizer = read(
        byte_level(MERGES, {"tokenizer.ggml.pre": value(pre), "tokenizer.ggml.bos_token_id": value(267)}), tmp_path
    )
    ids = {piece: k for k, piece in enumerate(tokenizer.pieces)}
    begin = [267] if pre in WHOLE_PIECES else []

    @given(st.lists(st.one_of(
        st.sampled_from(["the", " the", "an", " an", "  ", "ing", "123", "'S", "'ll", "\n", ".\n"]),
        st.characters(max_codepoint=126, min_codepoint=32),
    )).map("".join))  # fmt: skip
    def check(text: str) -> None:
        wanted = []
        for part in SPLITS[pre](text):
            whole = "".join(SHOWN[byte] for byte in part.encode())
            is_whole = pre in WHOLE_PIECES and whole in ids
            wanted += [ids[piece] for piece in ([whole] if is_whole else merged(part, MERGES))]
        assert tokenizer.encode(text) == begin + wanted
        assert tokenizer.decode(begin + wanted) == text

    check()


def test_a_user_defined_token_is_found_in_a_text(tmp_path: Path) -> None:
    tokenizer = read(byte_level(MERGES, {}), tmp_path)
    assert tokenizer.encode("a<|x|>") == [SHOWN.index("a"), len(tokenizer.pieces) - 1]
    assert len(tokenizer.encode("<|end|>")) > 1


def test_a_part_that_is_a_piece_is_taken_whole_where_merges_do_not_lead_to_it(tmp_path: Path) -> None:
    """As llama.cpp does it for Llama 3."""
    found = []
    for pre in ("gpt-2", "llama-bpe"):
        parts = byte_level(
            [*MERGES, "z y"], {"tokenizer.ggml.pre": value(pre), "tokenizer.ggml.bos_token_id": value(0)}
        )
        parts.keys["tokenizer.ggml.merges"] = texts(MERGES)
        found.append(len(read(parts, tmp_path).encode("zy")))
    assert found == [2, 1 + 1]


@pytest.mark.parametrize(
    ("flags", "around"),
    [
        ({}, ([1], [])),
        ({"bos": False}, ([], [])),
        ({"eos": True}, ([1], [2])),
        ({"bos": False, "eos": True}, ([], [2])),
    ],
)
def test_begin_and_end_are_added_where_the_file_asks_for_them(
    flags: dict[str, bool], around: tuple[list[int], list[int]], tmp_path: Path
) -> None:
    """spec: FD5.9"""
    parts = sentence_pieces()
    parts.keys |= {f"tokenizer.ggml.add_{name}_token": value(flag) for name, flag in flags.items()}
    tokenizer = read(parts, tmp_path)
    assert tokenizer.encode("a") == [*around[0], 5, *around[1]]
    assert tokenizer.encode("") == [*around[0], *around[1]]


def sentence_pieces() -> Parts:
    """Seven pieces, of the kind `llama`."""
    parts = llama()
    parts.keys |= {
        "tokenizer.ggml.model": value("llama"),
        "tokenizer.ggml.tokens": texts(["<unk>", "<s>", "</s>", "▁", "a", "▁a", "b"]),
        "tokenizer.ggml.scores": numbers(6, "f", [0.0, 0.0, 0.0, -3.0, -2.0, -1.0, -4.0]),
        "tokenizer.ggml.token_type": numbers(5, "i", [2, 3, 3, 1, 1, 1, 1]),
        "tokenizer.ggml.bos_token_id": value(1), "tokenizer.ggml.eos_token_id": value(2),
    }  # fmt: skip
    return parts


def test_a_text_without_the_space_before_it(tmp_path: Path) -> None:
    parts = sentence_pieces()
    parts.keys["tokenizer.ggml.add_space_prefix"] = value(False)
    tokenizer = read(parts, tmp_path)
    assert tokenizer.encode("a ab") == [1, 4, 5, 6]
    assert tokenizer.decode([4, 5, 6]) == "a ab"


def test_a_character_without_piece_and_bytes_is_unknown(tmp_path: Path) -> None:
    assert read(sentence_pieces(), tmp_path).encode("aé") == [1, 5, 0]


def spm(name: str, given: bytes | None) -> Callable[[], Parts]:
    """The kind `llama` with another value of a key, or without it."""

    def made() -> Parts:
        parts = sentence_pieces()
        parts.keys.pop(f"tokenizer.ggml.{name}")
        parts.keys |= {} if given is None else {f"tokenizer.ggml.{name}": given}
        return parts

    return made


def bpe(name: str, given: bytes) -> Callable[[], Parts]:
    return lambda: byte_level(MERGES, {f"tokenizer.ggml.{name}": given})


@pytest.mark.parametrize(
    ("made", "place"),
    [
        (llama, "model"),
        (spm("model", value("bert")), "model"),
        (spm("model", value(1)), "model"),
        (spm("tokens", None), "tokens"),
        (spm("tokens", numbers(5, "i", [1])), "tokens"),
        (spm("tokens", texts([])), "tokens"),
        (spm("tokens", texts(["a" * 1025] * 7)), "tokens"),
        (spm("scores", numbers(6, "f", [0.0])), "scores"),
        (spm("scores", texts(["a"] * 7)), "scores"),
        (spm("token_type", numbers(5, "i", [1] * 8)), "token_type"),
        (spm("bos_token_id", None), "bos_token_id"),
        (spm("bos_token_id", value(7)), "bos_token_id"),
        (spm("eos_token_id", value("a")), "eos_token_id"),
        (bpe("pre", value("falcon")), "pre"),
        (bpe("pre", value(1)), "pre"),
        (bpe("merges", texts(["a b c"])), "merges"),
        (bpe("merges", texts(["z z"])), "merges"),
        (bpe("merges", value(1)), "merges"),
        (bpe("add_bos_token", value(1)), "add_bos_token"),
        (bpe("add_bos_token", value(True)), "bos_token_id"),
    ],
)
def test_a_vocabulary_that_cannot_be_used_is_refused(made: Callable[[], Parts], place: str, tmp_path: Path) -> None:
    """spec: FD5.10"""
    with pytest.raises(TmmuError) as caught:
        read(made(), tmp_path)
    assert (caught.value.code_id, caught.value.place) == ("INVALID_WEIGHTS", f"tokenizer.ggml.{place}")
    assert "--prompt-tokens" in str(caught.value)


def test_packages_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(sentence_pieces().encoded())
    file = open_gguf(path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(TmmuError, match=r"MISSING_PACKAGE") as caught:
        PromptTokenizer(file)
    assert "pip install 'gguf>=" in str(caught.value)
    monkeypatch.setitem(sys.modules, "gguf.constants", None)
    with pytest.raises(TmmuError, match=r"MISSING_PACKAGE") as caught:
        open_gguf(path)
    assert "pip install 'gguf>=" in str(caught.value)
