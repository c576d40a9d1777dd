"""Text to tokens and back by the vocabulary of a GGUF file, with the package `tokenizers`.

Two kinds of vocabulary are read, as llama.cpp reads them:

* `llama` (SentencePiece): a space is ▁, and one is put before the text if the file asks for it. Neighbours are merged
  while the vocabulary has their concatenation, the best score first; characters without a piece become bytes. The pairs
  that can be merged follow from the pieces. (Of two pieces with one score llama.cpp merges the one further left first,
  this reader the one with the lower id.)
* `gpt2` (byte-level BPE): a regular expression splits the text, and the file lists the merges.

Control tokens are never found in a text; user-defined ones always are.
"""

from __future__ import annotations

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
SPLITS = {"gpt-2": (_GPT2,), "smollm": (r"\p{N}", _GPT2), "llama-bpe": (_LLAMA3,), "llama3": (_LLAMA3,)}
"""The expressions that split a text before merging, by `tokenizer.ggml.pre`; they apply one after the other."""

WHOLE_PIECES = ("llama-bpe", "llama3")
"""The values of `tokenizer.ggml.pre` for which a part that is a piece stays whole; their texts begin with BOS."""

LONGEST_PIECE, MOST_CHARACTERS = 1024, 1 << 24
"""The limits on the characters of a SentencePiece vocabulary: those of one piece, and those of all pieces together."""

INSTEAD = "give token ids with --prompt-tokens"


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
        try:
            self._tokenizer = self._build_sentence_pieces() if is_spm else self._build_byte_pairs(pre)
            added = [piece for piece, kind in zip(pieces, self._kinds, strict=True) if kind == USER_DEFINED]
            self._tokenizer.add_tokens([tokenizers.AddedToken(piece, normalized=False) for piece in added])
        except Exception as error:  # the package raises the class itself
            if type(error) is not Exception:
                raise
            file.refuse(f"the vocabulary is damaged: {error}", "tokenizer.ggml.merges", INSTEAD)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, with BOS and EOS if the file asks for them.

        Raises INVALID_SETTING if the text cannot be encoded as UTF-8.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidSetting("the prompt is not UTF-8", "--prompt", INSTEAD) from error
        found = self._tokenizer.encode(text, add_special_tokens=False).ids
        return [*self._bos[: self._add_bos], *found, *self._eos[: self._add_eos]]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens; control tokens have none, and bytes that are not UTF-8 become U+FFFD."""
        shown = [token for token in tokens if self._kinds[token] != CONTROL]
        text: str = self._tokenizer.decode(shown, skip_special_tokens=False)
        return text

    def _build_sentence_pieces(self) -> Any:
        """Build the tokenizer from SentencePiece scores: merges into a piece of a better score have an earlier rank."""
        from tokenizers import Tokenizer, decoders, models, normalizers

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
        has_prefix = self._read_flag("add_space_prefix", True)
        tokenizer.normalizer = normalizers.Sequence(
            [*([normalizers.Prepend(SPACE)] if has_prefix else []), normalizers.Replace(" ", SPACE)]
        )
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(),
             *([decoders.Strip(" ", 1, 0)] if has_prefix else [])]
        )  # fmt: skip
        return tokenizer

    def _build_byte_pairs(self, pre: str) -> Any:
        """Build the tokenizer with the merges of the file over bytes, each shown as a character."""
        from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

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
        tokenizer.decoder = decoders.ByteLevel()
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


def _halves(piece: str, ids: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of pieces whose concatenation is `piece`."""
    for cut in range(1, len(piece)):
        if piece[:cut] in ids and piece[cut:] in ids:
            yield piece[:cut], piece[cut:]
