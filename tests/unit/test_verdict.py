"""What a verdict's first line names, and what it states that was not looked at. spec: P2.5, V3.10, V3.12, C1.4"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from proofs.verify.checks import BufferSubject, buffer_violations
from proofs.verify.options import Options
from proofs.verify.verdict import OF_MODELS, TYPES, UNUSED, Verdict, absent
from proofs.violations import OF_STEPS, Obligation
from tests.support.text_models import text_model
from tmmu.core.columns import Names, column
from tmmu.core.vocabulary import ANYWHERE
from tmmu.planner import plan_memory
from tmmu.plans import file
from tmmu.plans.allocation import Arena, Buffers
from tmmu.plans.building import storages
from tmmu.plans.columns import Slots
from tmmu.plans.configuration import DEFAULT
from tmmu.plans.configuration_file import Configuration
from tmmu.plans.gate import StatedBuffers
from tmmu.plans.sections import BufferPlan, Claims, Plan, Usage, amended

PLAN = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> y")).plan
ALONE = Plan(PLAN.allocation)
ROWS = storages([(0, 4, 1, 0, 1, 0), (0, 4, 1, 1, 2, 4)])
BUFFERS = Buffers((Arena("a", 8),), ROWS, (), Names.of(["p", "q"]))
AGAINST = Options(model="m.onnx")
ARENAS, APART, ROLES = Obligation.ARENAS_ARE_CONFIGURED, Obligation.MUST_NOT_ALIAS, Obligation.ROLES_HAVE_ARENAS
SLOTS, PEAK, STEPS = Obligation.SLOT_COUNT, Obligation.PEAK, Obligation.STEPS_ARE_THE_MODEL
PEAK_ALONE, SLOTS_ALONE, MOST_ALONE = Usage(peak_live_bytes=4), Usage(slots=1), Usage(max_live=1)
COUNT = len(PLAN.allocation.arenas)


@pytest.mark.parametrize(
    ("plan", "options", "expected"),
    [
        (ALONE, Options(), {ARENAS, APART, ROLES, SLOTS, PEAK, STEPS, TYPES}),
        (ALONE, AGAINST, {ARENAS, APART, ROLES, SLOTS, PEAK}),
        (ALONE, replace(AGAINST, arenas=Configuration(DEFAULT, ANYWHERE)), {APART, ROLES, SLOTS, PEAK}),
        (replace(ALONE, claims=Claims((PEAK_ALONE,) * COUNT)), AGAINST, {ARENAS, APART, ROLES, SLOTS}),
        (replace(ALONE, claims=Claims((Usage(), SLOTS_ALONE))), AGAINST, {ARENAS, APART, ROLES, PEAK}),
        (replace(ALONE, claims=Claims((Usage(), MOST_ALONE))), AGAINST, {ARENAS, APART, ROLES, PEAK}),
        (replace(ALONE, claims=PLAN.claims), AGAINST, {ARENAS, APART}),
        (amended(ALONE, must_not_alias=((0, 1),)), AGAINST, {ARENAS, ROLES, SLOTS, PEAK}),
        (amended(ALONE, unproduced=(0,)), Options(), {ARENAS, APART, ROLES, SLOTS, PEAK, STEPS, TYPES, "unproduced"}),
        (amended(ALONE, unproduced=(0,)), AGAINST, {ARENAS, APART, ROLES, SLOTS, PEAK}),
        (BufferPlan(BUFFERS), Options(), {ARENAS, APART, SLOTS, PEAK, *OF_STEPS}),
        (BufferPlan(BUFFERS, Claims((Usage(4, 4, 0, 1, 1, 0),))), AGAINST, {ARENAS, APART, *OF_STEPS}),
    ],
)
def test_what_is_not_stated_and_not_given_is_not_looked_at(
    plan: Plan | BufferPlan, options: Options, expected: set[str]
) -> None:
    found = absent(plan, options)
    assert set(found) == expected
    reason = "no configuration is claimed" if isinstance(plan, Plan) else "no accesses are stated"
    assert found.get(ROLES, reason) == reason


def test_fields_from_which_nothing_follows_are_named() -> None:
    expected = {f"provenance.{name}" for name in UNUSED}
    assert set(absent(PLAN, AGAINST)) == {ARENAS, APART, *expected}
    unmodelled = {f"provenance.{name}" for name in OF_MODELS}
    assert set(absent(PLAN, Options())) == {ARENAS, APART, STEPS, TYPES, *expected, *unmodelled}
    origin = replace(PLAN.origin, address_token_digest=bytes(32), bindings=replace(PLAN.bindings, trust_shapes=True))
    named = absent(replace(PLAN, provenance=origin), AGAINST)
    assert set(named) - set(absent(PLAN, AGAINST)) == {
        "provenance.address_token_digest", "provenance.bindings.trust_shapes",
    }  # fmt: skip
    assert all(named.values())


def test_the_first_line_names_the_model_or_the_scope_and_the_rank() -> None:
    alone = Verdict("p.cbor", "PROVED", 0, "for the steps it states")
    assert alone.line == "PROVED p.cbor for the steps it states"
    assert replace(alone, model="m.onnx").line == "PROVED p.cbor against m.onnx"
    assert replace(alone, verdict="ERROR", model="m.onnx").line == "ERROR p.cbor"
    rank = replace(alone, assumptions={"rank": 0, "world_size": 2})
    assert rank.line == "PROVED p.cbor (rank 0 of 2) for the steps it states"


def judged(
    arena: Arena, second: tuple[int, ...], apart: tuple[tuple[int, int], ...] = (), claims: Claims | None = None,
    arenas: Configuration | None = None, digest: bytes | None = None,
) -> set[Obligation]:  # fmt: skip
    """What is false of two buffers, of which the first lies in bytes 0 to 4 at steps 0 and 1."""
    plan = BufferPlan(Buffers((arena,), storages([(0, 4, 1, 0, 1, 0), second]), apart, Names.of(["p", "q"])), claims)
    hashes = file.hashes(plan) if digest is None else {"file_digest": digest}
    return {violation.obligation for violation in buffer_violations(BufferSubject(StatedBuffers(plan, hashes), arenas))}


def test_each_thing_that_is_false_of_lifetimes_alone_is_found() -> None:
    """spec: P2.6"""
    arena, beside, after = Arena("a", 8), (0, 4, 1, 1, 2, 4), (0, 4, 1, 2, 3, 0)
    right = Claims((Usage(8, 8, 1, max_live=2, max_live_step=1),))
    assert judged(arena, beside, ((0, 1),), right) == set()
    assert judged(arena, after) == set()
    assert judged(arena, (0, 4, 1, 1, 2, 3)) == {Obligation.NO_LIVE_OVERLAP}
    assert judged(arena, (0, 5, 1, 1, 2, 4)) == {Obligation.CAPACITY}
    assert judged(arena, (0, 4, 8, 1, 2, 4)) == {Obligation.ALIGNMENT}
    assert judged(arena, after, ((0, 1),)) == {Obligation.MUST_NOT_ALIAS}
    assert judged(Arena("a", 8, reuse=False), after) == {Obligation.NO_LIVE_OVERLAP}
    assert judged(arena, beside, claims=Claims((Usage(7),))) == {Obligation.CAPACITY}
    assert judged(arena, beside, claims=Claims((Usage(8, 9, 1),))) == {Obligation.PEAK}
    assert judged(arena, beside, arenas=Configuration(DEFAULT, ANYWHERE)) == {ARENAS}
    assert judged(arena, beside, digest=bytes(32)) == {Obligation.HASHES}
    one = Slots(column([0], np.uint32), column([4], np.uint64), column([1], np.uint64), column([0, 0], np.uint32))
    turns = Claims((Usage(8, 4, 0, 1, 1, 0, minimal=True),), one)
    assert judged(arena, (0, 4, 1, 2, 3, 4), claims=turns) == set()  # the tenants of a slot may lie at two addresses
    assert Obligation.SLOT_COUNT in judged(arena, beside, claims=turns)
