"""Note the models that one `tmmu plan` failed for, beside the plans of the others (`failed.txt`). spec: C2.12, C2.13"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tmmu.core.output import STANDARD, count_noun, print_lines

NOT_REACHED = "the run ended before it was planned"
"""The note on a model if another one, or the user, ended the run."""


@dataclass
class RunNotes:
    """The result of each model so far: its error, or None if its plan is written."""

    planned: dict[str, str | None] = field(default_factory=dict)
    is_success: bool = False
    """Whether the run ended, without an error."""


@contextmanager
def note_failures(targets: Mapping[str, str], *, is_set: bool) -> Iterator[RunNotes]:
    """Note each failed model in the folder of its plan when the run ends, even by an interruption.

    `targets` are the files of the plans by model. `is_set` is whether the run is over a folder or several models. A run
    of a single model only removes an earlier note on it. Raises TMMU_ALLOCATION_FAILURE if it cannot be noted.
    """
    from tmmu.plans import failed_models

    notes = RunNotes()
    try:
        yield notes
    except BaseException:
        notes.planned |= {model: NOT_REACHED for model in targets if model not in notes.planned}
        raise
    finally:
        folders: dict[str, dict[str, str | None]] = {}
        for model, error in notes.planned.items():
            if targets[model] != STANDARD and (is_set or error is None):
                folders.setdefault(os.path.dirname(targets[model]), {})[model] = error
        for folder, planned in folders.items():
            is_whole = is_set and notes.is_success
            path = failed_models.update(folder or os.curdir, planned, is_whole=is_whole)
            failed = sum(error is not None for error in planned.values())
            if path is not None and failed:
                print_lines(f"{path} names {count_noun(failed, 'model')} without a plan", err=True)
