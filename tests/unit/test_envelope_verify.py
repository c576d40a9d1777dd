"""Plans for an envelope: what the file holds and the gate refuses, what is proved, and what is refuted at which shape.

spec: R6.1, R6.3, R6.5, R6.6, P1.2
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from proofs.definition.checker import envelope
from proofs.definition.violations import Obligation
from proofs.proving import obligations
from proofs.proving.lemmas.plan.shrinking import SMALLER_PARTS
from proofs.proving.obligations import sizes_over_envelope
from proofs.proving.solvers import Answer
from proofs.proving.solvers.process import SolverProcess
from proofs.readers.envelope import find_shape_apart
from proofs.readers.sharing import Permissions
from proofs.verify.command import command
from tests.support.growing import M, growing, plan, with_bytes
from tests.support.onnx_files import model_of, written
from tests.support.text_models import text_model
from tmmu.cli.commands import tmmu
from tmmu.core.columns import build_column
from tmmu.core.dims.table import Row
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Shares
from tmmu.examples.broken.editing import changed
from tmmu.ir import files
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file, gate
from tmmu.plans.columns import SHARES
from tmmu.plans.sections import Plan
from tmmu.plans.shapes import at_shape
from tmmu.tasks import checking

TEXT = """main (float[batch, seq] x, float[64, 4] cache) => (y, tail) <int64[1] zero = {0}, int64[1] end = {64}> {
    n = Shape <start = 1> (x) tail = Slice (cache, n, end, zero) t = Tanh (x) y = Relu (t) }"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(tmmu, list(arguments), standalone_mode=False)


