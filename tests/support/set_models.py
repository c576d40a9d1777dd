"""Models of programs that share a cache and a weight, for tests of plan sets: a few lines of text each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proofs.sets.members import SetMember
from proofs.verify.checks import Subject
from tmmu.core.vocabulary import ANYWHERE, Model
from tmmu.ir import order, text, validate
from tmmu.planner import DEFAULT, PlanOptions
from tmmu.planner.plan import PreparedModel
from tmmu.planner.sets.plan import PlannedSet
from tmmu.planner.sets.programs import prepare_program
from tmmu.plans import file
from tmmu.plans.sections import Plan


def cache_program(sizes: Sequence[int], *, cache: int = 64, changes: bool = True, donated: bool = True) -> Model:
    """A program that reads `w` and the cache, changes it in place or not, and computes a chain of `sizes` bytes."""
    lines = [
        f"tensor x u8 {sizes[0]} input", "tensor w u8 32 parameter",
        f"tensor cache u8 {cache} input{' donated' if donated else ''}",
    ]  # fmt: skip
    last = "cache"
    if changes:
        last = "new"
        lines += [f"tensor new u8 {cache} output", "node put my::Put x w cache -> new inplace new cache"]
    for k, size in enumerate(sizes[1:]):
        before = "x" if k == 0 else f"t{k - 1}"
        output = " output" if k == len(sizes) - 2 else ""
        lines += [f"tensor t{k} u8 {size}{output}", f"node n{k} my::F {before} {last} -> t{k}"]
    return read_model("\n".join(lines))


def other_program(sizes: Sequence[int]) -> Model:
    """A program that has nothing of the cache: a parameter of its own, and a chain of `sizes` bytes."""
    lines = [f"tensor x u8 {sizes[0]} input", "tensor v u8 32 parameter"]
    for k, size in enumerate(sizes[1:]):
        output = " output" if k == len(sizes) - 2 else ""
        lines += [f"tensor t{k} u8 {size}{output}", f"node n{k} my::F {'x' if k == 0 else f't{k - 1}'} v -> t{k}"]
    return read_model("\n".join(lines))


def read_model(lines: str) -> Model:
    """The valid model of some statements, in execution order."""
    model = text.read(f"tmmu-ir-text 1\n{lines}\n".encode(), "m.ir.txt")
    validate.validate_model(model)
    return order.sort_topologically(model)


def prepared(layout: str = "packed", **models: Model) -> dict[str, PreparedModel]:
    """The models prepared for a set."""
    options = PlanOptions(layout=layout)
    return {name: prepare_program(model, DEFAULT, options, ANYWHERE) for name, model in models.items()}


def members_of(made: PlannedSet, changed: Mapping[str, Plan] | None = None) -> list[SetMember]:
    """The programs of a set that was planned, or of changed plans in their place, as the verifier sees them."""
    found = []
    for name, plan in made.plans.items():
        stated = file.require_steps(file.decode(file.encode((changed or made.plans)[name])))
        subject = Subject(stated, donated=frozenset(plan.bindings.donated))
        found.append(SetMember(name, name, stated.plan, subject.run, stated.hashes["file_digest"]))
    return found
