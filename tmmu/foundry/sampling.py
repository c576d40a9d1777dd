"""Choose the next token from logits: the best one, or one that is drawn.

A draw takes the candidates in the order of llama.cpp: the `top_k` best, of these the fewest whose probabilities reach
`top_p`, and of these one with a probability that follows from `logit / temperature`. Each token takes one number of the
generator PCG64. The logits of a row have the same bits in every batch, so a seed gives the same text with and without
drafts. All arrays are made once for a vocabulary. spec: FD11.1 to FD11.3
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.foundry.failures import InvalidSetting

_SIGN, _LOW = np.array(31, np.int32), np.array(0xFFFFFFFF, np.uint64)
_TOP, _ALL = np.array(-(1 << 31), np.int32), np.array(-1, np.int32)
_HALF = np.array(32, np.uint64)
_ZERO = np.array(0, np.float32)


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are chosen.

    Attributes
    ----------
    temperature
        0 takes the best token. Otherwise logits are divided by it: above 1 rare tokens become more frequent.
    top_k
        The number of best tokens that are candidates; 0: all.
    top_p
        The candidates are the fewest best tokens whose probabilities together reach it; 1: all.
    seed
        The seed of the generator, from 0 to 2^64 - 1.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the options. Raises INVALID_SETTING for one that is out of range, or has no effect."""
        for name, is_right, fix in (
            ("temperature", 0 <= self.temperature < math.inf, "give a finite number from 0"),
            ("top_k", self.top_k >= 0, "give a number of tokens, or 0 for all"),
            ("top_p", 0 < self.top_p <= 1, "give a probability above 0, at most 1"),
            ("seed", 0 <= self.seed < 1 << 64, "give an integer from 0 to 2^64 - 1"),
        ):
            if not is_right:
                raise InvalidSetting(f"{getattr(self, name)!r} is out of range", name, fix)
        if not self.temperature and (self.top_k or self.top_p < 1):
            name = "top_k" if self.top_k else "top_p"
            raise InvalidSetting("it has no effect on the best token", name, "give a temperature above 0 too")


class Sampler:
    """It chooses tokens of a vocabulary, and holds the state of the generator.

    Notes
    -----
    O(vocabulary) time for the best token and with `top_k`, O(vocabulary · log vocabulary) otherwise; 40 bytes for each
    token of the vocabulary, made once.
    """

    def __init__(self, vocabulary: int, options: SamplingOptions = SamplingOptions()) -> None:
        self.options = options
        self._draws = np.random.PCG64(options.seed)
        self._best = np.zeros((), np.intp)
        self._logits = np.zeros(vocabulary, np.float32)
        if options.temperature:
            self._signs = np.zeros(vocabulary, np.int32)
            self._tokens = np.arange(vocabulary, dtype=np.uint64)
            self._keys = np.zeros(vocabulary, np.uint64)
            self._values, self._sums = (np.zeros(vocabulary, np.float64) for _ in range(2))

    def choose(self, logits: NDArray[Any], banned: Iterable[int] = ()) -> int | None:
        """Return a token, never one of `banned`; None if the largest logit is not finite. spec: FD11.1, FD11.2"""
        held = self._logits
        np.copyto(held, logits)
        for token in banned:
            held[token] = -np.inf
        np.argmax(held, out=self._best)
        best = int(self._best)
        if not -np.inf < held[best] < np.inf:
            return None
        return self._draw() if self.options.temperature else best

    def _draw(self) -> int:
        options, vocabulary = self.options, len(self._logits)
        self._order_keys()
        keys, count = self._keys, min(options.top_k or vocabulary, vocabulary)
        if count < vocabulary:
            keys.partition(count)
        keys = keys[:count]
        keys.sort()
        np.bitwise_and(keys, _LOW, out=keys)
        if options.top_p < 1:
            sums = self._sum_weights(keys, 1.0)
            count = min(int(np.searchsorted(sums, options.top_p * sums[-1])) + 1, count)
        sums = self._sum_weights(keys[:count], options.temperature)
        drawn = (self._draws.random_raw() >> 11) * 2.0**-53 * sums[-1]
        last = int(np.searchsorted(sums, sums[-1]))
        return int(keys[min(int(np.searchsorted(sums, drawn, "right")), last)])

    def _order_keys(self) -> None:
        """Write a key for each token, which is smaller for a better token, and of equal logits for the first one.

        The upper half orders the logits, the lower half is the token.
        """
        np.add(self._logits, _ZERO, out=self._logits)  # -0 becomes 0
        bits, signs, keys = self._logits.view(np.int32), self._signs, self._keys
        np.right_shift(bits, _SIGN, out=signs)
        np.bitwise_or(signs, _TOP, out=signs)
        np.bitwise_xor(signs, bits, out=signs)
        np.bitwise_xor(signs, _ALL, out=signs)
        np.copyto(keys, signs.view(np.uint32))
        np.left_shift(keys, _HALF, out=keys)
        np.bitwise_or(keys, self._tokens, out=keys)

    def _sum_weights(self, tokens: NDArray[np.uint64], temperature: float) -> NDArray[np.float64]:
        """Return the running sums of exp((logit - largest) / temperature) over tokens, the best one first."""
        count = len(tokens)
        values, sums = self._values[:count], self._sums[:count]
        np.take(self._logits, tokens.view(np.int64), out=self._signs.view(np.float32)[:count], mode="clip")
        np.copyto(values, self._signs.view(np.float32)[:count])
        np.subtract(values, values[0], out=values)
        np.divide(values, temperature, out=values)
        np.exp(values, out=values)
        np.cumsum(values, out=sums)
        return sums