def verified(path: Path | str, *flags: str) -> dict[str, Any]:
    result = CliRunner().invoke(command, [str(path), *flags, "--format", "json"], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    found: dict[str, Any] = json.loads(result.stdout)["files"][0]
    return found


def test_sizes_are_planned_at_their_maxima_and_said_as_expressions() -> None:
    found = plan()
    assert found.envelope is not None
    at = {name: found.envelope.point(row) for row, name in enumerate(found.allocation.tensors.name)}
    assert at == {"x": [64], "a": [64], "y": [64], "b": [1]}
    assert found.sizes() == [M, M, M, 65 - M]
    assert found.allocation.tensors.bytes.tolist() == [64] * 4
    assert found.envelope == plan().envelope
    assert found.envelope != plan(replan_policy="REPLAN_AT_SAFEPOINT").envelope
    assert plan_memory(text_model("node relu Relu x -> y")).plan.envelope is None


def test_a_plan_is_proved_for_every_shape_and_the_command_says_so(tmp_path: Path) -> None:
    model = written(tmp_path, model_of(TEXT))
    flags = ("--dim", "batch=1..4", "--dim", "seq=8..64")
    assert run("plan", model, "-o", str(tmp_path / "p.cbor"), *flags).exit_code == 0
    for more in ((), ("--model", model), ("--model", model, *flags)):
        answer = verified(tmp_path / "p.cbor", *more)
        assert answer["verdict"] == "PROVED"
        assert answer["assumptions"]["ranges"] == {"batch": [1, 4], "seq": [8, 64]}
        entry = next(entry for entry in answer["obligations"] if entry["name"] == "sizes_over_envelope")
        assert (entry["verdict"], entry["rows"] > 3) == ("PROVED", True)
    found = file.load(tmp_path / "p.cbor").plan
    assert (
        dict(zip(found.allocation.tensors.name, found.allocation.tensors.bytes.tolist(), strict=True))["tail"]
        == 16 * 56
    )


def test_a_range_of_one_size_is_that_size(tmp_path: Path) -> None:
    model = written(tmp_path, model_of(TEXT))
    for name, seq in (("a", "8..8"), ("b", "8")):
        assert run("plan", model, "-o", str(tmp_path / name), "--dim", "batch=2", "--dim", f"seq={seq}").exit_code == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_size_that_some_shape_exceeds_is_refuted_with_the_shape(tmp_path: Path) -> None:
    file.save(with_bytes(plan(), "b", 63), tmp_path / "p.cbor")
    answer = verified(tmp_path / "p.cbor")
    assert answer["verdict"] == "REFUTED"
    assert answer["witness"]["shape"] == {"m": 1}
    assert answer["witness"]["sizes"] == [64, 63]
    text = CliRunner().invoke(command, [str(tmp_path / "p.cbor")]).output
    assert "  shape: m=1\n" in text


def test_a_size_that_no_shape_reaches_is_refuted(tmp_path: Path) -> None:
    """Larger than need be is safe, but no maximum."""
    found = next(envelope.violations(with_bytes(plan(), "b", 65)))
    assert (found.tensors, found.shape, found.sizes) == (("b",), {"m": 1}, (64, 65))


def test_a_negative_size_is_found() -> None:
    """Rows that no shape of a tensor gives: a size of 0 - m."""
    found = plan()
    assert found.envelope is not None
    terms = found.envelope.terms
    rows = [*terms.rows(), Row(0, 0, 0, 0), Row(3, len(terms), found.envelope.size.tolist()[0], 0)]
    columns = {
        name: build_column([getattr(row, name) for row in rows], getattr(terms, name).dtype.type)
        for name in Row._fields
    }
    changed = replace(
        found.envelope, terms=replace(terms, **columns), size=build_column([len(rows) - 1] * 4, np.uint32)
    )
    problem = next(envelope.violations(replace(found, envelope=changed)))
    assert (problem.tensors, problem.shape, problem.sizes) == (("x",), {"m": 64}, (-64, 64))
    assert obligations.prove_over_envelope(replace(found, envelope=changed), 60.0).verdict == obligations.VIOLATED


def test_a_size_that_is_negative_at_its_least_alone_is_found() -> None:
    """b has 66 - 2m bytes: the 64 that are planned, at m = 1, and fewer than none at the other end."""
    found = plan()
    assert found.envelope is not None
    terms, sizes = found.envelope.terms, found.envelope.size.tolist()
    b = found.allocation.tensors.name.list().index("b")
    rows = [*terms.rows(), Row(0, 0, 0, 1), Row(3, sizes[0], len(terms), 0), Row(3, sizes[b], len(terms) + 1, 0)]
    columns = {
        name: build_column([getattr(row, name) for row in rows], getattr(terms, name).dtype.type)
        for name in Row._fields
    }
    sizes[b] = len(rows) - 1
    changed = replace(found.envelope, terms=replace(terms, **columns), size=build_column(sizes, np.uint32))
    assert [
        (problem.tensors, problem.shape, problem.sizes)
        for problem in envelope.violations(replace(found, envelope=changed))
    ] == [(("b",), {"m": 64}, (-62, 64))]


def test_a_size_that_intervals_alone_would_call_negative_is_accepted(tmp_path: Path) -> None:
    """m * (65 - m): no product is negative, but 65 * 1 - 64 * 64 is."""
    model = text_model("dim m 1 64", "node relu Relu x -> y", each="u8 mx(65-m)")
    files.save(model, tmp_path / "m.ir.cbor")
    file.save(plan_memory(model).plan, tmp_path / "p.cbor")
    assert verified(tmp_path / "p.cbor", "--model", str(tmp_path / "m.ir.cbor"))["verdict"] == "PROVED"


def test_a_view_that_is_one_at_some_shapes_only_is_refuted() -> None:
    """spec: R6.6"""
    model = text_model(
        "dim m 1 64", "tensor x u8 m", "tensor v u8 64 view x 0", "node reshape Reshape x -> v", "node relu Relu v -> y"
    )
    found = next(envelope.violations(plan_memory(model).plan))
    assert (found.tensors, found.shape, found.sizes) == (("v", "x"), {"m": 1}, (64, 1))
    assert "v is planned a view of x, but at m=1 " in found.text


def test_a_window_inside_its_base_at_every_shape_is_none_of_these() -> None:
    lines = ("dim m 1 64", "tensor v u8 9 view x 8", "node window own::Window x -> v", "node relu Relu v -> y")
    for base, inside in (("(m+16)", True), ("m", False)):
        model = text_model(*lines, f"tensor x u8 {base}")
        assert (list(envelope.violations(plan_memory(model).plan)) == []) == inside


def opened(*lines: str, inputs: str = "x") -> Plan:
    return plan_memory(text_model("dim m 1 64", *lines, inputs=inputs)).plan


def said(found: Plan, tensor: str, word: Shares, of: str) -> list[tuple[tuple[str, ...], dict[str, int]]]:
    """What is wrong where the plan says that a tensor shares bytes so."""
    entry = {"shares": SHARES.index(word), "of": found.allocation.tensors.name.list().index(of)}
    return [(p.tensors, p.shape) for p in envelope.violations(changed(found, "tensors", tensor, **entry))]


@pytest.mark.parametrize(("op", "word"), [("Relu", Shares.IN_PLACE), ("Reshape", Shares.VIEW), ("Own", Shares.VIEW)])
def test_what_takes_all_bytes_of_another_has_its_size_at_every_shape(op: str, word: Shares) -> None:
    """Neither larger nor smaller, by one byte or by many; only a window may be smaller than its base. spec: R6.6"""
    for base, size, shape in (("64", "m", {"m": 1}), ("m", "64", {"m": 1}), ("(m+1)", "m", {"m": 1}), ("m", "m", None)):
        sizes = (f"tensor x u8 {base}", f"tensor v u8 {size}")
        found = opened(*sizes, f"node first {op} x -> v", "node relu2 Relu v -> y")
        window = op == "Own" and (base, size) != ("m", "64")
        assert said(found, "v", word, "x") == ([] if window or shape is None else [(("v", "x"), shape)])
        assert said(found, "v", Shares.ALIAS, "x") == []


def test_what_the_caller_gives_may_be_a_window_of_what_it_gives() -> None:
    for base, size, wrong in (("m", "64", [(("w", "x"), {"m": 1})]), ("64", "m", [])):
        found = opened(f"tensor x u8 {base}", f"tensor w u8 {size}", "node add Add x w -> y", inputs="x w")
        assert said(found, "w", Shares.VIEW, "x") == wrong


def test_a_window_of_a_window_begins_where_its_base_does() -> None:
    lines = ("node w own::W x -> b", "node w2 own::W b -> v", "node relu Relu v -> y", "tensor x u8 99")
    for more, wrong in ((16, []), (15, [("v", "b")])):
        found = opened(*lines, f"tensor b u8 (m+{more}) view x 4", "tensor v u8 9 view b 8")
        assert [problem.tensors for problem in envelope.violations(found)] == wrong


def test_a_size_that_several_tensors_have_is_shown_once() -> None:
    found = with_bytes(with_bytes(plan(), "x", 63), "a", 63)
    assert [p.tensors for p in envelope.violations(found) if p.sizes[1] == 63] == [("x",), ("x",)]


def test_two_sizes_are_apart_where_some_shape_tells_them_apart() -> None:
    ranges = {"m": (1, 64)}
    assert find_shape_apart(M, M, ranges) is None
    assert find_shape_apart(M + 1, M, ranges) == find_shape_apart(M, M + 1, ranges) == {"m": 1}
    assert find_shape_apart(64, M, ranges) == {"m": 1}  # at 64 they are equal


WRONG: list[tuple[str, Any, str]] = [
    ("envelope", 3, "envelope: expected a map"),
    ("envelope.policy", "RETRY", "envelope.policy: expected"),
    ("envelope.policy", 3, "envelope.policy: expected a text"),
    ("envelope.extra", 1, "the key 'extra' is unknown"),
    ("envelope.size", np.array([0, 0, 0], np.uint32), "envelope.size: expected 4 rows"),
    ("envelope.size", np.array([0, 0, 0, 99], np.uint32), "envelope.size row 3: expected"),
    ("envelope.size", [0, 0, 0, 0], "envelope.size: expected a column"),
    ("envelope.points", np.array([64, 0], np.uint64), "expected 'm' from 1 to 64, got 0"),
    ("envelope.points", np.array([64, 65], np.uint64), "expected 'm' from 1 to 64, got 65"),
    ("envelope.points", np.array([64], np.uint64), "envelope.largest_at row 3: expected one of 1 rows"),
    ("envelope.largest_at", np.array([0, 0, 0, 2], np.uint32), "envelope.largest_at row 3: expected one of 2 rows"),
    ("envelope.terms.op", np.array([9] * 3, np.uint8), "envelope.terms: term 0: unknown operation 9"),
    ("envelope.terms.value", np.array([0], np.uint64), "envelope.terms.value: expected"),
    ("envelope.ranges", {"m": [1, 64], "n": [2, 2]}, "envelope.ranges.n: the range is empty"),
    ("envelope.ranges", {"m": [1, 64], "n": [1, 9]}, "a shape has 'm' outside|shapes of 2 dimensions|expected one of"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG, ids=[f"{p}-{k}" for k, (p, _, _) in enumerate(WRONG)])
def test_the_gate_refuses_what_is_no_envelope(path: str, value: Any, message: str) -> None:
    root = copy.deepcopy(file.to_object(plan()))
    *folders, last = path.split(".")
    table: Any = root
    for key in folders:
        table = table[key]
    if value is None:
        del table[last]
    else:
        table[last] = value
    with pytest.raises(TmmuError, match=message) as refused:
        gate.from_object(root)
    assert refused.value.code_id == "INVALID_PLAN"


def test_an_envelope_without_ranges_and_points_of_no_dimension_are_refused() -> None:
    root = file.to_object(plan())
    bare = {**root, "envelope": {**root["envelope"], "ranges": {}}}
    with pytest.raises(TmmuError, match="expected a dimension"):
        gate.from_object(bare)


class Scripted:
    """A solver that gives these answers in turn."""

    version = "scripted"

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        return Answer(self.texts.pop(0), None, 0.5)

    def close(self) -> None:
        self.texts.clear()


def test_a_symbolic_plan_says_so_and_has_slots() -> None:
    """spec: R6.15"""
    root = file.to_object(plan(symbolic=True))
    assert root["envelope"]["symbolic"] is True
    assert "symbolic" not in file.to_object(plan())["envelope"]
    again = gate.from_object(root).plan
    assert isinstance(again, Plan)
    assert again.envelope == plan(symbolic=True).envelope != plan().envelope
    for value in (False, 1, "yes"):
        with pytest.raises(TmmuError, match=r"envelope\.symbolic: expected true"):
            gate.from_object(root | {"envelope": root["envelope"] | {"symbolic": value}})
    with pytest.raises(TmmuError, match=r"envelope\.symbolic: offsets follow from slots"):
        gate.from_object({name: root[name] for name in root if name != "provenance"})


def two_slots(**options: Any) -> Plan:
    """A plan with two slots. At each shape they have another size."""
    model = text_model("dim m 1 64", "node a MatMul x -> a", "node b MatMul a -> b", outputs="b", each="u8 m")
    return plan_memory(model, options=PlanOptions(**options)).plan


def test_the_offsets_of_a_symbolic_plan_are_prefix_sums_at_each_shape() -> None:
    """spec: R6.15, R6.16"""
    found = two_slots(symbolic=True)
    assert list(envelope.violations(found)) == []
    for m in (1, 63, 64):
        small = at_shape(found, {"m": m})
        ends = dict.fromkeys(small.slots.arena.tolist(), 0)
        for k, (a, size) in enumerate(zip(small.slots.arena.tolist(), small.slots.bytes.tolist(), strict=True)):
            [offset] = {int(x) for x in small.allocation.storages.offset[small.slots.of == k]}
            assert offset == -(-ends[a] // 128) * 128
            ends[a] = offset + size
        assert [used.footprint for a, used in enumerate(small.usage) if a in ends] == list(ends.values())
        assert set(small.allocation.tensors.bytes.tolist()) == {m}
        fixed_ = at_shape(two_slots(), {"m": m}).allocation.storages
        assert fixed_.offset.tolist() == found.allocation.storages.offset.tolist()


def test_an_offset_that_follows_from_no_slot_is_refuted() -> None:
    """spec: R6.15"""
    found = two_slots(symbolic=True)
    row = int(found.allocation.storages.offset.argmax())
    moved = changed(found, "storages", row, offset=int(found.allocation.storages.offset[row]) + 128)
    [violation] = envelope.violations(moved)
    assert (violation.field, violation.stated, violation.recomputed) == ("storages.offset", "256", "128")
    assert list(envelope.violations(replace(moved, envelope=two_slots().envelope))) == []
    for origin in (replace(found.origin, layout="packed"), replace(found.origin, fixed={"a": 0})):
        [violation] = envelope.violations(replace(found, provenance=origin))
        assert violation.field in ("provenance.layout", "provenance.fixed")


def test_a_slot_of_a_symbolic_plan_that_claims_no_alignment_is_refuted(tmp_path: Path) -> None:
    """It ended with a division by 0. spec: R6.15, RE3.7"""
    found = two_slots(symbolic=True)
    slots = replace(found.slots, alignment=np.zeros_like(found.slots.alignment))
    path = tmp_path / "p.cbor"
    file.save(replace(found, claims=replace(found.claims, slots=slots)), str(path))
    result = CliRunner().invoke(command, [str(path), "--format", "json"])
    assert json.loads(result.output)["files"][0]["verdict"] == "REFUTED"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"layout": "packed"}, "the layout packed has no expression for an offset"),
        ({"fallback": "packed"}, "the fallback packed has no expression"),
        ({"fixed": {"a": 0}}, "a tensor has a fixed offset, and offsets move with the shape"),
    ],
)
def test_offsets_that_cannot_follow_from_sizes_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TmmuError, match=sentence):
        two_slots(symbolic=True, **options)
    with pytest.raises(TmmuError, match="no dimension is open"):
        plan_memory(text_model("node relu Relu x -> y"), options=PlanOptions(symbolic=True))


