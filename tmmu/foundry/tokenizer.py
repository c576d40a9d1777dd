"""Text to tokens and back by the vocabulary of a GGUF file, with the package `tokenizers`.

Two kinds of vocabulary are read, as llama.cpp reads them:

* `llama` (SentencePiece): a space is ▁, and one is put before the text where the file asks for it; neighbours are
  merged as long as the vocabulary has what they form, the best score first; what has no piece becomes bytes. The pairs
  that can be merged follow from the pieces. (Of two pieces with one score llama.cpp merges the one further left first,
  here the one with the lower id.)
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
"""How a text is split before merging, by `tokenizer.ggml.pre`; one expression after the other."""

WHOLE_PIECES = ("llama-bpe", "llama3")
"""Where a part of the text that is a piece is taken whole, whatever the merges; a text begins with BOS."""

LONGEST_PIECE, MOST_CHARACTERS = 1024, 1 << 24
"""A piece of a SentencePiece vocabulary has at most so many characters, and all together."""

INSTEAD = "give token ids with --prompt-tokens"


class PromptTokenizer:
    """The tokenizer of a file.

    Raises
    ------
    TmmuError
        INVALID_WEIGHTS where the file has no vocabulary, one of another kind, or a damaged one; MISSING_PACKAGE where
        the package tokenizers is not installed.

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
            file.refuse("it is no array of texts", "tokenizer.ggml.tokens", INSTEAD)
        self.pieces: list[str] = pieces
        self._kinds = self._numbers("token_type", NORMAL)
        with require_import("tokenizers", "tokenising a prompt", "foundry"):
            import tokenizers
        is_spm = model == "llama"
        pre = "" if is_spm else self._pre()
        self._add_bos = self._flag("add_bos_token", is_spm or pre in WHOLE_PIECES)
        self._add_eos = self._flag("add_eos_token", False)
        self._bos = self._id("bos", self._add_bos)
        self._eos = self._id("eos", self._add_eos)
        try:
            self._tokenizer = self._sentence_pieces() if is_spm else self._byte_pairs(pre)
            added = [piece for piece, kind in zip(pieces, self._kinds, strict=True) if kind == USER_DEFINED]
            self._tokenizer.add_tokens([tokenizers.AddedToken(piece, normalized=False) for piece in added])
        except Exception as error:  # the package raises the class itself
            if type(error) is not Exception:
                raise
            file.refuse(f"the vocabulary is damaged: {error}", "tokenizer.ggml.merges", INSTEAD)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with BOS and EOS where the file asks for them. INVALID_SETTING if it is no Unicode."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidSetting("the prompt is not UTF-8", "--prompt", INSTEAD) from error
        found = self._tokenizer.encode(text, add_special_tokens=False).ids
        return [*self._bos[: self._add_bos], *found, *self._eos[: self._add_eos]]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; control tokens have none, and bytes that are not UTF-8 become U+FFFD."""
        shown = [token for token in tokens if self._kinds[token] != CONTROL]
        text: str = self._tokenizer.decode(shown, skip_special_tokens=False)
        return text

    def _sentence_pieces(self) -> Any:
        """SentencePiece's merges as ranks: those that form a piece of a better score come first."""
        from tokenizers import Tokenizer, decoders, models, normalizers

        scores = self._numbers("scores", 0)
        if sum(map(len, self.pieces)) > MOST_CHARACTERS or max(map(len, self.pieces)) > LONGEST_PIECE:
            self._file.refuse(
                f"pieces have more than {LONGEST_PIECE} characters, or {MOST_CHARACTERS} together",
                "tokenizer.ggml.tokens", INSTEAD,
            )  # fmt: skip
        ids = {piece: k for k, piece in enumerate(self.pieces)}
        text_ids = {piece: k for piece, k in ids.items() if self._kinds[k] not in (UNKNOWN, CONTROL, BYTE)}
        order = sorted(text_ids.values(), key=lambda k: -float(scores[k]))
        merges = [pair for k in order for pair in _halves(self.pieces[k], text_ids)]
        unknown = next((piece for piece, kind in zip(self.pieces, self._kinds, strict=True) if kind == UNKNOWN), None)
        model = models.BPE(vocab=ids, merges=merges, unk_token=unknown, fuse_unk=False, byte_fallback=True)
        tokenizer = Tokenizer(model)
        has_prefix = self._flag("add_space_prefix", True)
        tokenizer.normalizer = normalizers.Sequence(
            [*([normalizers.Prepend(SPACE)] if has_prefix else []), normalizers.Replace(" ", SPACE)]
        )
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(),
             *([decoders.Strip(" ", 1, 0)] if has_prefix else [])]
        )  # fmt: skip
        return tokenizer

    def _byte_pairs(self, pre: str) -> Any:
        """The file's merges over bytes, each shown as a character."""
        from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

        merges = self._file.metadata.get("tokenizer.ggml.merges")
        parts = [merge.split(" ") for merge in merges] if isinstance(merges, list) else []
        pairs = [(part[0], part[1]) for part in parts if len(part) == 2]
        if not parts or len(pairs) < len(parts):
            self._file.refuse("it is no array of pairs", "tokenizer.ggml.merges", INSTEAD)
        ids = {piece: k for k, piece in enumerate(self.pieces)}
        tokenizer = Tokenizer(models.BPE(vocab=ids, merges=pairs, ignore_merges=pre in WHOLE_PIECES))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [*(pre_tokenizers.Split(Regex(split), "isolated") for split in SPLITS[pre]),
             pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )  # fmt: skip
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    def _pre(self) -> str:
        pre = self._file.metadata.get("tokenizer.ggml.pre")
        if not isinstance(pre, str) or pre not in SPLITS:
            self._file.refuse(f"{pre!r} is none of {', '.join(SPLITS)}", "tokenizer.ggml.pre", INSTEAD)
        return pre

    def _numbers(self, name: str, default: int) -> Any:
        """An array with a number for each piece."""
        key = f"tokenizer.ggml.{name}"
        found = self._file.metadata.get(key)
        if found is None:
            return np.full(len(self.pieces), default)
        if not isinstance(found, np.ndarray) or len(found) != len(self.pieces):
            self._file.refuse("it is no array with a number for each token", key, INSTEAD)
        return found

    def _flag(self, name: str, default: bool) -> bool:
        key = f"tokenizer.ggml.{name}"
        found = self._file.metadata.get(key, default)
        if not isinstance(found, bool):
            self._file.refuse("it is neither true nor false", key, INSTEAD)
        return found

    def _id(self, name: str, is_needed: bool) -> list[int]:
        key = f"tokenizer.ggml.{name}_token_id"
        found = self._file.metadata.get(key)
        if found is None and not is_needed:
            return []
        if not isinstance(found, int) or not 0 <= found < len(self.pieces):
            self._file.refuse("it is no token", key, INSTEAD)
        return [found]


def _halves(piece: str, ids: dict[str, int]) -> Iterator[tuple[str, str]]:
    """The pairs of pieces that form a piece."""
    for cut in range(1, len(piece)):
        if piece[:cut] in ids and piece[cut:] in ids:
            yield piece[:cut], piece[cut:]
