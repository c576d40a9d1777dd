"""What the verifier says of a lie, and whether that is what it must say.

The verdict is that of `verify-plan` itself, on files: gate, naive checker, structure, claims, hashes, and of a right
plan Z3 and the kernel. Of some lies that are refuted the solver is asked besides for the rows of the obligation, which
it must not discharge, and of fewer the kernel, which must not say yes.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proofs import obligations
from proofs.kernel import installed
from proofs.kernel.program import ask
from proofs.obligations import OBLIGATIONS, Obligation
from proofs.obligations.context import Context, view_of
from proofs.obligations.rows import Unprovable, gathered
from proofs.readers.sharing import permitted
from proofs.solvers import refutation
from proofs.solvers.process import Z3
from proofs.verify import judge as verify_plan
from proofs.verify import ranks
from proofs.verify.judge import Options
from proofs.verify.verdict import PROVED, REFUTED, Verdict
from tests.nightly.soak.figures import Figures
from tests.nightly.soak.lies import Files, Lie
from tests.nightly.soak.scenes import Scene
from tests.nightly.soak.witness import confirmed, shows_ranks
from tmmu.core.errors import TmmuError
from tmmu.plan.gate import Stated

BY_ROWS = {obligation.NAME: obligation for obligation in OBLIGATIONS}
BY_KERNEL = (
    "no_live_overlap", "alignment", "tensors_within_storages", "lifetimes_cover_accesses", "sharing_is_sound",
    "must_not_alias",
)  # fmt: skip
"""Codes that the kernel must say no to. It does not look at roles."""
NOT_ITS_OWN = ("another_role",)
PATIENCE = 120
"""Seconds after which a verdict is said to hang."""


class Hang(Exception):
    """There is no verdict after so long."""


class Judge:
    """A folder for files, warm solvers, and the figures that all verdicts are counted in."""

    def __init__(
        self, folder: Path, solver: Z3, figures: Figures, rows_every: int = 40, kernel_every: int = 200
    ) -> None:
        self.folder, self.solver, self.figures = folder, solver, figures
        self.rows_every, self.kernel_every = rows_every, kernel_every
        self.kernel = installed.program()
        self._known: dict[tuple[bytes, frozenset[str]], tuple[Verdict, Stated]] = {}

    def scene(self, scene: Scene) -> bool:
        """Every plan of a scene is proved, against its model and alone; no other verdict may be."""
        self._known.clear()
        for rank, data in enumerate(scene.plan_files):
            try:
                with patience():
                    verdict, _ = self._verdict(data, rank, scene.model_file, scene.donated)
                    if verdict.verdict == PROVED:
                        verdict, _ = self._verdict(data, rank, None, scene.donated)
            except Exception:
                self.figures.wrong.append(f"{scene.name}: right, and {traceback.format_exc(limit=-3)}")
                return False
            if verdict.verdict != PROVED:
                self.figures.wrong.append(
                    f"{scene.name}: right, and {verdict.verdict}: {verdict.witness or verdict.notes}"
                )
                return False
        self.figures.scenes[scene.name.partition(":")[0]] += 1
        return True

    def lie(self, scene: Scene, lie: Lie, given: Files, where: str) -> None:
        """One lie: it must be refused with its code and a witness that holds."""
        donated = scene.donated if given.donated is None else given.donated
        self.figures.count(lie.title, "told")
        try:
            with patience():
                self._judge(scene, lie, given, donated, where)
        except Exception:
            self.figures.wrong.append(f"{where}: {traceback.format_exc(limit=-3)}")

    def _judge(self, scene: Scene, lie: Lie, given: Files, donated: frozenset[str], where: str) -> None:
        figures = self.figures
        try:
            verdict, stated = self._asked(scene, lie, given, donated)
        except TmmuError as error:
            self._refusal(lie, given, error, where)
            return
        broken = {entry["name"] for entry in verdict.obligations if entry["verdict"] == REFUTED}
        if lie.code == "each_plan":  # of the ranks nothing is wrong but that one plan is refuted
            open_ = {entry["name"] for entry in verdict.obligations if entry["verdict"] != PROVED}
            if verdict.verdict == PROVED or open_ != {"each_plan"}:
                figures.wrong.append(f"{where}: {verdict.verdict}, {open_}")
                return
            for column in ("refused", "by code", "first", "confirmed"):
                figures.count(lie.title, column)
            return
        if verdict.verdict != REFUTED or verdict.witness is None:
            figures.wrong.append(f"{where}: {verdict.verdict} {verdict.notes}")
            return
        figures.count(lie.title, "refused")
        codes = given.codes or (lie.code,)
        if broken & set(codes):
            figures.count(lie.title, "by code")
        else:
            figures.wrong.append(f"{where}: refuted as {sorted(broken)}: {verdict.witness}")
        if verdict.witness["obligation"] in codes:
            figures.count(lie.title, "first")
        if len(stated) > 1:
            holds = shows_ranks(stated, verdict.witness)
        else:
            holds = confirmed(scene, stated[0], donated, verdict.witness)
        if holds:
            figures.count(lie.title, "confirmed")
        else:
            figures.wrong.append(f"{where}: the witness does not hold: {verdict.witness}")
        if len(stated) == 1:
            self._rows(lie, stated[0], donated, where)
            self._kernel(lie, stated[0], donated, where)

    def _refusal(self, lie: Lie, given: Files, error: TmmuError, where: str) -> None:
        """No plan, or no model: one line with the code, that names the file."""
        self.figures.count(lie.title, "refused")
        if error.code_id in (given.codes or (lie.code,)):
            self.figures.count(lie.title, "by code")
            self.figures.count(lie.title, "first")
        else:
            self.figures.wrong.append(f"{where}: refused as {error.code_id}: {error}")
        text = str(error)
        named = str(self.folder / ("model.ir.cbor" if lie.with_model else "0.plan.cbor")) in text
        if named and text.endswith(f"[{error.code_id}]") and "\n" not in text:
            self.figures.count(lie.title, "confirmed")
        else:
            self.figures.wrong.append(f"{where}: it does not say where: {error}")

    def _asked(self, scene: Scene, lie: Lie, given: Files, donated: frozenset[str]) -> tuple[Verdict, list[Stated]]:
        """The verdict on a file, or of several that on all of them together; and what was read."""
        model = None
        if lie.with_model:
            model = scene.model_file if given.model is None else given.model
        each = [self._verdict(data, rank, model, donated) for rank, data in enumerate(given.data)]
        read = [stated for _, stated in each]
        if len(each) == 1:
            return each[0][0], read
        members = [one for verdict, stated in each if (one := ranks.member(verdict, stated)) is not None]
        (together,) = ranks.verdicts(members, Options(donated=donated))
        return together, read

    def _verdict(self, data: bytes, rank: int, model: bytes | None, donated: frozenset[str]) -> tuple[Verdict, Stated]:
        """What `verify-plan` says of a file; of the same file it says the same."""
        path, beside = self.folder / f"{rank}.plan.cbor", self.folder / "model.ir.cbor"
        path.write_bytes(data)
        if model is None and (data, donated) in self._known:
            return self._known[data, donated]
        if model is not None:
            beside.write_bytes(model)
        options = Options(model=None if model is None else str(beside), donated=donated, workers=1)
        stated = verify_plan.opened(str(path), options)
        verdict = verify_plan.judge(str(path), stated, options)
        if verdict.verdict == PROVED and model is None:
            self._known[data, donated] = verdict, stated
        return verdict, stated

    def _rows(self, lie: Lie, stated: Stated, donated: frozenset[str], where: str) -> None:
        """Not every row is discharged: of the obligation itself, or if need be of all. Asked of some lies only."""
        plan = stated.plan
        if not lie.by_rows or not self._is_turn(lie, self.rows_every):
            return
        if lie.code == "sizes_over_envelope":
            proved = obligations.over_envelope(plan, 60).verdict == PROVED
        elif lie.code in BY_ROWS:
            view = view_of(plan, permitted(plan, None, donated), donated)
            proved = self._discharged(BY_ROWS[lie.code], view) and all(self._discharged(o, view) for o in OBLIGATIONS)
        else:
            return
        self.figures.count(lie.title, "rows")
        if proved:
            self.figures.wrong.append(f"{where}: every row is discharged")
        else:
            self.figures.count(lie.title, "no rows")

    def _discharged(self, obligation: Obligation, view: Context) -> bool:
        """Whether the solver discharges every row; where it does not, which row it is does not matter here."""
        try:
            batches = gathered(obligation.rows(view))
            return all(self.solver.evaluate(refutation("\n".join(batch.rows)), 60).proof for batch in batches)
        except Unprovable:
            return False

    def _is_turn(self, lie: Lie, every: int) -> bool:
        """Whether this lie of its sort is one that is looked at further."""
        return self.figures.counts[lie.title, "told"] % every == 1 % every

    def _kernel(self, lie: Lie, stated: Stated, donated: frozenset[str], where: str) -> None:
        """The kernel, where it is installed, does not accept it: of some lies, as it is a program of its own."""
        if self.kernel is None or lie.code not in BY_KERNEL or lie.name in NOT_ITS_OWN:
            return
        if not self._is_turn(lie, self.kernel_every):
            return
        permissions = permitted(stated.plan, None, donated)
        answer = ask(self.kernel, stated.plan, permissions, donated, bytes(32), 60)
        self.figures.count(lie.title, "kernel")
        if answer.accepted and answer.slots is not False and answer.footprints is not False:
            self.figures.wrong.append(f"{where}: the kernel accepts it")
        else:
            self.figures.count(lie.title, "no kernel")


@contextmanager
def patience() -> Iterator[None]:
    """Raise `Hang` after `PATIENCE` seconds."""

    def give_up(*_: Any) -> None:
        raise Hang(f"no verdict after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