def test_show_has_a_plan_at_a_shape(tmp_path: Path) -> None:
    """spec: R6.16"""
    file.save(two_slots(symbolic=True), tmp_path / "p.cbor")
    shown = ("show", str(tmp_path / "p.cbor"), "--format", "json")
    for m, needed in ((1, 129), (64, 192)):
        arenas = json.loads(run(*shown, "--dim", f"m={m}").output)["arenas"]
        assert sum(arena["footprint_bytes"] for arena in arenas) == needed
    assert "; 129 bytes at the least sizes, 192 at the largest" in run(*shown[:2]).output
    for dim, sentence in (("m=65", "m is 65, the envelope holds 1 to 64"), ("n=1", "no dimension 'n'")):
        assert sentence in str(run(*shown, "--dim", dim).exception)


def test_what_the_solver_does_not_show_is_not_proved() -> None:
    """spec: V4.1, V4.6"""
    for answers, tensor, counterexample, queries in (
        (("unknown\nsat",), "", False, 0),
        (("unsat\nsat", "unknown\nsat"), "x", False, 2),
        (("unsat\nsat", "unsat\nunsat"), "x", False, 2),
        (("unsat\nsat", "unsat\nsat", "sat\nsat"), "b", True, 3),
    ):
        shown = sizes_over_envelope.ask(plan(), Scripted(*answers), 1.0)
        assert (shown.tensor, shown.counterexample, shown.queries) == (tensor, counterexample, queries)
        assert shown.failure == f"the solver answers {answers[-1]!r}"
    dead = Scripted("unsat\nsat")
    dead.evaluate = lambda *_: Answer("", "it died", 0.0)  # type: ignore[method-assign]
    assert sizes_over_envelope.ask(plan(), dead, 1.0).failure == "it died"
    shown = sizes_over_envelope.ask(plan(), Scripted(*["unsat\nsat"] * 3), 1.0)
    assert (shown.queries, shown.failure, shown.seconds) == (3, "", 1.5)


