"""Every field of a plan is checked, harmless, or named in the verdict: each is edited by itself, to each other value.

An edit whose hashes recompute is refused by the gate or refuted; or a runtime that does what the plan states, whatever
it states (`tests.support.every_field`), computes what private memory would; or the verdict names the field among its
assumptions or what was not looked at. spec: V3.12, V1.15, V3.10, V3.11
"""

from __future__ import annotations

from collections import Counter
from itertools import islice, product

import pytest

from proofs.readers.models.ir import read_ir
from proofs.readers.models.training import reference_in_mode
from proofs.sharding.stages import RankModel, derive_rank_model
from proofs.verify.checks import Subject, violations
from proofs.verify.options import Options
from proofs.verify.verdict import absent
from tests.support import effort, sharded
from tests.support.every_field import OF_THE_FILE, Path, edits, field_of, wrong
from tmmu.core import canonical
from tmmu.core.dims.expressions import evaluate
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.examples.broken import exclusive, models
from tmmu.examples.broken.editing import right
from tmmu.examples.broken.sketch import model as sketch
from tmmu.plans import file, gate
from tmmu.plans.gate import StatedPlan
from tmmu.plans.sections import Plan

SHARED = sketch("""
    tensor w f32 64 parameter
    tensor s f32 64 optimizer
    tensor v f32 64 view a 0
    tensor o f32 16 view b 64
    tensor b f32 64 saved
    tensor d f32 64 gradient
    node a MatMul x w -> a
    node v Reshape a -> v
    node b Relu v -> b inplace b v scratch 16
    node o my::Cut b -> o
    node c MatMul x w -> c
    node d MatMul c w -> d
    node e MatMul d w -> e
    node y Add e o -> y
    alias g c e
    apart a c
    unproduced nothing
""")
"""Views, a window, a result in place, an alias group, scratch, a pair that must not alias, every role."""
OPEN = sketch("""
    dim n 1 4
    tensor x f32 nx4 input
    tensor a f32 nx4
    tensor b f32 nx4
    tensor c f32 8 input
    tensor y f32 nx4 output
    node a MatMul x c -> a
    node b Relu a -> b inplace b a
    node y Add b x -> y
""")
CASES: dict[str, tuple[Plan, Model]] = {
    "shared": (right(SHARED), SHARED),
    "loop": (right(models.loop()), models.loop()),
    "branch": (right(exclusive.switch()), exclusive.switch()),
    "open": (right(OPEN), OPEN),
    "rank": (sharded.plans()[1], sharded.LAYERS),
}
BINDINGS = ("provenance.bindings.", "envelope.ranges")
"""Bindings, which a verdict prints as assumptions where no model fixes them."""
CONFIGURED = ("allocation.arenas", "claims.configuration")
TYPED = ("allocation.dtypes", "allocation.tensors.dtype")


def accepted(path: Path, changed: object, model: Model | None) -> Plan | None:
    """The plan of an edited object where neither the gate nor the naive side refuses it."""
    try:
        stated = gate.from_object(changed)
        assert isinstance(stated, StatedPlan)
        if path[-1] in OF_THE_FILE:
            stated = file.require_steps(file.decode(canonical.encode(changed)))
        else:
            stated = StatedPlan(stated.plan, file.compute_hashes(stated.plan))
        plan, origin = stated.plan, stated.plan.origin
        against = None
        if model is not None:
            whole = reference_in_mode(read_ir(model), origin.mode)
            against = (
                derive_rank_model(whole, origin.shard_spec, origin.rank) if origin.shard_spec else RankModel(whole, {})
            )
    except TmmuError:
        return None
    return plan if next(violations(Subject(stated, against, mode=origin.mode)), None) is None else None


def is_named(field: str, plan: Plan, options: Options) -> bool:
    """Whether the verdict names the field, as it stands, among its assumptions or what was not looked at."""
    missing = absent(plan, options)
    if field.startswith(CONFIGURED):
        return "arenas_are_configured" in missing  # and all of it is in `assumptions`
    if field in TYPED:
        return "types" in missing
    if field.startswith(BINDINGS) and options.model is None:
        return True
    if field.startswith("provenance.shard_spec"):
        return "provenance.shard_spec" in missing
    return field in missing or field.removeprefix("allocation.") in missing


def is_true_of_claims(path: Path, before: Plan, after: Plan) -> bool:
    """Whether a step at which as much is live as at the one before is claimed, or a claim is not made any more."""
    field, arena = path[-1], path[2]
    assert isinstance(arena, int)
    used = after.usage[arena]
    s = after.allocation.storages
    step = used.peak_step if field == "peak_step" else used.max_live_step
    live = (s.arena == arena) & (s.birth <= (step or 0)) & (s.death >= (step or 0))
    return {
        "peak_step": int(s.bytes[live].sum()) == used.peak_live_bytes,
        "max_live_step": int(live.sum()) == used.max_live,
        "minimal": before.usage[arena].minimal and not used.minimal,
    }.get(str(field), False)  # fmt: skip


def is_true_of_sizes(plan: Plan) -> bool:
    """Whether each tensor has its planned bytes at the shape that is stated for it, and no more at any other."""
    assert plan.envelope is not None
    sizes, planned = plan.sizes(), plan.allocation.tensors.bytes.tolist()
    ranges = [range(low, high + 1) for low, high in plan.ranges.values()]
    return all(
        evaluate(size, dict(zip(plan.ranges, plan.envelope.point(i), strict=True))) == planned[i]
        and all(evaluate(size, dict(zip(plan.ranges, shape, strict=True))) <= planned[i] for shape in product(*ranges))
        for i, size in enumerate(sizes)
    )


@pytest.mark.parametrize("against", ["steps alone", "the model"])
@pytest.mark.parametrize("case", CASES)
def test_an_edited_field_is_refused_harmless_or_named(case: str, against: str) -> None:
    """Every edit under the profile `full`, every second one elsewhere. spec: V3.12"""
    plan, model = CASES[case]
    given = model if against == "the model" else None
    options = Options(model=None if given is None else "given")
    assert accepted(("",), file.to_object(plan), given) is not None
    assert not wrong(plan)
    every = 1 if effort.share(2) == 2 else 2
    outcomes: Counter[str] = Counter()
    slipped = []
    for path, changed in islice(edits(plan), 0, None, every):
        field = field_of(path)
        found = accepted(path, changed, given)
        if found is None:
            outcomes["refused"] += 1
        elif is_named(field, found, options):
            outcomes["named"] += 1
        elif field.startswith("claims.usage."):
            outcomes["true"] += 1
            if not is_true_of_claims(path, plan, found):
                slipped.append((path, "a false claim"))
        elif field.startswith("envelope."):
            if not is_true_of_sizes(found):
                slipped.append((path, "a false size"))
        elif field.startswith("allocation."):
            outcomes["harmless"] += 1
            if why := wrong(found):
                slipped.append((path, why))
        else:
            slipped.append((path, "not named"))
    assert slipped == []
    assert all(outcomes[what] for what in ("refused", "named", "true", "harmless"))


def test_the_runtime_can_go_wrong() -> None:
    """Each false statement of sharing is computed otherwise by a runtime that does what is stated. spec: V1.15"""
    from tmmu.examples.broken import KINDS

    for kind in ("in-place-elsewhere", "alias-elsewhere", "in-place-read-later", "view-beside-its-base"):
        assert wrong(KINDS[kind].build().plan), kind
    assert wrong(KINDS["storage-misaligned"].build().plan)
