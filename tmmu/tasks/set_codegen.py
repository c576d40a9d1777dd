"""C of a plan set: its plans are paired with their models and proved, each and together, before anything is written.

spec: MC11.1, MC11.2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from proofs.readers.donation import patterns_of_program
from proofs.verify import judge
from proofs.verify import sets as together
from proofs.verify.options import Disagreement, Options, SharedNames
from proofs.verify.sets import JudgedPlan
from proofs.verify.verdict import PROVED, Verdict
from tmmu.core.errors import TmmuError
from tmmu.core.progress import Doing
from tmmu.core.reading import digest_file
from tmmu.core.vocabulary import Bindings
from tmmu.mico import CodeOptions, ProgramSource, generate_set
from tmmu.plans import file, sets
from tmmu.plans.gate import StatedPlan
from tmmu.plans.sets import PlanSet


@dataclass(frozen=True)
class PairedSet:
    """A set with the plan and the model of each of its programs, by name."""

    folder: str
    manifest: PlanSet
    plans: Mapping[str, StatedPlan]
    models: Mapping[str, str]


def pair_models(folder: str, paths: Sequence[str]) -> PairedSet:
    """Read a set, and find the model of each plan by its digest. spec: MC11.2

    Raises INVALID_PLAN for a folder that is no set or lacks a plan, and REPLAY_DIVERGENCE for a plan whose model is not
    given, or a model that no plan is of.
    """
    if not sets.is_set(folder):
        fix = "give the folder that tmmu plan --share has written, or one plan"
        raise TmmuError("INVALID_PLAN", f"it has no {sets.MANIFEST}", file=folder, place="the set", fix=fix)
    manifest = sets.load(folder)
    digests = {bytes.fromhex(digest_file(path)): path for path in paths}
    plans, models = dict[str, StatedPlan](), dict[str, str]()
    for name in manifest.agreement.programs:
        path = sets.plan_path(folder, name)
        try:
            plans[name] = file.require_steps(file.load(path))
        except OSError as error:
            what, fix = f"it cannot be read ({error.strerror})", "plan the set again"
            raise TmmuError("INVALID_PLAN", what, file=path, place=f"program {name!r}", fix=fix) from error
        origin = plans[name].plan.provenance
        model = None if origin is None or origin.source_digest is None else digests.get(origin.source_digest)
        if model is None:
            raise TmmuError(
                "REPLAY_DIVERGENCE", "none of the models given is the one that it was planned of", file=path,
                place="source_digest", fix=f"give the model of {name} with --model",
            )  # fmt: skip
        models[name] = model
    if unread := [path for path in paths if path not in models.values()]:
        raise TmmuError(
            "REPLAY_DIVERGENCE", "no program of the set was planned of it", file=unread[0], place="the model",
            fix=f"leave it out: the set has {', '.join(models)}",
        )  # fmt: skip
    return PairedSet(folder, manifest, plans, models)


def judge_set(paired: PairedSet, bindings: Bindings, doing: Doing) -> Verdict:
    """Return the verdict on a set, or that on its first plan that is not PROVED. Raises `Disagreement`."""
    judged = []
    options = Options(bindings=bindings, in_set=True)
    for name, stated in paired.plans.items():
        path = sets.plan_path(paired.folder, name)
        own = replace(bindings, donated=patterns_of_program(bindings.donated, name))
        asked = replace(options, model=paired.models[name], bindings=own)
        judged.append(JudgedPlan(path, stated, judge.judge(path, stated, asked, doing)))
    if wrong := [plan for plan in judged if plan.verdict.verdict != PROVED]:
        return wrong[0].verdict
    if unknown := together.misspelt(judged, bindings.donated):
        raise Disagreement(f"--donate {unknown[0]}: no program has a graph input or parameter of this name")
    return next(together.verdicts(judged, {paired.folder: paired.manifest}, SharedNames(), options))


def write_set(paired: PairedSet, folder: str, options: CodeOptions, bindings: Bindings, doing: Doing) -> list[str]:
    """Prove a set and write its C. Raises as `generate_set` and `judge_set`; PlanNotProved has the `Verdict`."""
    programs = {name: ProgramSource(stated.plan, paired.models[name]) for name, stated in paired.plans.items()}
    return generate_set(
        paired.manifest, programs, folder, prove=lambda: judge_set(paired, bindings, doing), options=options
    )