@pytest.mark.parametrize(
    "change", [("(<= (+ o y) p)", "(<= o p)"), ("(<= s y)", "(<= s (+ y 1))"), ("(<= t z)", "true")]
)
def test_the_reason_why_the_largest_sizes_suffice_needs_each_of_its_hypotheses(change: tuple[str, str]) -> None:
    text = SMALLER_PARTS.query()
    with SolverProcess() as solver:
        assert solver.evaluate(text, 60.0).proof
        assert change[0] in text
        assert solver.evaluate(text.replace(*change), 60.0).counterexample


def test_the_reason_speaks_of_parts_of_no_bytes_and_of_whole_ones_too() -> None:
    """Nothing is smaller than it was, everything is empty, and the first begins where the arena does."""
    hypotheses = SMALLER_PARTS.query().split("(push 1)")[1]
    edge = "(assert (and (= 0 o)(= 0 s)(= s y)(= 0 t)(= t z)(= (+ o y) p)(= (+ p z) capacity)))"
    with SolverProcess() as solver:
        assert solver.evaluate(f"(push 1){hypotheses}{edge}(check-sat)(pop 1)", 60.0).text == "sat"


def test_the_reason_says_that_the_parts_are_apart_and_in_bounds() -> None:
    before, _, rest = SMALLER_PARTS.query().partition("(assert (not ")
    constants, said = before.split("(assert")[0], rest.split("))\n(check-sat)")[0]
    meant = "(and (<= (+ o s) p)(<= (+ p t) capacity)(<= (+ o s) capacity))"
    with SolverProcess() as solver:
        answer = solver.evaluate(f"{constants}(assert (distinct {said} {meant}))(check-sat)(pop 1)", 60.0)
    assert answer.text == "unsat"


