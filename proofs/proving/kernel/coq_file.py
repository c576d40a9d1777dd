"""Write a plan as a file that Coq itself can check, so that only Coq's kernel must be trusted: `verify-plan --coq DIR`.

`Plan.v` holds the words of the plan, column by column. It proves by computation that this plan is safe and runs as if
every tensor had private memory, at its planned sizes and offsets. The digest in its first comment names the file that
the words were written from. No theorem in it is about that digest. Of a text or another producer's plan it is the
digest of the binary file that the plan was translated to. `_CoqProject` names the compiled theory by its absolute path.
spec: V6.4
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from proofs.proving.kernel.evidence import columns
from proofs.proving.kernel.memory import Named
from proofs.proving.obligations.context import Context
from tmmu.core.canonical import remove, write_atomically
from tmmu.core.errors import TmmuError
from tmmu.core.output import escape_line
from tmmu.core.reading import read_head

AT_ONCE = 200
"""Words in one list: Coq reads long lists slowly."""

OURS = re.compile(rb"\(\* The plan .*, whose (?:file|translation) has the digest\n")
OUR_PROJECT = re.compile(rb"-Q .* Tmmu\nPlan\.v\n\Z")
MARK = 1 << 16
"""The bytes at the beginning of a file that are searched for the mark of files written here."""

HEAD = """\
(* The plan {name}, whose {what} has the digest
   {digest},
   proved inside Coq, at its planned sizes and offsets: coqc -Q {theory} Tmmu Plan.v *)
From Coq Require Import ZArith List.
From Tmmu Require Import Columns Check Safe Run Theorems Table.
Import ListNotations.
Open Scope Z_scope.

"""
TAIL = """\

Definition plan : plan := plan_of (table words).

Theorem accepted : accepts (table words) = true.
Proof. vm_cast_no_check (eq_refl true). Qed.

(* No two live storages share a byte, every address is aligned and in bounds, every access is covered ... *)
Theorem plan_is_safe : Safe plan.
Proof. exact (proj1 (accepted_plans_run_as_private _ accepted)). Qed.

(* ... and whatever kernels the steps have, the arenas hold what private memory for each tensor would. *)
Theorem plan_runs_as_private : forall V, RunsAsPrivate V plan.
Proof. exact (proj1 (proj2 (accepted_plans_run_as_private _ accepted))). Qed.

Print Assumptions plan_is_safe.
Print Assumptions plan_runs_as_private.
"""


def write_coq_file(
    folder: str | os.PathLike[str], name: str, context: Context, digest: bytes, theory: Path,
    *, is_translated: bool = False,
) -> None:  # fmt: skip
    """Write `Plan.v` and `_CoqProject`. Raises TmmuError if they cannot be written. O(plan); some 5 bytes a word.

    `is_translated` is whether `digest` is that of the binary file that a text or another producer's plan became.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TmmuError(
            "TMMU_ALLOCATION_FAILURE", f"cannot be made ({error.strerror})", file=str(folder), fix="name another folder"
        ) from error
    shown = re.sub(r"[^\w ./-]", "_", escape_line(name))  # without characters that could end the comment
    what = "translation" if is_translated else "file"
    head = HEAD.format(name=shown, what=what, digest=digest.hex(), theory=theory)
    body = "".join(_lists(columns(context, digest)))
    write_atomically(Path(folder) / "Plan.v", (head + body + TAIL).encode())
    write_atomically(Path(folder) / "_CoqProject", f"-Q {theory} Tmmu\nPlan.v\n".encode())


def remove_coq_file(folder: str | os.PathLike[str]) -> None:
    """Remove the files that an earlier run wrote into `folder`. A `Plan.v` or `_CoqProject` of the user's own stays.

    Raises TmmuError if a file cannot be removed. spec: C4.4
    """
    for name, ours in (("Plan.v", OURS), ("_CoqProject", OUR_PROJECT)):
        path = Path(folder) / name
        if not path.is_file():
            continue
        try:
            mine = ours.match(read_head(path, MARK)) is not None
        except OSError:
            continue  # a file that cannot be read was not written here
        if mine:
            remove(path)


def _lists(named: list[Named]) -> Iterator[str]:
    """Yield a definition for each part of a column, and the row of words that they form together."""
    parts = 0
    for name, column in named:
        yield f"(* {name} *)\n"
        for first in range(0, len(column), AT_ONCE):
            stretch = "; ".join(map(str, column[first : first + AT_ONCE].astype(np.uint64).tolist()))
            yield f"Definition w{parts} : list Z := [{stretch}].\n"
            parts += 1
    yield "\nDefinition words : list Z := concat [\n"
    yield ";\n".join("; ".join(f"w{i}" for i in range(lo, min(lo + 20, parts))) for lo in range(0, parts, 20))
    yield "].\n"
