"""The failures of the document as exceptions of their own, each with its code (`spec/errors.md`)."""

from __future__ import annotations

from tmmu.core.errors import TmmuError


class UseAfterFree(TmmuError):
    """Memory is accessed after it was given back: a tensor of an earlier generation, a released buffer."""

    def __init__(self, what: str, label: str, fix: str) -> None:
        super().__init__("USE_AFTER_FREE", what, place=label, fix=fix, operator="Foundry", label=label)


class OutOfMemory(TmmuError):
    """Bytes or room cannot be had; whatever was asked for it is as it was before."""

    def __init__(self, what: str, label: str, requested: int, fix: str) -> None:
        super().__init__("OUT_OF_MEMORY", what, place=label, fix=fix, operator="Foundry", requested=requested)


class PrivateAccess(TmmuError):
    """The host asks for bytes that are the device's own."""

    def __init__(self, label: str, forced_by: str = "") -> None:
        fix = f"copy it to a Shared buffer{f', or set {forced_by}=1' if forced_by else ''}"
        super().__init__(
            "PRIVATE_ACCESS", "its storage mode is Private", place=label, fix=fix, operator="Foundry", label=label
        )


class InUse(TmmuError):
    """Views are exported, or commands are submitted that work on the memory."""

    def __init__(self, what: str, label: str, fix: str) -> None:
        super().__init__("IN_USE", what, place=label, fix=fix, operator="Foundry", label=label)


class InvalidSetting(TmmuError):
    """A variable or option that is no number, out of range, or for which nothing is left."""

    def __init__(self, what: str, setting: str, fix: str) -> None:
        super().__init__("INVALID_SETTING", what, place=setting, fix=fix, operator="Foundry", setting=setting)
