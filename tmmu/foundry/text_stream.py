"""The text of tokens while they are made: whole characters, up to the first stop string.

A token may end within a character, or within a stop string. Such bytes are held back until later tokens decide. So the
text does not depend on where tokens end. spec: FD11.4, FD11.5
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from tmmu.foundry.failures import InvalidSetting
from tmmu.foundry.tokenizer import PromptTokenizer


class TextStream:
    """The text of a sequence of tokens, in the parts that are certain after each of them.

    Parameters
    ----------
    tokenizer
        The vocabulary.
    stops
        Texts at which the sequence ends. The first one that is complete ends it, of several the longest; neither it nor
        anything behind it is part of the text.

    Attributes
    ----------
    stopped_by
        The stop string that was found, or None.

    Raises
    ------
    InvalidSetting
        A stop string is empty.
    """

    def __init__(self, tokenizer: PromptTokenizer, stops: Sequence[str] = ()) -> None:
        if "" in stops:
            raise InvalidSetting("it is empty", "stop", "give at least one character")
        self.tokenizer, self.stops = tokenizer, sorted(stops, key=len, reverse=True)
        self.stopped_by: str | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._strips = tokenizer.strips_space
        self._held = ""

    def push(self, token: int) -> str:
        """Return the text that the token makes certain. O(characters · stop strings)."""
        return self._take(self._decoder.decode(self.tokenizer.encode_token(token)))

    def finish(self) -> str:
        """Return the rest of the text after the last token; bytes of an incomplete character become U+FFFD."""
        certain = self._take(self._decoder.decode(b"", True))
        if self.stopped_by is None:
            certain, self._held = certain + self._held, ""
        return certain

    def _take(self, text: str) -> str:
        """Hold text, and return what is certain of it."""
        if self.stopped_by is not None:
            return ""
        if self._strips and text:
            text, self._strips = text.removeprefix(" "), False
        held = self._held + text
        for end in range(len(self._held) + 1, len(held) + 1):
            found = next((stop for stop in self.stops if held.endswith(stop, 0, end)), None)
            if found is not None:
                self.stopped_by, self._held = found, ""
                return held[: end - len(found)]
        most = min(max(map(len, self.stops), default=1) - 1, len(held))
        kept = next((n for n in range(most, 0, -1) if any(stop.startswith(held[-n:]) for stop in self.stops)), 0)
        self._held = held[len(held) - kept :]
        return held[: len(held) - kept]
