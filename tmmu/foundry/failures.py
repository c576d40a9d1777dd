"""The failures of the document as exception classes, each with its code (`spec/errors.md`)."""

from __future__ import annotations

from tmmu.core.errors import TmmuError


class UseAfterFree(TmmuError):
    """An access to memory after its release: a tensor of an earlier generation, or a released buffer."""

    def __init__(self, what: str, label: str, fix: str) -> None:
        super().__init__("USE_AFTER_FREE", what, place=label, fix=fix, operator="Foundry", label=label)


class OutOfMemory(TmmuError):
    """Bytes or room that cannot be allocated; the object that was asked for them is unchanged."""

    def __init__(self, what: str, label: str, requested: int, fix: str) -> None:
        super().__init__("OUT_OF_MEMORY", what, place=label, fix=fix, operator="Foundry", requested=requested)


class PrivateAccess(TmmuError):
    """A request of the host for bytes that only the device may access."""

    def __init__(self, label: str, forced_by: str = "") -> None:
        fix = f"copy it to a Shared buffer{f', or set {forced_by}=1' if forced_by else ''}"
        super().__init__(
            "PRIVATE_ACCESS", "its storage mode is Private", place=label, fix=fix, operator="Foundry", label=label
        )


class InUse(TmmuError):
    """A release of memory while views of it are exported, or while submitted commands use it."""

    def __init__(self, what: str, label: str, fix: str) -> None:
        super().__init__("IN_USE", what, place=label, fix=fix, operator="Foundry", label=label)


class InvalidSetting(TmmuError):
    """A variable or an option that is not a number, is out of range, or leaves nothing."""

    def __init__(self, what: str, setting: str, fix: str) -> None:
        super().__init__("INVALID_SETTING", what, place=setting, fix=fix, operator="Foundry", setting=setting)
