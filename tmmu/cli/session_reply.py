"""A text that `tmmu session` generates: printed as it is made, ended by Ctrl-C. spec: FD8.1, FD11.4"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from tmmu.foundry.sampling import Sampler, SamplingOptions
from tmmu.foundry.session import ModelSession
from tmmu.foundry.text_stream import TextStream


class Reply:
    """One generation of a session.

    Parameters
    ----------
    session
        The session that is continued.
    stream
        The text of the tokens, None if the file has no vocabulary.
    sampling
        How tokens are chosen.
    emit
        It is called with each part of the text; None if nothing is printed.
    sampler
        The state of the draws, if it goes on from an earlier reply.

    Attributes
    ----------
    tokens, text
        The tokens and the text up to now.
    """

    def __init__(
        self, session: ModelSession, stream: TextStream | None, sampling: SamplingOptions,
        emit: Callable[[str], None] | None = None, sampler: Sampler | None = None,
    ) -> None:  # fmt: skip
        self.session, self.stream, self.sampling, self.emit = session, stream, sampling, emit
        self.sampler = sampler or Sampler(session.model.shape.vocab, sampling)
        self.tokens: list[int] = []
        self.text = ""
        self._begun = self._ended = 0.0
        self._first: float | None = None

    def generate(self, prompt: Sequence[int], count: int, ends: frozenset[int], *, ignore_eos: bool = False) -> bool:
        """Generate up to `count` tokens after a prompt, and return whether Ctrl-C ended it.

        A token of `ends` ends the text, or is never chosen if `ignore_eos` is true; a stop string of the stream ends it
        too. Raises as `ModelSession.generate`.
        """
        self._begun = time.perf_counter()
        stop, banned = (frozenset[int](), ends) if ignore_eos else (ends, frozenset[int]())
        going = self.session.generate(prompt, count, stop=stop, banned=banned, sampler=self.sampler)
        is_interrupted = False
        try:
            for token in going:
                self._first = self._first or time.perf_counter()
                self.tokens.append(token)
                if self.stream is not None:
                    self._show(self.stream.push(token))
                    if self.stream.stopped_by is not None:
                        break
        except KeyboardInterrupt:
            is_interrupted = True
        going.close()
        if self.stream is not None:
            self._show(self.stream.finish())
        self._ended = time.perf_counter()
        return is_interrupted

    def _show(self, text: str) -> None:
        self.text += text
        if text and self.emit is not None:
            self.emit(text)

    def list_figures(self) -> dict[str, Any]:
        """Return tokens, text and speed; the text is None if the file has no vocabulary."""
        begun, ended, first, made = self._begun, self._ended, self._first, len(self.tokens)
        return {
            "tokens": self.tokens,
            "text": None if self.stream is None else self.text,
            "stopped_by": None if self.stream is None else self.stream.stopped_by,
            "seed": self.sampling.seed if self.sampling.temperature else None,
            "prompt_seconds": round((first or ended) - begun, 6),
            "seconds": round(ended - begun, 6),
            "tokens_per_second": None if first is None or made < 2 else round((made - 1) / (ended - first), 2),
        }
