"""What a verdict's first line names, and what it states that was not looked at. spec: P2.5, V3.10, V3.12, C1.4"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from proofs.definition.checker.inputs import InputFate
from proofs.definition.violations import OF_STEPS, Discharge, Obligation, Violation, obligations_discharged
from proofs.verify.boxes import boxes
from proofs.verify.checks import BufferSubject, buffer_violations
from proofs.verify.options import Options
from proofs.verify.verdict import OF_MODELS, TYPES, UNUSED, Verdict, absent, obligations_of, refute
from tests.support.text_models import text_model
from tmmu.core.columns import Names, build_column
from tmmu.core.vocabulary import ANYWHERE
from tmmu.planner import plan_memory
from tmmu.plans import file
from tmmu.plans.allocation import Arena, Buffers
from tmmu.plans.building import build_storages
from tmmu.plans.columns import Slots, Terms
from tmmu.plans.configuration import DEFAULT
from tmmu.plans.configuration_file import Configuration
from tmmu.plans.gate import StatedBuffers
from tmmu.plans.sections import BufferPlan, Claims, Envelope, Plan, Usage, amend_plan

PLAN = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> y")).plan
ALONE = Plan(PLAN.allocation)
ROWS = build_storages([(0, 4, 1, 0, 1, 0), (0, 4, 1, 1, 2, 4)])
BUFFERS = Buffers((Arena("a", 8),), ROWS, (), Names.of(["p", "q"]))
AGAINST = Options(model="m.onnx")
ARENAS, APART, ROLES = Obligation.ARENAS_ARE_CONFIGURED, Obligation.MUST_NOT_ALIAS, Obligation.ROLES_HAVE_ARENAS
SLOTS, PEAK, STEPS = Obligation.SLOT_COUNT, Obligation.PEAK, Obligation.STEPS_ARE_THE_MODEL
PEAK_ALONE, SLOTS_ALONE, MOST_ALONE = Usage(peak_live_bytes=4), Usage(slots=1), Usage(max_live=1)
COUNT = len(PLAN.allocation.arenas)
FATE = InputFate((0,))
"""An input that no step overwrites."""


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
        (amend_plan(ALONE, must_not_alias=((0, 1),)), AGAINST, {ARENAS, ROLES, SLOTS, PEAK}),
        (
            amend_plan(ALONE, unproduced=(0,)),
            Options(),
            {ARENAS, APART, ROLES, SLOTS, PEAK, STEPS, TYPES, "unproduced"},
        ),
        (amend_plan(ALONE, unproduced=(0,)), AGAINST, {ARENAS, APART, ROLES, SLOTS, PEAK}),
        (BufferPlan(BUFFERS), Options(), {ARENAS, APART, SLOTS, PEAK, *OF_STEPS}),
        (BufferPlan(BUFFERS, Claims((Usage(4, 4, 0, 1, 1, 0),))), AGAINST, {ARENAS, APART, *OF_STEPS}),
    ],
)
def test_what_is_not_stated_and_not_given_is_not_looked_at(
    plan: Plan | BufferPlan, options: Options, expected: set[str]
) -> None:
    found = absent(plan, options, FATE)
    assert set(found) == expected
    reason = "no configuration is claimed" if isinstance(plan, Plan) else "no accesses are stated"
    assert found.get(ROLES, reason) == reason


def test_fields_from_which_nothing_follows_are_named() -> None:
    expected = {f"provenance.{name}" for name in UNUSED}
    assert set(absent(PLAN, AGAINST, FATE)) == {ARENAS, APART, *expected}
    unmodelled = {f"provenance.{name}" for name in OF_MODELS}
    assert set(absent(PLAN, Options(), FATE)) == {ARENAS, APART, STEPS, TYPES, *expected, *unmodelled}
    origin = replace(PLAN.origin, address_token_digest=bytes(32), bindings=replace(PLAN.bindings, trust_shapes=True))
    named = absent(replace(PLAN, provenance=origin), AGAINST, FATE)
    assert set(named) - set(absent(PLAN, AGAINST, FATE)) == {
        "provenance.address_token_digest", "provenance.bindings.trust_shapes",
    }  # fmt: skip
    assert all(named.values())


@pytest.mark.parametrize(
    ("fate", "is_kept", "listed"),
    [
        (InputFate(), False, False), (InputFate((0,)), False, True), (InputFate((0,), {0: 2}), False, False),
        (InputFate((0,), {0: 2}), True, True),
    ],
)  # fmt: skip
def test_inputs_are_listed_if_the_plan_keeps_them_or_overwrites_none(
    fate: InputFate, is_kept: bool, listed: bool
) -> None:
    """spec: Z1.1"""
    origin = replace(PLAN.origin, bindings=replace(PLAN.bindings, keep_inputs=is_kept))
    found = obligations_of(replace(PLAN, provenance=origin), Options(), fate)
    assert (Obligation.INPUTS_KEPT in found) == listed


def test_the_first_line_names_the_model_or_the_scope_and_the_rank() -> None:
    alone = Verdict("p.cbor", "PROVED", 0, "for the steps it states")
    assert alone.line == "PROVED p.cbor for the steps it states"
    assert replace(alone, model="m.onnx").line == "PROVED p.cbor against m.onnx"
    assert replace(alone, verdict="ERROR", model="m.onnx").line == "ERROR p.cbor"
    rank = replace(alone, assumptions={"rank": 0, "world_size": 2})
    assert rank.line == "PROVED p.cbor (rank 0 of 2) for the steps it states"


def test_a_verdict_lists_what_is_asked_of_such_a_plan_and_nothing_else() -> None:
    """Sizes over an envelope, and parts, where there are some; of lifetimes nothing that is about steps."""
    configured = replace(AGAINST, arenas=Configuration(DEFAULT, ANYWHERE))
    plain = amend_plan(PLAN, must_not_alias=((0, 1),))
    every = set(obligations_discharged(Discharge.BY_COMPARISON, Discharge.BY_ROWS))
    assert set(obligations_of(plain, configured, FATE)) == every
    none = {
        name: build_column([], kind) for name, kind in (("left", np.uint32), ("right", np.uint32), ("value", np.uint64))
    }
    rows, of_tensors = Terms(op=build_column([], np.uint8), **none), build_column([], np.uint32)
    envelope = Envelope("", {}, rows, of_tensors, build_column([], np.uint64), of_tensors)
    ranged = replace(plain, envelope=envelope)
    assert set(obligations_of(ranged, configured, FATE)) == every | {Obligation.SIZES_OVER_ENVELOPE}
    assert absent(ranged, configured)["envelope.policy"] == "it is about runs"
    sharded = replace(plain, provenance=replace(plain.origin, shard_spec="tp=2"))
    assert set(obligations_of(sharded, configured, FATE)) == every | {Obligation.SHARDS}
    assert "provenance.shard_spec" in absent(sharded, configured)
    lifetimes = BufferPlan(replace(BUFFERS, must_not_alias=((0, 1),)), Claims((Usage(8, 8, 1, 1, 2, 1),)))
    assert set(obligations_of(lifetimes, configured, FATE)) == every - set(OF_STEPS)


def test_a_witness_has_the_fields_of_its_kind() -> None:
    """spec: C1.5"""
    plain = Violation(Obligation.NO_LIVE_OVERLAP, "t", ("p", "q"), 3, "m", 1, 2)
    common = {"obligation": "no_live_overlap", "text": "t", "tensors": ["p", "q"], "steps": [3]}
    place = {"arena": "m", "first_byte": 1, "last_byte": 2}
    assert plain.witness() == common | place
    assert plain._replace(step=None).witness() == common | place | {"steps": []}
    assert plain._replace(element=(0, 4)).witness() == common | place | {"element": [0, 4]}
    assert plain._replace(shape={"n": 2}, sizes=(8, 4)).witness() == common | {"shape": {"n": 2}, "sizes": [8, 4]}
    named = {"node": "n", "field": "f", "stated": "1", "recomputed": "2"}
    assert plain._replace(**named).witness() == common | named
    ranks = plain._replace(obligation=Obligation.RANKS_MEET, ranks=(0, 1))
    assert ranks.witness() == common | {"obligation": "ranks_meet", "ranks": [0, 1]}


def test_a_refutation_shows_the_first_violation_with_its_boxes_and_lists_what_it_did_not_reach() -> None:
    """The boxes of storages where they overlap, else of tensors; none where no plan is given. spec: C1.5"""
    plan = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> y inplace y a")).plan
    wrong = [Violation(name, f"text {n}", ("a",), 0, "activations", 0, 1)
             for n, name in enumerate([Obligation.NO_LIVE_OVERLAP, *[Obligation.CAPACITY] * 6])]  # fmt: skip
    for found, of_storages in ((wrong, True), (wrong[1:], False)):
        verdict = Verdict("p.cbor", "UNKNOWN", 3, "for the steps it states")
        refute(verdict, found, [Obligation.ALIGNMENT, Obligation.CAPACITY], plan)
        assert (verdict.verdict, verdict.exit) == ("REFUTED", 1)
        expected = [box._asdict() for box in boxes(plan, ("a",), of_storages=of_storages)]
        assert expected
        assert verdict.witness == found[0].witness() | {"boxes": expected}
        assert verdict.notes == [each.text for each in found[1:6]]
        listed = {entry["name"]: (entry["verdict"], entry["detail"]) for entry in verdict.obligations}
        first = {each.obligation: each.text for each in reversed(found)}
        assert listed == {Obligation.ALIGNMENT: ("UNKNOWN", "not reached")} | {
            name: ("REFUTED", text) for name, text in first.items()
        }
    refute(verdict, [wrong[0]._replace(tensors=())], [], plan)
    assert verdict.witness == wrong[0]._replace(tensors=()).witness()
    refute(verdict, wrong, [])
    assert verdict.witness == wrong[0].witness()


def judged(
    arena: Arena, second: tuple[int, ...], apart: tuple[tuple[int, int], ...] = (), claims: Claims | None = None,
    arenas: Configuration | None = None, digest: bytes | None = None,
) -> set[Obligation]:  # fmt: skip
    """What is false of two buffers, of which the first lies in bytes 0 to 4 at steps 0 and 1."""
    plan = BufferPlan(
        Buffers((arena,), build_storages([(0, 4, 1, 0, 1, 0), second]), apart, Names.of(["p", "q"])), claims
    )
    hashes = file.compute_hashes(plan) if digest is None else {"file_digest": digest}
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
    one = Slots(
        build_column([0], np.uint32),
        build_column([4], np.uint64),
        build_column([1], np.uint64),
        build_column([0, 0], np.uint32),
    )
    turns = Claims((Usage(),), one)
    assert judged(arena, (0, 4, 1, 2, 3, 4), claims=turns) == set()  # the tenants of a slot may lie at two addresses
    assert judged(arena, beside, claims=turns) == {Obligation.SLOT_COUNT}
