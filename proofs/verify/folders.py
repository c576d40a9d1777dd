"""Folders given to verify-plan: their plans, the models that `tmmu plan` could not plan, and the skipped files.

Each file is accounted for. spec: C1.13, C1.17, C1.18
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from proofs.readers.plans import formats
from proofs.verify.verdict import NO_PLAN, Verdict
from tmmu.core import kind
from tmmu.core.errors import TmmuError
from tmmu.core.flags import LINKED, UNREADABLE, SkippedFile
from tmmu.core.output import count_noun, escape_line, list_names
from tmmu.plans import failed_models

if TYPE_CHECKING:  # most folders are not plan sets
    from tmmu.plans.sets import PlanSet

LISTED = 8
"""The most paths that a line has without `-v`."""
KINDS = 6
"""The most kinds of skipped files that the short line has."""


def is_taken(path: str) -> bool:
    """Decide whether a file in a folder counts: as a plan, a manifest, or the list of models that have no plan."""
    return is_manifest(path) or formats.is_plan(path) or failed_models.is_record(path)


def is_manifest(path: str) -> bool:
    """Whether a file is the manifest of a plan set, by its name."""
    return os.path.basename(path) == kind.MANIFEST and os.path.isfile(path)


def read_manifests(paths: Sequence[str]) -> tuple[dict[str, PlanSet], list[Verdict]]:
    """Return the manifest of each folder, and an error for each that cannot be read. spec: PS2.4"""
    found: dict[str, PlanSet] = {}
    errors: list[Verdict] = []
    for path in paths:
        folder = os.path.dirname(path) or os.curdir
        from tmmu.plans import sets

        try:
            found[folder] = sets.load(folder)
        except TmmuError as error:
            errors.append(Verdict.of_error(path, error))
        except OSError as error:
            errors.append(Verdict(path, "ERROR", NO_PLAN, "", notes=[escape_line(f"{path}: {error.strerror}")]))
    return found, errors


def verdict_of_record(path: str) -> Verdict:
    """Return the verdict on a `failed.txt`: an error that names its models."""
    try:
        failed = list(failed_models.load(path))
    except (OSError, TmmuError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.what
        return Verdict(path, "ERROR", NO_PLAN, "", notes=[escape_line(f"{path}: it cannot be read ({reason})")])
    what = f"tmmu plan failed for {count_noun(len(failed), 'model')}: {list_names(failed)}"
    fix = "the file has the errors; plan them again, which removes it"
    return Verdict(path, "ERROR", NO_PLAN, "", notes=[escape_line(f"{path}: {what}; {fix}")])


def without_read(skipped: Sequence[SkippedFile], plans: Iterable[str], models: Iterable[str]) -> list[SkippedFile]:
    """Remove from the skipped files those that are read as models or beside a plan. O(files)."""
    if not skipped:
        return []
    read = {os.path.realpath(path) for plan in plans for path in formats.read_with(plan)[1:]}
    read |= set(map(os.path.realpath, models))
    return [each for each in skipped if os.path.realpath(each.path) not in read]


def lines(skipped: Sequence[SkippedFile], *, verbose: bool) -> Iterator[str]:
    """Yield how many files are skipped, by the end of their names, and the path of each linked or unreadable one.

    With `verbose` the path of every one.
    """
    paths = {
        reason: [each.path for each in skipped if each.reason == reason] for reason in (LINKED, UNREADABLE)
    }  # fmt: skip
    others = [each.path for each in skipped if each.reason not in paths]
    if others:
        ends = Counter(os.path.splitext(path)[1].lower() or "without an end" for path in others).most_common()
        kinds = [f"{number} {end}" for end, number in ends]
        are, them = ("is not a plan", "it") if len(others) == 1 else ("are not plans", "them")
        hint = "" if verbose else f"; -v names {them}"
        yield f"skipped {count_noun(len(others), 'file')} that {are} ({list_names(kinds, KINDS)}){hint}"
        yield from (f"  {path}" for path in others if verbose)
    for reason, what in ((LINKED, "linked folders (give each by itself)"), (UNREADABLE, "files that cannot be read")):
        if found := paths[reason]:
            yield f"skipped {what}: {list_names(found, len(found) if verbose else LISTED)}"
