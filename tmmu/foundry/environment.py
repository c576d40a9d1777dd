"""The table of the environment variables, and the settings that an environment states. spec: FD7.1 to FD7.4"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tmmu.foundry.failures import InvalidSetting
from tmmu.foundry.storage import STORAGE_MODES

OFF = frozenset({"", "0", "false", "no", "off"})
"""The texts that turn a Boolean variable off, in any case and with white space around them; any other text is on."""

MIB = 1 << 20
LARGEST = 2**31 - 1
"""The longest context: positions are 32-bit integers."""


class Variable(NamedTuple):
    """A variable: its default and description in the document, `Settings` field, and range (None: a Boolean)."""

    name: str
    default: str
    description: str
    field: str
    range: tuple[int, int] | None

    def parse(self, text: str) -> int | bool | None:
        """Return the value that a text states; None for an empty number, which counts as unset.

        Raises
        ------
        InvalidSetting
            The value is not a decimal number, or it is out of range.
        """
        text = text.strip()
        if self.range is None:
            return text.lower() not in OFF
        if not text:
            return None
        low, high = self.range
        if not re.fullmatch(r"[0-9]{1,30}", text):
            what = f"{text!r} is not a decimal number"
        elif not low <= int(text) <= high:
            what = f"{int(text)} is not in {low} to {high}"
        else:
            return int(text)
        raise InvalidSetting(what, self.name, f"set it to a number in {low} to {high}, or unset it")

    def range_text(self) -> str:
        """Return the range as text for a person."""
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
"""The six rows of the document (section 5); a test compares them with its text. The budget is in MiB."""


@dataclass(frozen=True)
class Settings:
    """The values of the variables; the defaults of the fields are those of the document.

    `max_context` None stands for the maximum of the model, `kv_budget_mib` None (in MiB) for Auto.
    """

    max_context: int | None = None
    kv_budget_mib: int | None = None
    intermediates_shared: bool = False
    kv_cache_shared: bool = False
    prefill_chunk_size: int = 32
    decode_batch_size: int = 64

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Settings:
        """Parse the settings of an environment, such as `os.environ`.

        Raises `InvalidSetting`, which names the variable.

        >>> Settings.of({"METALLIC_KV_CACHE_SHARED": "off", "METALLIC_PREFILL_CHUNK_SIZE": "16"}).prefill_chunk_size
        16
        """
        found: dict[str, Any] = {v.field: v.parse(environment[v.name]) for v in VARIABLES if v.name in environment}
        return cls(**{field: value for field, value in found.items() if value is not None})

    @property
    def forced(self) -> dict[str, bool]:
        """Whether each variable that forces Shared is on, by name, for `storage_mode`."""
        forcing = {row.forced_by for row in STORAGE_MODES.values()}
        return {v.name: getattr(self, v.field) for v in VARIABLES if v.name in forcing}


class Setting(NamedTuple):
    """A row of `tmmu session env`: a variable, the columns of the document, its range, and its value now."""

    name: str
    default: str
    description: str
    range: str
    value: str


def list_settings(environment: Mapping[str, str]) -> list[Setting]:
    """Return the six variables with their values. Raises `InvalidSetting`, which names a variable with a wrong value.

    >>> [row.value for row in list_settings({"METALLIC_KV_MEMORY_BUDGET_MB": "512"})]
    ['Model Default', '512', '0', '0', '32', '64']
    """
    settings = Settings.of(environment)
    rows = []
    for variable in VARIABLES:
        value = getattr(settings, variable.field)
        text = variable.default if value is None else str(int(value))
        rows.append(Setting(variable.name, variable.default, variable.description, variable.range_text(), text))
    return rows