def test_the_query_speaks_of_the_rows_with_every_operation() -> None:
    """Each operation at its largest value is proved, and one less is not."""
    rows = [Row(1, 0, 0, 0), Row(1, 0, 0, 1), Row(0, 0, 0, 3)]
    with SolverProcess() as solver:
        for op, left, right, most in (
            (2, 0, 1, 13),
            (3, 0, 2, 5),
            (4, 0, 1, 40),
            (5, 0, 2, 2),
            (6, 0, 1, 5),
            (7, 0, 1, 8),
        ):
            asked = [*rows, Row(op, left, right, 0)]
            ranges = [(3, 8), (1, 5)]
            assert solver.evaluate(sizes_over_envelope.query(asked, 3, most, ranges), 60.0).proof
            assert solver.evaluate(sizes_over_envelope.query(asked, 3, most - 1, ranges), 60.0).counterexample
        less = [*rows, Row(3, 1, 0, 0)]  # from 1 - 8 up: negative somewhere
        assert solver.evaluate(sizes_over_envelope.query(less, 3, 99, [(3, 8), (1, 5)]), 60.0).counterexample
        none = [*rows, Row(5, 2, 1, 0)]  # a divisor that may be 0
        assert solver.evaluate(sizes_over_envelope.query(none, 3, 99, [(3, 8), (0, 5)]), 60.0).counterexample


