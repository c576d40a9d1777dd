"""Failure codes and the one exception that carries them (R5, `spec/errors.md`).

Every refusal names the file, the place and the fix, in one line. `ErrorRecord` is the same failure as the documents'
record; its fields are those of the registry below. spec: R5.1, R5.2, R5.3
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

from tmmu.core.output import escape_line


class Code(NamedTuple):
    """One row of the registry: number, severity, category, message, and the fields that its record must carry."""

    numeric: int
    severity: str
    category: str
    message: str
    fields: tuple[str, ...]


REGISTRY: dict[str, Code] = {
    "INVALID_ARENA_CONFIG": Code(1001, "ERROR", "config", "Invalid arena configuration", ("arena",)),
    "MODE_VIOLATION": Code(1002, "ERROR", "config", "Operation not allowed in this mode", ("mode",)),
    "INVALID_BINDING": Code(1003, "ERROR", "config", "Binding does not fit the model", ("binding",)),
    "INVALID_SHARDING": Code(1004, "ERROR", "config", "Invalid sharding", ("axis",)),
    "INVALID_SETTING": Code(1005, "ERROR", "config", "Invalid setting", ("setting",)),
    "MISSING_PACKAGE": Code(1006, "ERROR", "config", "A package is not installed", ("package",)),
    "INVALID_IR": Code(1201, "ERROR", "model", "Invalid model", ("ir_hash", "node_id")),
    "ALIGNMENT_VIOLATION": Code(1301, "FATAL", "tmmu", "Memory alignment violation", ("arena", "logical_slot")),
    "TMMU_ALLOCATION_FAILURE": Code(1302, "FATAL", "tmmu", "TMMU allocation failed", ("arena", "peak_required_bytes")),
    "ALLOCATION_OVERFLOW": Code(1303, "FATAL", "tmmu", "Allocation offset overflow", ("arena", "offset", "size")),
    "ARENA_TOO_SMALL": Code(1304, "ERROR", "tmmu", "Arena capacity insufficient", ("arena", "capacity", "required")),
    "LIVENESS_CYCLE": Code(1305, "ERROR", "tmmu", "Liveness analysis cycle detected", ("ir_hash", "node_id")),
    "INVALID_IR_SHAPES": Code(1306, "ERROR", "tmmu", "Invalid static shapes for allocation", ("ir_hash", "node_id")),
    "ADDRESS_COLLISION": Code(1307, "FATAL", "tmmu", "Virtual address collision", ("arena", "logical_slot")),
    "INVALID_PLAN": Code(1308, "ERROR", "tmmu", "The bytes are not a plan", ("place",)),
    "INVALID_ADDRESS": Code(1309, "FATAL", "tmmu", "Address outside its arena", ("arena", "offset")),
    "USE_AFTER_FREE": Code(1401, "FATAL", "foundry", "Memory used after it was given back", ("label",)),
    "OUT_OF_MEMORY": Code(1402, "ERROR", "foundry", "Out of device memory", ("requested",)),
    "PRIVATE_ACCESS": Code(1403, "FATAL", "foundry", "Private memory accessed from the host", ("label",)),
    "IN_USE": Code(1404, "ERROR", "foundry", "Memory is in use", ("label",)),
    "INVALID_WEIGHTS": Code(1405, "ERROR", "foundry", "The file is not weights that can be run", ("place",)),
    "INVALID_RECORD": Code(1502, "ERROR", "trace", "The bytes are not a record", ("place",)),
    "REGION_REFUSED": Code(1601, "ERROR", "mnemosyne", "The region cannot be mapped", ("region",)),
    "MEMORY_BOUND": Code(1602, "ERROR", "mnemosyne", "Mapped memory would exceed its bound", ("requested", "bound")),
    "REGION_LOST": Code(1603, "FATAL", "mnemosyne", "The file under a mapping is gone", ("region",)),
    "INVALID_VECTORS": Code(1611, "ERROR", "mnemosyne", "Vectors that cannot be encoded", ("place",)),
    "INVALID_KEY": Code(1612, "ERROR", "mnemosyne", "The key cannot be used", ("place",)),
    "INVALID_LOG": Code(1613, "ERROR", "mnemosyne", "The file is not a sealed log that can be read", ("place",)),
    "NOT_AUTHENTIC": Code(1614, "FATAL", "mnemosyne", "Not what was sealed here under this key", ("place",)),
    "ROLLED_BACK": Code(1615, "FATAL", "mnemosyne", "Older than what was acknowledged", ("expected", "found")),
    "WRONG_KEY": Code(1616, "ERROR", "mnemosyne", "Sealed under another key", ("place",)),
    "LOG_TRUNCATED": Code(
        1617, "FATAL", "mnemosyne", "The end of what was acknowledged is missing", ("expected", "found")
    ),
    "DATA_RACE": Code(1621, "FATAL", "mnemosyne", "Two threads access one byte", ("first", "second")),
    "CONTRACT_VIOLATION": Code(1801, "FATAL", "runtime", "Contract violation", ("failure_operator",)),
    "REPLAY_DIVERGENCE": Code(1901, "FATAL", "replay", "Replay diverged", ("expected", "found")),
}
"""Every failure code of the project; `spec/errors.md` explains each and how to fix it."""


LONGEST = 1000
"""The most characters of a description that are printed: it may quote a hostile file."""


@dataclass(frozen=True)
class ErrorRecord:
    """A failure as the documents' record: `t` and `rank` are 0 if there is no iteration and no rank."""

    code_id: str
    numeric_code: int
    severity: str
    subsystem: str
    failure_operator: str
    message: str
    diagnostics: dict[str, int | str | bytes | bool]
    t: int = 0
    rank: int = 0
    retryable: bool = False
    privacy_class: str = "INTERNAL"


