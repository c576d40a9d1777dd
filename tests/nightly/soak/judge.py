"""What the verifier answers of a fault, and whether that is what it must answer.

The verdict is that of `verify-plan` itself, on files: gate, naive checker, structure, claims, hashes, and of a right
plan Z3 and the kernel. Of some faults that are refuted the solver is asked besides for the rows of the obligation,
which it must not discharge, and of fewer the kernel, which must not accept them.
"""

from __future__ import annotations

import traceback
from pathlib import Path

from proofs.proving import obligations
from proofs.proving.kernel import installed
from proofs.proving.kernel.program import PlanFile, ask
from proofs.proving.obligations import MODULES, PlanRows
from proofs.proving.obligations.context import Context, context_of
from proofs.proving.obligations.rows import Unprovable, combine_small_batches
from proofs.proving.solvers import refutation
from proofs.proving.solvers.process import Z3
from proofs.readers.sharing import decide_permissions
from proofs.verify import judge as verify_plan
from proofs.verify import ranks
from proofs.verify.options import Options, Solving
from proofs.verify.verdict import PROVED, REFUTED, Verdict
from tests.nightly.soak.figures import Figures
from tests.nightly.soak.witness import confirmed, shows_ranks
from tests.support.time_limit import time_limit
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings
from tmmu.plans.gate import StatedPlan
from tmmu.testing.catalogue import Case, Fault, Injected

BY_KERNEL = (
    "no_live_overlap", "alignment", "tensors_within_storages", "lifetimes_cover_accesses", "sharing_is_sound",
    "must_not_alias",
)  # fmt: skip
"""Codes that the kernel must reject. It does not look at roles."""
NOT_ITS_OWN = ("another_role",)
PATIENCE = 120
"""Seconds after which a verdict counts as hanging."""


class Hang(Exception):
    """There is no verdict after so long."""