def test_tensors_that_share_bytes_are_asked_about_if_their_sizes_are_different_expressions() -> None:
    """spec: R6.6, V6.13"""
    rows, ranges = [Row(1, 0, 0, 0), Row(0, 0, 0, 3), Row(2, 0, 1, 0), Row(2, 1, 0, 0)], [(1, 8)]
    with SolverProcess() as solver:
        for text, holds in (
            (sizes_over_envelope.query_in_place(rows, 2, 3, ranges), True),
            (sizes_over_envelope.query_in_place(rows, 2, 0, ranges), False),
            (sizes_over_envelope.query_view(rows, 0, 2, 3, ranges), True),
            (sizes_over_envelope.query_view(rows, 0, 2, 4, ranges), False),
        ):
            answer = solver.evaluate(text, 60.0)
            assert (answer.proof, answer.counterexample) == (holds, not holds)


def test_each_pair_of_sizes_that_share_bytes_is_asked_about_once() -> None:
    """Not if both have one expression. The first tensor of a pair is named."""
    found = plan()
    x, a, y, b = map(found.allocation.tensors.name.list().index, "xayb")
    of_sizes = len(list(sizes_over_envelope.queries(found)))
    for sharing, asked in (
        (Permissions(in_place={a: x, y: a}, views={y: (x, 0)}), []),
        (Permissions(in_place={b: x, y: b, a: b}), [b, y]),
        (Permissions(views={b: (x, 0), a: (x, 8), y: (a, 8)}), [a, b]),
    ):
        about = {t for t, _ in [*sizes_over_envelope.queries(found, sharing)][of_sizes:]}
        assert about == set(asked)
    with SolverProcess() as solver:
        shown = sizes_over_envelope.ask(found, solver, 60.0, Permissions(in_place={b: x}))
    assert (shown.tensor, shown.counterexample) == ("b", True)


