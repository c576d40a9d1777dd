"""Text while it is made: whole characters, stop strings at any cut into tokens. spec: FD11.4, FD11.5"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.gguf_parts import llama, numbers, texts, tiny, value
from tmmu.core.errors import TmmuError
from tmmu.examples.llama import SeededLlama
from tmmu.foundry.text_stream import TextStream
from tmmu.foundry.tokenizer import PromptTokenizer, read_end_tokens
from tmmu.foundry.weights import open_gguf

TEXT = st.text(st.sampled_from("abé😀\n "), max_size=30)
STOPS = st.lists(st.text(st.sampled_from("abé😀\n "), min_size=1, max_size=4), max_size=3)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> PromptTokenizer:
    shape = SeededLlama("words", 64, 1, 2, 1, 96, vocab=9000)
    return PromptTokenizer(open_gguf(tiny(tmp_path_factory.mktemp("files"), shape=shape)))


def cut(text: str, stops: list[str]) -> tuple[str, str | None]:
    """The text by the definition: up to the stop string that is complete first, of several the longest."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            stop = max(found, key=len)
            return text[: end - len(stop)], stop
    return text, None


def streamed(tokenizer: PromptTokenizer, tokens: list[int], stops: list[str]) -> tuple[str, str | None, list[str]]:
    """The whole text, what stopped it, and its parts."""
    stream = TextStream(tokenizer, stops)
    parts = [stream.push(token) for token in tokens] + [stream.finish()]
    return "".join(parts), stream.stopped_by, parts


@given(TEXT, STOPS, st.booleans())
def test_the_text_ends_at_the_first_stop_string(
    pieces: PromptTokenizer, text: str, stops: list[str], in_bytes: bool
) -> None:
    """Of pieces and of single bytes, which cut characters. spec: FD11.4, FD11.5"""
    tokens = [3 + byte for byte in b" " + text.encode()] if in_bytes else pieces.encode(text)
    found, stopped_by, parts = streamed(pieces, tokens, stops)
    assert (found, stopped_by) == cut(text, stops)
    if not stops:
        assert parts[-1] == ""


def test_text_that_no_stop_string_can_contain_is_not_held_back(pieces: PromptTokenizer) -> None:
    """spec: FD11.4"""
    tokens = [3 + byte for byte in b" tone"]
    stream = TextStream(pieces, ["never", "once"])
    assert [stream.push(token) for token in tokens] == ["", "t", "", "", "o"]
    assert stream.finish() == "ne"
    plain = TextStream(pieces)
    assert "".join(plain.push(token) for token in tokens) == "tone"
    assert plain.finish() == ""


def test_bytes_of_an_incomplete_character_are_replaced_at_the_end(pieces: PromptTokenizer) -> None:
    """And of bytes that are no character at all at once. spec: FD11.4"""
    stream = TextStream(pieces)
    assert [stream.push(3 + byte) for byte in b"a\xe6\x97"] == ["a", "", ""]
    assert stream.finish() == "\ufffd"
    assert pieces.decode([3 + byte for byte in b"a\xff b"]) == "a\ufffd b"


def test_an_empty_stop_string_is_refused(pieces: PromptTokenizer) -> None:
    with pytest.raises(TmmuError, match="stop: it is empty"):
        TextStream(pieces, ["a", ""])


def test_tokens_end_a_text_if_the_file_or_llama_cpp_says_so(tmp_path: Path) -> None:
    """spec: FD11.6"""
    parts = llama()
    words = ["a", "<|im_end|>", "<|eot_id|>", "<end_of_turn>", "b"]
    parts.keys |= {
        "tokenizer.ggml.tokens": texts(words), "tokenizer.ggml.token_type": numbers(5, "i", [1, 3, 1, 3, 1]),
        "tokenizer.ggml.eos_token_id": value(0), "tokenizer.ggml.eot_token_id": value(4),
    }  # fmt: skip
    path = tmp_path / "m.gguf"
    path.write_bytes(parts.encoded())
    assert read_end_tokens(open_gguf(path)) == {0, 1, 3, 4}
    path.write_bytes(llama().encoded())
    assert read_end_tokens(open_gguf(path)) == frozenset()