class Judge:
    """A folder for files, warm solvers, and the figures that all verdicts are counted in."""

    def __init__(
        self, folder: Path, solver: Z3, figures: Figures, rows_every: int = 40, kernel_every: int = 200
    ) -> None:
        self.folder, self.solver, self.figures = folder, solver, figures
        self.rows_every, self.kernel_every = rows_every, kernel_every
        self.kernel = installed.find_program()
        self._known: dict[tuple[bytes, frozenset[str]], tuple[Verdict, StatedPlan]] = {}

    def right(self, case: Case) -> bool:
        """Every plan of a case is proved, against its model and alone; no other verdict may be."""
        self._known.clear()
        for rank, data in enumerate(case.plan_files):
            try:
                with time_limit(PATIENCE, Hang(f"no verdict after {PATIENCE} s")):
                    verdict, _ = self._verdict(data, rank, case.model_file, case.donated)
                    if verdict.verdict == PROVED:
                        verdict, _ = self._verdict(data, rank, None, case.donated)
            except Exception:
                self.figures.wrong.append(f"{case.name}: right, and {traceback.format_exc(limit=-3)}")
                return False
            if verdict.verdict != PROVED:
                self.figures.wrong.append(
                    f"{case.name}: right, and {verdict.verdict}: {verdict.witness or verdict.notes}"
                )
                return False
        self.figures.cases[case.name.partition(":")[0]] += 1
        return True

    def fault(self, case: Case, fault: Fault, given: Injected, where: str) -> None:
        """One fault: it must be refused with its code and a witness that holds."""
        donated = case.donated if given.donated is None else given.donated
        self.figures.count(fault.title, "injected")
        try:
            with time_limit(PATIENCE, Hang(f"no verdict after {PATIENCE} s")):
                self._judge(case, fault, given, donated, where)
        except Exception:
            self.figures.wrong.append(f"{where}: {traceback.format_exc(limit=-3)}")

    def _judge(self, case: Case, fault: Fault, given: Injected, donated: frozenset[str], where: str) -> None:
        figures = self.figures
        try:
            verdict, stated = self._asked(case, fault, given, donated)
        except TmmuError as error:
            self._refusal(fault, given, error, where)
            return
        broken = {entry["name"] for entry in verdict.obligations if entry["verdict"] == REFUTED}
        if fault.code == "each_plan":  # of the ranks nothing is wrong but that one plan is refuted
            open_ = {entry["name"] for entry in verdict.obligations if entry["verdict"] != PROVED}
            if verdict.verdict == PROVED or open_ != {"each_plan"}:
                figures.wrong.append(f"{where}: {verdict.verdict}, {open_}")
                return
            for column in ("refused", "by code", "first", "confirmed"):
                figures.count(fault.title, column)
            return
        if verdict.verdict != REFUTED or verdict.witness is None:
            figures.wrong.append(f"{where}: {verdict.verdict} {verdict.notes}")
            return
        figures.count(fault.title, "refused")
        codes = given.codes or (fault.code,)
        if broken & set(codes):
            figures.count(fault.title, "by code")
        else:
            figures.wrong.append(f"{where}: refuted as {sorted(broken)}: {verdict.witness}")
        if verdict.witness["obligation"] in codes:
            figures.count(fault.title, "first")
        if len(stated) > 1:
            holds = shows_ranks(stated, verdict.witness)
        else:
            holds = confirmed(case, stated[0], donated, verdict.witness)
        if holds:
            figures.count(fault.title, "confirmed")
        else:
            figures.wrong.append(f"{where}: the witness does not hold: {verdict.witness}")
        if len(stated) == 1:
            self._rows(fault, stated[0], donated, where)
            self._kernel(fault, stated[0], donated, where)

    def _refusal(self, fault: Fault, given: Injected, error: TmmuError, where: str) -> None:
        """No plan, or no model: one line with the code, that names the file."""
        self.figures.count(fault.title, "refused")
        if error.code_id in (given.codes or (fault.code,)):
            self.figures.count(fault.title, "by code")
            self.figures.count(fault.title, "first")
        else:
            self.figures.wrong.append(f"{where}: refused as {error.code_id}: {error}")
        text = str(error)
        named = str(self.folder / ("model.ir.cbor" if fault.with_model else "0.plan.cbor")) in text
        if named and text.endswith(f"[{error.code_id}]") and "\n" not in text:
            self.figures.count(fault.title, "confirmed")
        else:
            self.figures.wrong.append(f"{where}: it does not name the place: {error}")

    def _asked(
        self, case: Case, fault: Fault, given: Injected, donated: frozenset[str]
    ) -> tuple[Verdict, list[StatedPlan]]:
        """The verdict on a file, or of several that on all of them together; and what was read."""
        model = None
        if fault.with_model:
            model = case.model_file if given.model is None else given.model
        each = [self._verdict(data, rank, model, donated) for rank, data in enumerate(given.data)]
        read = [stated for _, stated in each]
        if len(each) == 1:
            return each[0][0], read
        members = [one for verdict, stated in each if (one := ranks.member(verdict, stated)) is not None]
        (together,) = ranks.verdicts(members, Options(bindings=Bindings(donated=tuple(donated))))
        return together, read

    def _verdict(
        self, data: bytes, rank: int, model: bytes | None, donated: frozenset[str]
    ) -> tuple[Verdict, StatedPlan]:
        """What `verify-plan` answers of a file; of the same file it is the same."""
        path, beside = self.folder / f"{rank}.plan.cbor", self.folder / "model.ir.cbor"
        path.write_bytes(data)
        if model is None and (data, donated) in self._known:
            return self._known[data, donated]
        if model is not None:
            beside.write_bytes(model)
        options = Options(
            model=None if model is None else str(beside),
            bindings=Bindings(donated=tuple(donated)),
            solving=Solving(workers=1),
        )
        stated = verify_plan.open_plan(str(path), options)
        verdict = verify_plan.judge(str(path), stated, options)
        if verdict.verdict == PROVED and model is None:
            self._known[data, donated] = verdict, stated
        return verdict, stated

    def _rows(self, fault: Fault, stated: StatedPlan, donated: frozenset[str], where: str) -> None:
        """Not every row is discharged: of the obligation itself, or if need be of all. Asked of some faults only."""
        plan = stated.plan
        if not fault.by_rows or not self._is_turn(fault, self.rows_every):
            return
        if fault.code == "sizes_over_envelope":
            proved = obligations.prove_over_envelope(plan, 60).verdict == PROVED
        elif fault.code in MODULES:
            view = context_of(plan, decide_permissions(plan, None, donated), donated)
            every = (MODULES[fault.code], *MODULES.values())
            proved = all(self._discharged(module, view) for module in every)
        else:
            return
        self.figures.count(fault.title, "rows")
        if proved:
            self.figures.wrong.append(f"{where}: every row is discharged")
        else:
            self.figures.count(fault.title, "no rows")

    def _discharged(self, obligation: PlanRows, view: Context) -> bool:
        """Whether the solver discharges every row; where it does not, which row it is does not matter here."""
        try:
            batches = combine_small_batches(obligation.rows(view))
            return all(self.solver.evaluate(refutation("\n".join(batch.rows)), 60).proof for batch in batches)
        except Unprovable:
            return False

    def _is_turn(self, fault: Fault, every: int) -> bool:
        """Whether this is a fault of its sort that is looked at further."""
        return self.figures.counts[fault.title, "injected"] % every == 1 % every

    def _kernel(self, fault: Fault, stated: StatedPlan, donated: frozenset[str], where: str) -> None:
        """The kernel, where it is installed, does not accept it: of some faults, as it is a program of its own."""
        if self.kernel is None or fault.code not in BY_KERNEL or fault.name in NOT_ITS_OWN:
            return
        if not self._is_turn(fault, self.kernel_every):
            return
        permissions = decide_permissions(stated.plan, None, donated)
        answer = ask(self.kernel, context_of(stated.plan, permissions, donated), PlanFile.of(stated.plan), 60)
        self.figures.count(fault.title, "kernel")
        if answer.accepted and answer.slots is not False and answer.footprints is not False:
            self.figures.wrong.append(f"{where}: the kernel accepts it")
        else:
            self.figures.count(fault.title, "no kernel")