def test_a_plan_for_an_envelope_is_not_proved_without_that_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: R6.5, V4.6"""
    file.save(plan(), tmp_path / "p.cbor")
    asked = obligations.prove
    rest = lambda *a, **k: [found for found in asked(*a, **k) if found.name != Obligation.SIZES_OVER_ENVELOPE]  # noqa: E731  # one line
    monkeypatch.setattr(obligations, "prove", rest)
    answer = verified(tmp_path / "p.cbor")
    assert answer["verdict"] == "UNKNOWN"
    assert any(note.startswith("sizes_over_envelope: ") for note in answer["notes"])


def test_tmmu_plan_refuses_by_name_what_the_solver_does_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: R6.2, C2.1"""
    model = written(tmp_path, model_of(TEXT))
    silent = obligations.Outcome("sizes_over_envelope", obligations.UNKNOWN, 2, 0.0, note="tail: no answer")
    monkeypatch.setattr(checking.obligations, "prove_over_envelope", lambda *_: silent)
    result = run("plan", model, "-o", str(tmp_path / "p.cbor"), "--dim", "batch=1..4", "--dim", "seq=8..64")
    assert isinstance(result.exception, TmmuError)
    assert "(tail: no answer)" in str(result.exception)
    assert not (tmp_path / "p.cbor").exists()


def test_an_ir_file_with_open_dimensions_is_planned_and_proved(tmp_path: Path) -> None:
    files.save(growing(), tmp_path / "m.ir.cbor")
    result = run("plan", str(tmp_path / "m.ir.cbor"), "-o", str(tmp_path / "p.cbor"))
    assert result.exit_code == 0, result.exception
    assert verified(tmp_path / "p.cbor", "--model", str(tmp_path / "m.ir.cbor"))["verdict"] == "PROVED"


@pytest.mark.parametrize(
    ("name", "high", "stated", "recomputed"),
    [("k", 64, "k=(1, 64)", "k=nothing"), ("m", 65, "m=(1, 65)", "m=(1, 64)")],
)
def test_a_plan_for_another_envelope_than_the_models_is_refuted_by_name(
    name: str, high: int, stated: str, recomputed: str, tmp_path: Path
) -> None:
    """Of another dimension, and of another range of it. spec: V3.3"""
    files.save(growing(), tmp_path / "m.ir.cbor")
    made = plan()
    assert made.envelope is not None
    file.save(replace(made, envelope=replace(made.envelope, ranges={name: (1, high)})), tmp_path / "p.cbor")
    answer = verified(tmp_path / "p.cbor", "--model", str(tmp_path / "m.ir.cbor"))
    assert (answer["verdict"], answer["witness"]["field"]) == ("REFUTED", "binding")
    assert (answer["witness"]["stated"], answer["witness"]["recomputed"]) == (stated, recomputed)


def test_show_tells_the_envelope_and_where_tensors_are_largest(tmp_path: Path) -> None:
    """spec: R6.11"""
    file.save(plan(replan_policy="REPLAN_AT_SAFEPOINT"), tmp_path / "p.cbor")
    text = run("show", str(tmp_path / "p.cbor")).output
    assert [line.split(":")[0] for line in text.splitlines()[1:4]] == [
        "  envelope", "  largest at m=64", "  largest at m=1",
    ]  # fmt: skip
    document = json.loads(run("show", str(tmp_path / "p.cbor"), "--format", "json").output)
    assert document["envelope"]["ranges"] == {"m": [1, 64]}
    assert [group["shape"] for group in document["envelope"]["largest"]] == [{"m": 64}, {"m": 1}]
    rows = json.loads(run("show", str(tmp_path / "p.cbor"), "--tensors", "--format", "json").output)["tensors"]
    assert [row["size"] for row in rows] == ["m", "m", "m", "-m + 65"]
