"""Text to tokens and back by the vocabulary of a GGUF file, with the package `tokenizers`.

Two kinds of vocabulary are read, as llama.cpp reads them:

* `llama` (SentencePiece): a space is ▁, and one is put before the text if the file asks for it. Neighbours are merged
  while the vocabulary has their concatenation, the best score first; characters without a piece become bytes. The pairs
  that can be merged follow from the pieces. (Of two pieces with one score llama.cpp merges the one further left first,
  this reader the one with the lower id.)
* `gpt2` (byte-level BPE): a regular expression splits the text, and the file lists the merges.

Control tokens are found in a text only if its caller asks for them, as for a rendered chat template; user-defined ones
always are.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tmmu.core.extras import require_import
from tmmu.foundry.failures import InvalidSetting
from tmmu.foundry.weights import GgufFile

SPACE = "▁"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+"
    r"|[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLITS = {
    "gpt-2": (_GPT2,), "smollm": (r"\p{N}", _GPT2), "llama-bpe": (_LLAMA3,), "llama3": (_LLAMA3,),
    "qwen2": (_QWEN2,), "deepseek-r1-qwen": (_QWEN2,), "tekken": (_TEKKEN,),
}  # fmt: skip
"""The expressions that split a text before merging, by `tokenizer.ggml.pre`; they apply one after the other."""

WHOLE_PIECES = ("llama-bpe", "llama3", "tekken")
"""The values of `tokenizer.ggml.pre` for which a part that is a piece stays whole; their texts begin with BOS."""

LONGEST_PIECE, MOST_CHARACTERS = 1024, 1 << 24
"""The limits on the characters of a SentencePiece vocabulary: those of one piece, and those of all pieces together."""

INSTEAD = "give token ids with --prompt-tokens"

END_KEYS = ("eos", "eot", "eom")
"""The keys `tokenizer.ggml.*_token_id` of tokens that end a text, a turn or a message."""

END_PIECES = frozenset({
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>",
    "<｜end▁of▁sentence｜>", "<end_of_utterance>",
})  # fmt: skip
"""The control tokens that llama.cpp takes for the end of a text, whether the file names them or not."""


def read_end_tokens(file: GgufFile) -> frozenset[int]:
    """Return the tokens of a file that end a text. O(vocabulary). spec: FD11.6"""
    named = (file.metadata.get(f"tokenizer.ggml.{name}_token_id") for name in END_KEYS)
    found = {token for token in named if isinstance(token, int) and not isinstance(token, bool)}
    pieces, kinds = (file.metadata.get(f"tokenizer.ggml.{name}") for name in ("tokens", "token_type"))
    if isinstance(pieces, list) and isinstance(kinds, np.ndarray):
        pairs = enumerate(zip(pieces, kinds.tolist(), strict=False))
        found |= {token for token, (piece, kind) in pairs if kind == CONTROL and piece in END_PIECES}
    return frozenset(found)


class PromptTokenizer:
    """The tokenizer of a file.

    Raises
    ------
    TmmuError
        INVALID_WEIGHTS if the file has no vocabulary, one of another kind, or a damaged one; MISSING_PACKAGE if the
        package tokenizers is not installed.

    Notes
    -----
    O(characters of the vocabulary · longest piece) time. spec: FD5.8 to FD5.10
    """

    def __init__(self, file: GgufFile) -> None:
        self._file = file
        model = file.metadata.get("tokenizer.ggml.model")
        if model not in ("llama", "gpt2"):
            what = "the file has no vocabulary" if model is None else f"{model!r} is neither llama nor gpt2"
            file.refuse(what, "tokenizer.ggml.model", INSTEAD)
        pieces = file.metadata.get("tokenizer.ggml.tokens")
        if not isinstance(pieces, list) or not pieces:
            file.refuse("it is not an array of texts", "tokenizer.ggml.tokens", INSTEAD)
        self.pieces: list[str] = pieces
        self._kinds = self._read_numbers("token_type", NORMAL)
        with require_import("tokenizers", "tokenising a prompt", "foundry"):
            import tokenizers
        is_spm = model == "llama"
        pre = "" if is_spm else self._read_pre()
        self._add_bos = self._read_flag("add_bos_token", is_spm or pre in WHOLE_PIECES)
        self._add_eos = self._read_flag("add_eos_token", False)
        self._bos = self._read_id("bos", self._add_bos)
        self._eos = self._read_id("eos", self._add_eos)
        self._unknown = self._read_id("unknown", False)
        self._is_spm = is_spm
        self.strips_space: bool = is_spm and self._read_flag("add_space_prefix", True)
        special = {piece: k for k, piece in enumerate(pieces) if self._kinds[k] in (UNKNOWN, CONTROL) and piece}
        self._special = special
        self._specials = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))) or "(?!)")
        try:
            self._tokenizer = self._build_sentence_pieces() if is_spm else self._build_byte_pairs(pre)
            added = [piece for piece, kind in zip(pieces, self._kinds, strict=True) if kind == USER_DEFINED]
            self._tokenizer.add_tokens([tokenizers.AddedToken(piece, normalized=False) for piece in added])
        except Exception as error:  # the package raises the class itself
            if type(error) is not Exception:
                raise
            file.refuse(f"the vocabulary is damaged: {error}", "tokenizer.ggml.merges", INSTEAD)

    def encode(self, text: str, *, has_controls: bool = False) -> list[int]:
        """Return the tokens of a text, with BOS and EOS if the file asks for them.

        If `has_controls` is true, control tokens are found in the text, the longest first, and a BOS with which it
        begins is not repeated. Raises INVALID_SETTING if the text cannot be encoded as UTF-8.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidSetting("the prompt is not UTF-8", "--prompt", INSTEAD) from error
        found: list[int] = []
        at = 0
        for control in self._specials.finditer(text) if has_controls else ():
            found += self._encode_plain(text[at : control.start()])
            found.append(self._special[control.group()])
            at = control.end()
        found += self._encode_plain(text[at:])
        begin = self._bos[: self._add_bos and not (has_controls and found[:1] == self._bos)]
        return [*begin, *found, *([] if has_controls else self._eos[: self._add_eos])]

    def _encode_plain(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids if text else []
        return found

    def find_control(self, text: str) -> str | None:
        """Return the first control token whose text is in a text, or None."""
        found = self._specials.search(text)
        return found and found.group()

    def special_piece(self, name: str) -> str:
        """Return the text of the token `bos`, `eos` or `unknown`, "" if the file names none."""
        ids = {"bos": self._bos, "eos": self._eos, "unknown": self._unknown}[name]
        return self.pieces[ids[0]] if ids else ""

    def encode_token(self, token: int) -> bytes:
        """Return the bytes of a token in a text; a control token has none."""
        piece, kind = self.pieces[token], self._kinds[token]
        if kind == CONTROL:
            return b""
        if kind == USER_DEFINED:
            return piece.encode()
        if self._is_spm:
            is_byte = kind == BYTE and _BYTE.fullmatch(piece)
            return bytes([int(piece[3:5], 16)]) if is_byte else piece.replace(SPACE, " ").encode()
        return b"".join(_BYTE_OF.get(character) or character.encode() for character in piece)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens; control tokens have none, and bytes that are not UTF-8 become U+FFFD."""
        text = codecs.decode(b"".join(map(self.encode_token, tokens)), "utf-8", "replace")
        return text.removeprefix(" ") if self.strips_space else text

    def _build_sentence_pieces(self) -> Any:
        """Build the tokenizer from SentencePiece scores: merges into a piece of a better score have an earlier rank."""
        from tokenizers import Tokenizer, models, normalizers

        scores = self._read_numbers("scores", 0)
        if sum(map(len, self.pieces)) > MOST_CHARACTERS or max(map(len, self.pieces)) > LONGEST_PIECE:
            self._file.refuse(
                f"the pieces are too long: at most {LONGEST_PIECE} characters each and "
                f"{MOST_CHARACTERS} together are read",
                "tokenizer.ggml.tokens", INSTEAD,
            )  # fmt: skip
        ids = {piece: k for k, piece in enumerate(self.pieces)}
        text_ids = {piece: k for piece, k in ids.items() if self._kinds[k] not in (UNKNOWN, CONTROL, BYTE)}
        order = sorted(text_ids.values(), key=lambda k: -float(scores[k]))
        merges = [pair for k in order for pair in _halves(self.pieces[k], text_ids)]
        unknown = next((piece for piece, kind in zip(self.pieces, self._kinds, strict=True) if kind == UNKNOWN), None)
        model = models.BPE(vocab=ids, merges=merges, unk_token=unknown, fuse_unk=False, byte_fallback=True)
        tokenizer = Tokenizer(model)
        tokenizer.normalizer = normalizers.Sequence(
            [*([normalizers.Prepend(SPACE)] if self.strips_space else []), normalizers.Replace(" ", SPACE)]
        )
        return tokenizer

    def _build_byte_pairs(self, pre: str) -> Any:
        """Build the tokenizer with the merges of the file over bytes, each shown as a character."""
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers

        merges = self._file.metadata.get("tokenizer.ggml.merges")
        parts = [merge.split(" ") for merge in merges] if isinstance(merges, list) else []
        pairs = [(part[0], part[1]) for part in parts if len(part) == 2]
        if not parts or len(pairs) < len(parts):
            self._file.refuse("it is not an array of pairs", "tokenizer.ggml.merges", INSTEAD)
        ids = {piece: k for k, piece in enumerate(self.pieces)}
        tokenizer = Tokenizer(models.BPE(vocab=ids, merges=pairs, ignore_merges=pre in WHOLE_PIECES))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [*(pre_tokenizers.Split(Regex(split), "isolated") for split in SPLITS[pre]),
             pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )  # fmt: skip
        return tokenizer

    def _read_pre(self) -> str:
        pre = self._file.metadata.get("tokenizer.ggml.pre")
        if not isinstance(pre, str) or pre not in SPLITS:
            self._file.refuse(f"{pre!r} is not one of {', '.join(SPLITS)}", "tokenizer.ggml.pre", INSTEAD)
        return pre

    def _read_numbers(self, name: str, default: int) -> Any:
        """Return an array with a number for each piece; `default` for each if the file has none."""
        key = f"tokenizer.ggml.{name}"
        found = self._file.metadata.get(key)
        if found is None:
            return np.full(len(self.pieces), default)
        if not isinstance(found, np.ndarray) or len(found) != len(self.pieces):
            self._file.refuse("it is not an array with a number for each token", key, INSTEAD)
        return found

    def _read_flag(self, name: str, default: bool) -> bool:
        key = f"tokenizer.ggml.{name}"
        found = self._file.metadata.get(key, default)
        if not isinstance(found, bool):
            self._file.refuse("it is neither true nor false", key, INSTEAD)
        return found

    def _read_id(self, name: str, is_needed: bool) -> list[int]:
        key = f"tokenizer.ggml.{name}_token_id"
        found = self._file.metadata.get(key)
        if found is None and not is_needed:
            return []
        if not isinstance(found, int) or not 0 <= found < len(self.pieces):
            self._file.refuse("it is not a token of the vocabulary", key, INSTEAD)
        return [found]


_BYTE = re.compile("<0x[0-9A-Fa-f]{2}>")
"""The piece of a byte in a vocabulary of the kind `llama`."""

_SHOWN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = [byte for byte in range(256) if byte not in _SHOWN]
_BYTE_OF = {chr(byte): bytes([byte]) for byte in _SHOWN} | {
    chr(256 + number): bytes([byte]) for number, byte in enumerate(_HIDDEN)
}
"""The byte of each character in the pieces of a vocabulary of the kind `gpt2`."""


def _halves(piece: str, ids: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of pieces whose concatenation is `piece`."""
    for cut in range(1, len(piece)):
        if piece[:cut] in ids and piece[cut:] in ids:
            yield piece[:cut], piece[cut:]
