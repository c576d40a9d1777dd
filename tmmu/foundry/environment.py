"""The variables of the environment, one table, and what they are set to. spec: FD7.1 to FD7.4"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tmmu.foundry.failures import InvalidSetting
from tmmu.foundry.storage import STORAGE_MODES

OFF = frozenset({"", "0", "false", "no", "off"})
"""What a Boolean variable is off by, in any case and with white space around it; any other text is on."""

MIB = 1 << 20
LARGEST = 2**31 - 1
"""The longest context: positions are 32-bit integers."""


class Variable(NamedTuple):
    """A variable: the document's default and description, its `Settings` field, and its range (none: a Boolean)."""

    name: str
    default: str
    description: str
    field: str
    range: tuple[int, int] | None

    def parse(self, text: str) -> int | bool | None:
        """What a value means; None for a number that is empty, which is as if it were unset.

        Raises
        ------
        InvalidSetting
            The value is no decimal number, or not in the range.
        """
        text = text.strip()
        if self.range is None:
            return text.lower() not in OFF
        if not text:
            return None
        low, high = self.range
        if not re.fullmatch(r"[0-9]{1,30}", text):
            what = f"{text!r} is no decimal number"
        elif not low <= int(text) <= high:
            what = f"{int(text)} is not in {low} to {high}"
        else:
            return int(text)
        raise InvalidSetting(what, self.name, f"set it to a number in {low} to {high}, or unset it")

    def range_text(self) -> str:
        """The range as a person reads it."""
        return "0, false, no, off; else on" if self.range is None else f"{self.range[0]} to {self.range[1]}"


MAX_CONTEXT_LEN = "METALLIC_MAX_CONTEXT_LEN"
KV_MEMORY_BUDGET_MB = "METALLIC_KV_MEMORY_BUDGET_MB"

VARIABLES = (
    Variable(MAX_CONTEXT_LEN, "Model Default", "Hard cap on the sequence length.", "max_context", (1, LARGEST)),
    Variable(KV_MEMORY_BUDGET_MB, "Auto", "Max VRAM allowed for KV cache.", "kv_budget_mib", (1, 2**43)),
    Variable(
        "METALLIC_INTERMEDIATES_SHARED", "0", "Force activations to be host-visible (debug).", "intermediates_shared",
        None,
    ),
    Variable(
        "METALLIC_KV_CACHE_SHARED", "0", "Force KV cache to be host-visible (debug).", "kv_cache_shared", None,
    ),
    Variable("METALLIC_PREFILL_CHUNK_SIZE", "32", "Batch size for prompt processing.", "prefill_chunk_size", (1, 512)),
    Variable(
        "METALLIC_FOUNDRY_DECODE_BATCH_SIZE", "64", "Batch size for speculative decoding.", "decode_batch_size",
        (1, 256),
    ),
)  # fmt: skip
"""The document's six rows (section 5), which a test compares with its text. The budget is in MiB."""


@dataclass(frozen=True)
class Settings:
    """What the variables are set to; the fields' defaults are the document's.

    `max_context` none is the model's own maximum, `kv_budget_mib` (MiB) none is Auto.
    """

    max_context: int | None = None
    kv_budget_mib: int | None = None
    intermediates_shared: bool = False
    kv_cache_shared: bool = False
    prefill_chunk_size: int = 32
    decode_batch_size: int = 64

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Settings:
        """The settings of an environment, such as `os.environ`. `InvalidSetting` names the variable.

        >>> Settings.of({"METALLIC_KV_CACHE_SHARED": "off", "METALLIC_PREFILL_CHUNK_SIZE": "16"}).prefill_chunk_size
        16
        """
        found: dict[str, Any] = {v.field: v.parse(environment[v.name]) for v in VARIABLES if v.name in environment}
        return cls(**{field: value for field, value in found.items() if value is not None})

    @property
    def forced(self) -> dict[str, bool]:
        """For each variable that forces Shared, whether it is on, for `storage_mode`."""
        forcing = {row.forced_by for row in STORAGE_MODES.values()}
        return {v.name: getattr(self, v.field) for v in VARIABLES if v.name in forcing}


class Setting(NamedTuple):
    """A row of `tmmu session env`: a variable, the document's columns, its range, and the value that holds now."""

    name: str
    default: str
    description: str
    range: str
    value: str


def table(environment: Mapping[str, str]) -> list[Setting]:
    """The six variables with what they are set to. `InvalidSetting` names a variable that is set wrongly.

    >>> [row.value for row in table({"METALLIC_KV_MEMORY_BUDGET_MB": "512"})]
    ['Model Default', '512', '0', '0', '32', '64']
    """
    settings = Settings.of(environment)
    rows = []
    for variable in VARIABLES:
        value = getattr(settings, variable.field)
        text = variable.default if value is None else str(int(value))
        rows.append(Setting(variable.name, variable.default, variable.description, variable.range_text(), text))
    return rows
