"""The errors that Mnemosyne raises, each with its code (`spec/errors.md`): regions, vectors, keys and sealed logs."""

from __future__ import annotations

from tmmu.core.errors import TmmuError

OPERATOR = "Mnemosyne"


class RegionRefused(TmmuError):
    """A region whose offset, size or file is not valid."""

    def __init__(self, what: str, file: str, fix: str) -> None:
        super().__init__("REGION_REFUSED", what, file=file, fix=fix, operator=OPERATOR, region=file)


class MemoryBound(TmmuError):
    """The region would bring mapped bytes above 7/10 of memory, and too few can be released. Nothing has changed."""

    def __init__(self, file: str, requested: int, bound: int, pinned: int) -> None:
        super().__init__(
            "MEMORY_BOUND",
            f"{requested} bytes of tiles do not fit: {bound} may be mapped, and {pinned} of these are in use",
            file=file,
            fix="release views, map smaller regions, or give the process more memory",
            operator=OPERATOR,
            requested=requested,
            bound=bound,
        )


class RegionLost(TmmuError):
    """The file under a mapping was truncated, replaced or removed, or cannot be read. The region stays lost."""

    def __init__(self, what: str, file: str) -> None:
        fix = "close the region, and map the file again once it is whole"
        super().__init__("REGION_LOST", what, file=file, fix=fix, operator=OPERATOR, region=file)


class RegionClosed(TmmuError):
    """A region or its store is used after it was closed."""

    def __init__(self, file: str) -> None:
        super().__init__(
            "USE_AFTER_FREE", "the region was closed", file=file, fix="map it again", operator=OPERATOR, label=file
        )


class RegionInUse(TmmuError):
    """A region or store cannot be closed while arrays of its bytes are held."""

    def __init__(self, file: str, tiles: int) -> None:
        super().__init__(
            "IN_USE",
            f"arrays of {tiles} of its tiles are held",
            file=file,
            fix="delete them, or copy what is needed",
            operator=OPERATOR,
            label=file,
        )


class NoAddressSpace(TmmuError):
    """The system refused to open a file or to map a range of addresses."""

    def __init__(self, what: str, file: str | None = None) -> None:
        fix = "check the permissions of the file, and the limits of memory, mappings and open files"
        super().__init__("TMMU_ALLOCATION_FAILURE", what, file=file, fix=fix, operator=OPERATOR)


class InvalidVectors(TmmuError):
    """Vectors, or differences of vectors, that a mode of encoding does not accept."""

    def __init__(self, what: str, place: str, fix: str) -> None:
        super().__init__("INVALID_VECTORS", what, place=place, fix=fix, operator="Mnemosyne.delta")


class InvalidKey(TmmuError):
    """A file that is not a key, or that other users may read. Its bytes are never quoted."""

    def __init__(self, what: str, file: str | None, fix: str) -> None:
        super().__init__("INVALID_KEY", what, file=file, fix=fix, operator="Mnemosyne.E", place="key")


class InvalidLog(TmmuError):
    """A file that is not a sealed log or anchor, or whose version is unknown."""

    def __init__(self, what: str, file: str, place: str) -> None:
        super().__init__(
            "INVALID_LOG", what, file=file, place=place, fix="name the log that was meant, or use the version that "
            "wrote it", operator="Mnemosyne.E",
        )  # fmt: skip


class NotAuthentic(TmmuError):
    """Data that was not sealed under this key, or that was sealed for another place."""

    def __init__(self, what: str, file: str, place: str, fix: str = "restore the log from a copy") -> None:
        super().__init__("NOT_AUTHENTIC", what, file=file, place=place, fix=fix, operator="Mnemosyne.E")


class WrongKey(TmmuError):
    """A log that was sealed under another key."""

    def __init__(self, what: str, file: str, place: str, fix: str = "name the key of this log") -> None:
        super().__init__("WRONG_KEY", what, file=file, place=place, fix=fix, operator="Mnemosyne.E")


class LogTruncated(TmmuError):
    """A log whose end is missing: it has no trailer, and fewer records than its anchor states."""

    def __init__(self, file: str, place: str, expected: int, found: int) -> None:
        super().__init__(
            "LOG_TRUNCATED", f"the log is cut off: expected at least {expected} records, got {found}", file=file,
            place=place, fix="restore a newer copy; deleting the anchor accepts what is lost", operator="Mnemosyne.E",
            expected=expected, found=found,
        )  # fmt: skip


class RolledBack(TmmuError):
    """The log is older than its anchor states, continues an older copy, or is missing."""

    def __init__(self, what: str, file: str, expected: int, found: int) -> None:
        super().__init__(
            "ROLLED_BACK", what, file=file, fix="restore a newer copy; deleting the anchor accepts what is lost",
            operator="Mnemosyne.E", expected=expected, found=found,
        )  # fmt: skip
