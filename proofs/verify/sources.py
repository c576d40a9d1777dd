"""The sources of facts that several verdicts need: the graph that runs of a model, and the proof of a plan.

A verdict on one plan asks for each anew. In a fleet (`proofs.verify.fleet`) a worker keeps the reading of the model,
and what solvers and kernel have answered about the same words is asked for once.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proofs.proving import obligations
from proofs.proving.kernel.answer import NOT_ASKED, NOT_INSTALLED, kernel_answer
from proofs.proving.kernel.program import PlanFile
from proofs.proving.obligations import PROVED, Outcome
from proofs.proving.obligations.context import Context, StorageContext
from proofs.verify.checks import BufferSubject, Subject
from proofs.verify.options import Solving
from tmmu.core import canonical, kind
from tmmu.core.progress import Doing, report_nothing
from tmmu.core.vocabulary import Bindings, Model

if TYPE_CHECKING:  # a plan that is judged without a model needs no reader of models
    from proofs.readers.models.reference import ReferenceProgram
    from proofs.sharding.stages import DividedModel, RankModel


@dataclass(frozen=True)
class Answers:
    """What solvers have answered about the obligations of a plan, and the kernel about its words."""

    outcomes: list[Outcome]
    kernel: dict[str, Any]

    @property
    def proved(self) -> bool:
        """Whether nothing is open."""
        accepted = self.kernel["answer"] in ("accepted", NOT_ASKED, NOT_INSTALLED)
        return accepted and all(outcome.verdict == PROVED for outcome in self.outcomes)


def ask(context: Context | StorageContext, of: PlanFile, solving: Solving, progress: Doing = report_nothing) -> Answers:
    """Ask solvers, and at the same time the kernel about the plan's file."""
    with ThreadPoolExecutor(max_workers=1) as aside:
        kernel = aside.submit(kernel_answer, context, of, solving.timeout)
        outcomes = obligations.prove_with(
            solving.solvers, context, timeout_s=solving.timeout, workers=solving.workers,
            definition_limit=solving.definition_limit, progress=progress,
        )  # fmt: skip
        progress("asking the kernel")
        return Answers(outcomes, kernel.result())


def read_model(path: str, bindings: Bindings) -> ReferenceProgram:
    """What must be run of the model at `path`: an IR file, or an ONNX file."""
    if kind.is_ir(path):
        from proofs.readers.models.ir import read_ir
        from tmmu.ir import files

        return read_ir(files.load(path))
    from proofs.readers.models.onnx import read_onnx

    return read_onnx(path, bindings)


class Sources:
    """Each of them anew, for every plan."""

    def model(self, path: str, bindings: Bindings, mode: str) -> ReferenceProgram:
        """Return the graph that runs of the model in a mode. Raises `TmmuError` if it cannot be read or bound."""
        from proofs.readers.models.training import reference_in_mode

        return reference_in_mode(read_model(path, bindings), mode)

    def of_rank(self, whole: ReferenceProgram, spec: dict[str, Any], rank: int) -> RankModel:
        """What one rank runs of it. Raises INVALID_SHARDING where the shard spec does not fit."""
        from proofs.sharding.stages import derive_rank_model

        return derive_rank_model(whole, spec, rank)

    def answers(self, subject: Subject | BufferSubject, solving: Solving, progress: Doing) -> Answers:
        """Ask for the proof of a plan without a known fault."""
        return ask(subject.context, PlanFile.as_read(subject.stated), solving, progress)


ANEW = Sources()


class RecordedSubject(Sources):
    """Each source anew; what is proved of the plan is kept, for what several plans must satisfy together."""

    def __init__(self) -> None:
        self.subject: Subject | BufferSubject | None = None

    def answers(self, subject: Subject | BufferSubject, solving: Solving, progress: Doing) -> Answers:
        """Ask for the proof of a plan without a known fault."""
        self.subject = subject
        return super().answers(subject, solving, progress)


class ModelInMemory(RecordedSubject):
    """Gives a model that is in no file, whatever path is asked for; all else is asked for anew, and kept."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._model = model

    def model(self, path: str, bindings: Bindings, mode: str) -> ReferenceProgram:
        """Return what is run of the model, which is checked and ordered as that of an IR file is. Raises as there."""
        from proofs.readers.models.ir import read_ir
        from proofs.readers.models.ir_tables import check_indices
        from proofs.readers.models.training import reference_in_mode
        from tmmu.ir import order, validate

        check_indices(self._model)
        validate.validate_model(self._model)
        return reference_in_mode(read_ir(order.sort_topologically(self._model)), mode)


class KeptSources(Sources):
    """What stages of a mesh run is kept: the ranks of one stage have it in common."""

    def __init__(self) -> None:
        self.divided: tuple[bytes, DividedModel] | None = None
        self.stages: dict[int, RankModel] = {}

    def of_rank(self, whole: ReferenceProgram, spec: dict[str, Any], rank: int) -> RankModel:
        """What one rank runs, worked out once for its stage. Raises INVALID_SHARDING."""
        from proofs.sharding.mesh import Mesh
        from proofs.sharding.stages import divide_model, rank_model_of

        key = canonical.digest(spec)
        if self.divided is None or self.divided[0] != key or self.divided[1].model is not whole:
            self.divided = key, divide_model(whole, spec)
            self.stages.clear()
        stage = Mesh(spec).at(rank, spec["pipeline_axis"]) if spec["pipeline_axis"] else 0
        if stage not in self.stages:
            self.stages[stage] = rank_model_of(self.divided[1], rank)
        return self.stages[stage]
