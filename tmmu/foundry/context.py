"""How many tokens a session may have, and the memory that caches of keys and values share.

A context is at most what the model, the user and the budget allow; where the budget allows less, it is clamped, and a
warning says by how much. Capacities are multiples of 128 tokens: rounded up from what is wanted, down against the
budget, which the steady state therefore never exceeds. spec: FD3.1 to FD3.8
"""

from __future__ import annotations

import itertools
import logging
import threading
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tmmu.foundry.environment import KV_MEMORY_BUDGET_MB, MAX_CONTEXT_LEN, MIB, Settings
from tmmu.foundry.failures import InvalidSetting, OutOfMemory

BLOCK = 128
"""Capacities are multiples of so many tokens."""
INITIAL = 2048
"""The tokens that a cache has room for at first, and the maximum where nothing states one."""
ELEMENT = 2
"""Bytes of an element of the cache and of the tables of positions (F16)."""

Layout = Literal["compact", "expanded"]

logger = logging.getLogger("tmmu.foundry")


def rounded_up(tokens: int) -> int:
    """The multiple of 128 at or above, at least 128.

    >>> [rounded_up(tokens) for tokens in (0, 100, 128, 129, 3000)]
    [128, 128, 128, 256, 3072]
    """
    return max(1, -(-tokens // BLOCK)) * BLOCK


def rounded_down(tokens: int) -> int:
    """The multiple of 128 at or below.

    >>> [rounded_down(tokens) for tokens in (127, 200, 4681)]
    [0, 128, 4608]
    """
    return tokens // BLOCK * BLOCK


@dataclass(frozen=True)
class KvShape:
    """What a cache of keys and values holds for each token. ValueError for sizes that do not fit.

    Compact keeps the heads that keys and values have; expanded repeats them for all heads of queries.

    >>> KvShape(layers=4, heads=8, kv_heads=2, head_dim=64).bytes_per_token * 2048
    4194304
    >>> KvShape(4, 8, 2, 64, "expanded").bytes_per_token * 2048
    16777216
    """

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    layout: Layout = "compact"

    def __post_init__(self) -> None:
        if min(self.layers, self.heads, self.kv_heads, self.head_dim) < 1 or self.heads % self.kv_heads:
            raise ValueError(f"{self}: sizes are positive, and heads a multiple of kv_heads")
        if self.head_dim % 2:
            raise ValueError(f"{self}: head_dim is even, because positions rotate pairs")
        if self.layout not in ("compact", "expanded"):
            raise ValueError(f"{self}: a layout is compact or expanded")

    @property
    def cache_heads(self) -> int:
        """Rows of a buffer of the cache."""
        return self.kv_heads if self.layout == "compact" else self.heads

    @property
    def row_bytes(self) -> int:
        """Bytes of a token in the row of one head."""
        return self.head_dim * ELEMENT

    @property
    def bytes_per_token(self) -> int:
        """Keys and values of all layers and heads."""
        return 2 * self.layers * self.cache_heads * self.row_bytes

    def rope_bytes(self, capacity: int) -> int:
        """Bytes of one of the two tables of positions (cos, sin), which no budget counts."""
        return capacity * (self.head_dim // 2) * ELEMENT


class Clamp(NamedTuple):
    """That a context became shorter: what was asked for, what there is, both in tokens, and why."""

    asked: int
    given: int
    why: str


@dataclass(frozen=True)
class ContextConfig:
    """The context of a session. All in tokens but for `budget` and `bytes_per_token`.

    `model_maximum` is 0 and `requested` none where nothing states them. `maximum` is what is asked for: the least of
    what model, request and hard cap state. `limit` is the largest capacity that the cache may grow to, `allocated` the
    one that it begins with. `source` is what states the budget. `strict` is for the `KvBudget` as well.
    """

    model_maximum: int
    requested: int | None
    maximum: int
    budget: int
    source: str
    bytes_per_token: int
    limit: int
    allocated: int
    strict: bool
    clamps: tuple[Clamp, ...]

    @property
    def usable(self) -> int:
        """The longest sequence: the least of maximum and limit."""
        return min(self.maximum, self.limit)

    @property
    def budget_tokens(self) -> int:
        """How many tokens the budget holds, before they are rounded down."""
        return self.budget // self.bytes_per_token

    @classmethod
    def of(
        cls,
        bytes_per_token: int,
        working_set: int,
        *,
        model_maximum: int = 0,
        requested: int | None = None,
        budget: int | None = None,
        settings: Settings | None = None,
        initial: int = INITIAL,
        strict: bool = False,
    ) -> ContextConfig:
        """The context that model, request, settings and budget allow. Each clamp is logged as a warning.

        Parameters
        ----------
        bytes_per_token
            Of `KvShape`.
        working_set
            The device's recommended working set in bytes, half of which is the budget where none is stated.
        model_maximum, requested
            In tokens; 0 and none: not stated. Where nothing is stated, the maximum is 2048.
        budget
            Bytes, in place of the variable's.
        initial
            Tokens to begin with.
        strict
            Whether old and new buffers of a growth must fit into the budget together. The limit is then the capacity
            that can be reached however the cache grows: a block more than half of the budget, rounded down, or the
            capacity that it begins with.

        Raises
        ------
        InvalidSetting
            A number is not positive, or the budget holds less than 128 tokens.

        >>> config = ContextConfig.of(524288, 0, model_maximum=4096, budget=100 << 20)
        >>> config.budget_tokens, config.usable
        (200, 128)
        """
        settings = settings or Settings()
        for name, value in (("--context", requested), ("--budget", budget), ("the initial capacity", initial)):
            if value is not None and value < 1:
                raise InvalidSetting(f"{value} is not positive", name, "state a number from 1")
        source = "--budget"
        if budget is None and settings.kv_budget_mib is not None:
            budget, source = settings.kv_budget_mib * MIB, KV_MEMORY_BUDGET_MB
        elif budget is None:
            budget, source = working_set // 2, "Auto (half of the recommended working set)"
        stated = {"the model's maximum": model_maximum, MAX_CONTEXT_LEN: settings.max_context, "the request": requested}
        known = {name: tokens for name, tokens in stated.items() if tokens} or {"the default": INITIAL}
        by, maximum = min(known.items(), key=lambda item: item[1])
        clamps = [] if requested is None or requested <= maximum else [Clamp(requested, maximum, f"{by} is {maximum}")]
        held = budget // bytes_per_token
        holds = f"{source}: {budget} bytes hold {held} tokens of {bytes_per_token} bytes"
        limit = rounded_down(held)
        if limit < BLOCK:
            raise InvalidSetting(
                f"{budget} bytes hold {held} tokens of {bytes_per_token} bytes, fewer than {BLOCK}", source,
                f"allow {bytes_per_token * BLOCK} bytes or more for the cache",
            )  # fmt: skip
        if limit < maximum:
            clamps.append(Clamp(maximum, limit, f"{holds}, rounded down to a multiple of {BLOCK}"))
        limit = min(limit, rounded_up(maximum))
        allocated = min(limit, rounded_up(min(initial, maximum)))
        if strict:
            reached = max(allocated, min(limit, rounded_down((held + BLOCK) // 2)))
            if reached < min(limit, maximum):
                why = f"{holds}, and while the cache grows, old and new share them (strict)"
                clamps.append(Clamp(min(limit, maximum), reached, why))
            limit = reached
        for clamp in clamps:
            logger.warning("context clamped from %d to %d tokens: %s", *clamp)
        return cls(
            model_maximum, requested, maximum, budget, source, bytes_per_token, limit, allocated, strict, tuple(clamps)
        )


_numbers = itertools.count(1)


class KvBudget:
    """Bytes that the caches of several sessions share. Thread safe; every call is O(1).

    `reserved` are those of the caches that stand, and of those that growing caches are about to have: never more
    than `total`. `transient` are those of old buffers beside new ones until they are given back. `peak` is the most
    that `reserved` and `transient` were together: at most twice `total`, and in strict mode at most `total`.

    Parameters
    ----------
    total
        Bytes.
    strict
        Whether `transient` counts against `total` as well.
    """

    def __init__(self, total: int, strict: bool = False) -> None:
        self.total, self.strict = total, strict
        self.number = next(_numbers)
        """Which budget of the process it is, for logs."""
        self.reserved = self.transient = self.peak = 0
        self.lock = threading.RLock()
        """Held while what was reserved is logged, so that the log has the real order."""

    @property
    def held(self) -> int:
        """Bytes of all buffers, old ones too."""
        return self.reserved + self.transient

    def reserve(self, old: int, least: int, most: int, unit: int, label: str) -> int:
        """Bytes for the buffers that a cache is to have beside the `old` bytes that it has.

        Returns as many units as there is room for, up to `most`. `OutOfMemory` if they are less than `least`; then
        nothing changed. `settle` ends the growth, `cancel` takes it back.
        """
        with self.lock:
            room = self.total - (self.held if self.strict else self.reserved - old)
            new = min(most, room // unit * unit)
            if new < least:
                raise OutOfMemory(
                    f"{least} bytes are more than the {max(room, 0)} that the budget of {self.total} has left for them",
                    label, least, f"raise {KV_MEMORY_BUDGET_MB}, ask for a shorter context, or close a session",
                )  # fmt: skip
            self.reserved += new - old
            self.transient += old
            self.peak = max(self.peak, self.held)
            return new

    def settle(self, old: int) -> None:
        """The old buffers of a growth are given back."""
        with self.lock:
            self.transient -= old

    def cancel(self, old: int, new: int) -> None:
        """A growth has failed, and its new buffers are given back."""
        with self.lock:
            self.reserved -= new - old
            self.transient -= old

    def free(self, size: int) -> None:
        """A cache is closed."""
        with self.lock:
            self.reserved -= size