class TmmuError(Exception):
    """A refusal: `code_id` of the registry, the error, its place, and how to fix it.

    Parameters
    ----------
    code_id
        A key of `REGISTRY`.
    what
        The error, as the middle of a sentence.
    file, place, fix
        The file, the place in it (a node, a tensor, a key, an offset) and a remedy for the user.
    operator
        The operator that failed, by its name in the documents.
    diagnostics
        Further fields of the error record.

    Attributes
    ----------
    construct
        The kind of construct that the reader of a file does not know; empty for every other error.
    """

    def __init__(
        self,
        code_id: str,
        what: str,
        *,
        file: str | None = None,
        place: str | None = None,
        fix: str | None = None,
        operator: str = "UML_OS.TMMU.PlanMemory_v2",
        **diagnostics: int | str | bytes | bool,
    ) -> None:
        self.code_id, self.what, self.file, self.place, self.fix = code_id, what, file, place, fix
        self.operator, self.diagnostics = operator, diagnostics
        self.construct = ""
        super().__init__(code_id, what)

    def __str__(self) -> str:
        where = "".join(f"{part}: " for part in (self.file, self.place) if part)
        what = self.what if len(self.what) <= LONGEST else f"{self.what[:LONGEST]}…"
        return escape_line(f"{where}{what}{f'; {self.fix}' if self.fix else ''} [{self.code_id}]")

    def in_file(self, file: str) -> Self:
        """Set the file unless one is set, and return the error itself."""
        self.file = self.file or file
        return self

    def record(self) -> ErrorRecord:
        """Return the failure as an error record (R5)."""
        code = REGISTRY[self.code_id]
        return ErrorRecord(
            self.code_id,
            code.numeric,
            code.severity,
            code.category,
            self.operator,
            code.message,
            dict(self.diagnostics),
        )


class NotOfModel(TmmuError):
    """INVALID_BINDING: the model has nothing with the name that is bound, `binding`; another model may."""

    def __init__(self, what: str, binding: str, *, file: str | None = None, place: str | None = None, fix: str) -> None:
        super().__init__("INVALID_BINDING", what, file=file, place=place, fix=fix, binding=binding)
        self.binding = binding
