"""What Mnemosyne refuses, each with its code (`spec/errors.md`): regions, vectors, keys and sealed logs."""

from __future__ import annotations

from tmmu.core.errors import TmmuError

OPERATOR = "Mnemosyne"


class RegionRefused(TmmuError):
    """A region that cannot be: its offset, size or file are not those of one."""

    def __init__(self, what: str, file: str, fix: str) -> None:
        super().__init__("REGION_REFUSED", what, file=file, fix=fix, operator=OPERATOR, region=file)


class MemoryBound(TmmuError):
    """With it more than 7/10 of memory would be mapped, and what may be released is not enough. Nothing has changed."""

    def __init__(self, file: str, requested: int, bound: int, pinned: int) -> None:
        super().__init__(
            "MEMORY_BOUND",
            f"{requested} bytes of tiles do not fit: {bound} may be mapped, of which {pinned} are in use",
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
    """A region or store is to be closed while arrays of its bytes are held."""

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
    """The system refuses a file, or a range of addresses."""

    def __init__(self, what: str, file: str | None = None) -> None:
        fix = "see that the file may be opened as is asked, and that limits of memory, mappings and open files allow it"
        super().__init__("TMMU_ALLOCATION_FAILURE", what, file=file, fix=fix, operator=OPERATOR)


class InvalidVectors(TmmuError):
    """Vectors, or differences of them, that a mode of encoding does not take."""

    def __init__(self, what: str, place: str, fix: str) -> None:
        super().__init__("INVALID_VECTORS", what, place=place, fix=fix, operator="Mnemosyne.delta")


class InvalidKey(TmmuError):
    """A file that is no key, or that others may read; its bytes are never quoted."""

    def __init__(self, what: str, file: str | None, fix: str) -> None:
        super().__init__("INVALID_KEY", what, file=file, fix=fix, operator="Mnemosyne.E", place="key")


class InvalidLog(TmmuError):
    """A file that is no sealed log or anchor, or of a version that is not known."""

    def __init__(self, what: str, file: str, place: str) -> None:
        super().__init__(
            "INVALID_LOG", what, file=file, place=place, fix="name the log that was meant, or use the version that "
            "wrote it", operator="Mnemosyne.E",
        )  # fmt: skip


class NotAuthentic(TmmuError):
    """Something that was not sealed under this key, or not for where it stands."""

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
            "LOG_TRUNCATED", f"it is cut off: {found} records, of which {expected} were acknowledged", file=file,
            place=place, fix="restore a newer copy; deleting the anchor accepts what is lost", operator="Mnemosyne.E",
            expected=expected, found=found,
        )  # fmt: skip


class RolledBack(TmmuError):
    """An older log than its anchor states was acknowledged, one that went on from an older one, or none at all."""

    def __init__(self, what: str, file: str, expected: int, found: int) -> None:
        super().__init__(
            "ROLLED_BACK", what, file=file, fix="restore a newer copy; deleting the anchor accepts what is lost",
            operator="Mnemosyne.E", expected=expected, found=found,
        )  # fmt: skip
