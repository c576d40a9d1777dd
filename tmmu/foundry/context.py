"""How many tokens a session may have, and the memory that the caches of keys and values share.

The model, the user and the budget bound a context. If the budget allows fewer tokens than the others, the context is
clamped, and a warning states by how much. Capacities are multiples of 128 tokens: a request is rounded up, and the
budget is rounded down, so the steady state never exceeds the budget. spec: FD3.1 to FD3.8
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
"""Capacities are multiples of this number of tokens."""
INITIAL = 2048
"""The tokens that a cache has room for at first, and the maximum if nothing states one."""
ELEMENT = 2
"""Bytes of an element of the cache and of the tables of positions (F16)."""

Layout = Literal["compact", "expanded"]

logger = logging.getLogger("tmmu.foundry")


def round_up(tokens: int) -> int:
    """Return the least multiple of 128 that is at least `tokens` and at least 128.

    >>> [round_up(tokens) for tokens in (0, 100, 128, 129, 3000)]
    [128, 128, 128, 256, 3072]
    """
    return max(1, -(-tokens // BLOCK)) * BLOCK


def round_down(tokens: int) -> int:
    """Return the largest multiple of 128 that is at most `tokens`.

    >>> [round_down(tokens) for tokens in (127, 200, 4681)]
    [0, 128, 4608]
    """
    return tokens // BLOCK * BLOCK


@dataclass(frozen=True)
class KvShape:
    """The shape of a cache of keys and values, for each token. Raises ValueError if the sizes are inconsistent.

    The compact layout stores the heads that keys and values have; the expanded layout repeats them for all query heads.

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
        """The heads that a buffer of the cache stores."""
        return self.kv_heads if self.layout == "compact" else self.heads

    @property
    def row_bytes(self) -> int:
        """The bytes of one token in one head."""
        return self.head_dim * ELEMENT

    @property
    def bytes_per_token(self) -> int:
        """The bytes of one token in the keys and values of all layers and heads."""
        return 2 * self.layers * self.cache_heads * self.row_bytes

    def rope_bytes(self, capacity: int) -> int:
        """Return the bytes of one of the two tables of positions (cos, sin), which no budget counts."""
        return capacity * (self.head_dim // 2) * ELEMENT


class Clamp(NamedTuple):
    """A context that became shorter: the tokens that were asked for, the tokens that it has, and the reason."""

    asked: int
    given: int
    why: str


@dataclass(frozen=True)
class ContextConfig:
    """The context of a session. All fields are in tokens, except `budget` and `bytes_per_token`.

    `model_maximum` is 0 and `requested` is None if nothing states them. `maximum` is the least of the maxima that the
    model, the request and the hard cap state. `limit` is the largest capacity that the cache may grow to, `allocated`
    the capacity that it begins with. `source` names the setting that states the budget. `strict` is for the `KvBudget`
    too.
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
        """The longest sequence: the smaller of `maximum` and `limit`."""
        return min(self.maximum, self.limit)

    @property
    def budget_tokens(self) -> int:
        """The tokens that the budget holds, before rounding down."""
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
        """Compute the context that model, request, settings and budget allow; log each clamp as a warning.

        Parameters
        ----------
        bytes_per_token
            The value of `KvShape.bytes_per_token`.
        working_set
            The recommended working set of the device in bytes; half of it is the budget if none is stated.
        model_maximum, requested
            In tokens; 0 and None mean "not stated". If nothing is stated, the maximum is 2048.
        budget
            In bytes; it replaces the budget of the environment variable.
        initial
            The tokens to begin with.
        strict
            Whether the old and the new buffers of a growth must fit into the budget together. The limit is then the
            capacity that the cache can reach in any sequence of growths: half of the budget plus a block, rounded down,
            or the capacity that it begins with.

        Raises
        ------
        InvalidSetting
            A number is not positive, or the budget holds fewer than 128 tokens.

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
        limit = round_down(held)
        if limit < BLOCK:
            raise InvalidSetting(
                f"{budget} bytes hold {held} tokens of {bytes_per_token} bytes, fewer than {BLOCK}", source,
                f"allow {bytes_per_token * BLOCK} bytes or more for the cache",
            )  # fmt: skip
        if limit < maximum:
            clamps.append(Clamp(maximum, limit, f"{holds}, rounded down to a multiple of {BLOCK}"))
        limit = min(limit, round_up(maximum))
        allocated = min(limit, round_up(min(initial, maximum)))
        if strict:
            reached = max(allocated, min(limit, round_down((held + BLOCK) // 2)))
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
    """The bytes that the caches of several sessions share. Every call is safe in any thread and takes O(1).

    `reserved` counts the bytes of the caches that exist, and the new bytes of growing caches: never more than `total`.
    `transient` counts old buffers that exist beside new ones until they are released. `peak` is the most that
    `reserved` and `transient` were together: at most twice `total`, and in strict mode at most `total`.

    Parameters
    ----------
    total
        The size of the budget in bytes.
    strict
        Whether `transient` counts against `total` too.
    """

    def __init__(self, total: int, strict: bool = False) -> None:
        self.total, self.strict = total, strict
        self.number = next(_numbers)
        """The number of the budget in this process, for logs."""
        self.reserved = self.transient = self.peak = 0
        self.lock = threading.RLock()
        """Held while a reservation is made and logged, so that the log has the real order."""

    @property
    def held(self) -> int:
        """The bytes of all buffers, old ones included."""
        return self.reserved + self.transient

    def reserve(self, old: int, least: int, most: int, unit: int, label: str) -> int:
        """Reserve bytes for the new buffers of a cache that has `old` bytes, and return the number of bytes.

        The result is a multiple of `unit`, as large as the budget permits, from `least` to `most`. Raises `OutOfMemory`
        if there is room for fewer than `least` bytes; then nothing has changed. `settle` ends the growth, `cancel`
        reverts it.
        """
        with self.lock:
            room = self.total - (self.held if self.strict else self.reserved - old)
            new = min(most, room // unit * unit)
            if new < least:
                raise OutOfMemory(
                    f"{least} bytes are more than the {max(room, 0)} bytes that are left of the budget of {self.total}",
                    label, least, f"raise {KV_MEMORY_BUDGET_MB}, ask for a shorter context, or close a session",
                )  # fmt: skip
            self.reserved += new - old
            self.transient += old
            self.peak = max(self.peak, self.held)
            return new

    def settle(self, old: int) -> None:
        """Count the `old` bytes of a growth as released: its new buffers replace them."""
        with self.lock:
            self.transient -= old

    def cancel(self, old: int, new: int) -> None:
        """Revert a reservation: the growth failed, and its new buffers are released."""
        with self.lock:
            self.reserved -= new - old
            self.transient -= old

    def free(self, size: int) -> None:
        """Count `size` reserved bytes as released: a cache was closed."""
        with self.lock:
            self.reserved -= size
