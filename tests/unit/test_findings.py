"""Statements of the documents that a few lines of code disprove. `spec/findings-archive.md` has a line for each.

The last tests keep that page: every line names a test, and the test exists.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import dropwhile
from pathlib import Path

import cbor2
import numpy as np
import pycddl
import pytest

from proofs.definition.checker import execute as checker
from proofs.definition.checker.program import build_program
from proofs.definition.violations import Violation
from proofs.readers.sharing import decide_permissions
from proofs.verify.judge import verify
from proofs.verify.options import Options
from proofs.verify.verdict import PROVED, REFUTED
from tests.support import wrong_models, wrong_plans
from tests.support.objections import objections
from tests.support.text_models import text_model
from tmmu.cli.entry import run
from tmmu.core.columns import build_column
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import (
    ArenaConfiguration,
    Bindings,
    Body,
    Model,
    Node,
    Role,
    Shares,
    Tensor,
    View,
)
from tmmu.examples.broken.editing import changed as with_entries
from tmmu.ir import files
from tmmu.planner import PlanOptions
from tmmu.planner.plan import plan_memory
from tmmu.plans import file
from tmmu.plans.columns import IS_SAVED, SHARES
from tmmu.plans.sections import Plan, amend_plan

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = ROOT / "spec/findings-archive.md"


def chain(length: int, *, in_place: bool, donated: bool) -> Model:
    """`x` through `length` operations to `y`, each in place where that is declared."""
    tensors = [Tensor("x", (256,), "float32", Role.INPUT, 1024)]
    tensors += [Tensor(f"t{k}", (256,), "float32", Role.ACTIVATION, 1024) for k in range(length)]
    nodes = [Node(f"n{k}", "Relu", (k,), (k + 1,), in_place=((k + 1, k),) if in_place else ()) for k in range(length)]
    bindings = Bindings(donated=("x",) if donated else ())
    return Model("chain", tuple(tensors), tuple(nodes), (Body(-1, "", (0,), (length,)),), bindings=bindings)


@pytest.mark.parametrize(
    ("in_place", "donated", "slots"), [(True, True, 1), (True, False, 2), (False, True, 2), (False, False, 2)]
)
def test_a_linear_chain_takes_one_slot_only_in_place_and_donated(in_place: bool, donated: bool, slots: int) -> None:
    """spec: T4.1, T4.2, T4.3"""
    plan = plan_memory(chain(6, in_place=in_place, donated=donated)).plan
    usage = dict(zip((arena.name for arena in plan.allocation.arenas), plan.usage, strict=True))["activations"]
    assert (usage.slots, usage.max_live, len(plan.slots)) == (slots, slots, slots)


def waist() -> Model:
    """Large, small, small, large: a large and a small one are live at a time, in two slots that both grow large."""
    sizes = (1024, 128, 128, 1024)
    roles = (Role.INPUT, Role.ACTIVATION, Role.ACTIVATION, Role.ACTIVATION)
    tensors = tuple(
        Tensor(f"t{k}", (size,), "uint8", role, size) for k, (size, role) in enumerate(zip(sizes, roles, strict=True))
    )
    nodes = tuple(Node(f"n{k}", "Op", (k,), (k + 1,), "made.up") for k in range(3))
    return Model("waist", tensors, nodes, (Body(-1, "", (0,), (3,)),))


def test_live_bytes_within_the_capacity_do_not_mean_that_the_slots_fit() -> None:
    """spec: A3.1, A3.2, A3.3"""
    memory = ArenaConfiguration("memory", (Role.INPUT, Role.ACTIVATION))
    [usage] = plan_memory(waist(), (memory,)).plan.usage
    assert (usage.peak_live_bytes, usage.footprint) == (1152, 2048)
    assert plan_memory(waist(), (replace(memory, capacity=2048),)).plan.usage == (usage,)
    with pytest.raises(TmmuError, match="ARENA_TOO_SMALL") as refused:
        plan_memory(waist(), (replace(memory, capacity=1152),))
    assert (refused.value.diagnostics["capacity"], refused.value.diagnostics["required"]) == (1152, 2048)


def test_a_validator_of_schemas_accepts_what_the_schema_forbids_and_refuses_what_it_allows() -> None:
    empty = pycddl.Schema('root = { "only": {} }')
    empty.validate_cbor(cbor2.dumps({"only": {"more": 1}}))  # wrong, and accepted
    choices = pycddl.Schema('root = [* entry]\nentry = "x" / "y"')
    with pytest.raises(pycddl.ValidationError):
        choices.validate_cbor(cbor2.dumps(["x", "y"]))  # right, and refused


def test_a_validator_of_schemas_takes_a_map_for_a_text() -> None:
    pycddl.Schema('root = { "name": tstr }').validate_cbor(cbor2.dumps({"name": {"a": 1}}))  # wrong, and accepted
    pycddl.Schema('root = { "hash": bstr .size 8 }').validate_cbor(cbor2.dumps({"hash": 7}))  # wrong, and accepted
    with pytest.raises(pycddl.ValidationError):
        pycddl.Schema('root = { "name": tstr }').validate_cbor(cbor2.dumps({"name": 7}))


def first_problem(plan: Plan) -> Violation:
    """The first thing that the naive checker finds wrong with a plan, without a model."""
    return next(checker.violations(build_program(plan, decide_permissions(plan, None, frozenset()))))


def perceptron() -> Model:
    """The document's example: an input that the first layer reads through a view, and the layer's result."""
    tensors = (
        Tensor("x", (1, 16, 16), "float32", Role.INPUT, 1024),
        Tensor("flat", (1, 256), "float32", Role.ACTIVATION, 1024, view=View(0, 0, 1024)),
        Tensor("layer1_output", (1, 64), "float32", Role.ACTIVATION, 256),
        Tensor("layer2_output", (1, 64), "float32", Role.ACTIVATION, 256),
    )
    nodes = (
        Node("flatten", "Flatten", (0,), (1,)),
        Node("layer1", "Gemm", (1,), (2,)),
        Node("layer2", "Relu", (2,), (3,)),
    )
    return Model("perceptron", tensors, nodes, (Body(-1, "", (0,), (3,)),))


def test_an_input_and_the_result_of_the_layer_that_reads_it_cannot_share_a_pool() -> None:
    """spec: V1.1, V1.5, T2.1"""
    plan = plan_memory(perceptron()).plan
    assert next(checker.violations(build_program(plan, decide_permissions(plan, None, frozenset()))), None) is None
    pool = plan.allocation.storages.offset[plan.allocation.tensors.storage[0]]
    offset = plan.allocation.storages.offset.copy()
    offset[plan.allocation.tensors.storage[2]] = pool
    found = first_problem(amend_plan(plan, storages=replace(plan.allocation.storages, offset=offset)))
    assert (found.obligation, set(found.tensors), found.step) == ("no_live_overlap", {"x", "layer1_output"}, 1)
    assert (found.first_byte, found.last_byte) == (pool, pool + 255)


def three_layers() -> Model:
    """The document's three results of 1,024 bytes; the input is small, so that it alone fits into 256."""
    sizes = {"x": 256, "layer1_output": 1024, "layer2_output": 1024, "layer3_output": 1024}
    tensors = tuple(
        Tensor(name, (size,), "uint8", Role.INPUT if name == "x" else Role.ACTIVATION, size)
        for name, size in sizes.items()
    )
    nodes = tuple(Node(f"layer{k}", "Gemm", (k - 1,), (k,)) for k in (1, 2, 3))
    return Model("three layers", tensors, nodes, (Body(-1, "", (0,), (3,)),))


def test_1024_bytes_do_not_fit_into_a_pool_of_256() -> None:
    """spec: V1.3"""
    memory = ArenaConfiguration("memory", (Role.INPUT, Role.ACTIVATION))
    plan = plan_memory(three_layers(), (memory,)).plan
    pools = plan.slots.of[plan.allocation.tensors.storage].tolist()
    assert pools == [1, 0, 1, 0]  # the document's pools: its three results take turns in 0, 1, 0
    short = plan.usage[0]._replace(footprint=1024 + 256)
    found = first_problem(
        amend_plan(plan, arenas=(replace(plan.allocation.arenas[0], capacity=1024 + 256),), usage=(short,))
    )
    assert (found.obligation, found.tensors) == ("capacity", ("layer2_output",))
    assert (found.first_byte, found.last_byte) == (1024, 2047)


def loop(*, iterates: bool) -> Model:
    """A loop whose body reads a captured value first and computes on; `iterates` is the model's word on it."""
    names = ("captured", "a", "b", "c", "result")
    roles = (Role.INPUT, *[Role.ACTIVATION] * 4)
    tensors = tuple(Tensor(name, (64,), "float32", role, 256) for name, role in zip(names, roles, strict=True))
    nodes = (Node("loop", "Loop", (), (4,)), *(Node(f"n{k}", "Gemm", (k,), (k + 1,), body=1) for k in range(3)))
    bodies = (Body(-1, "", (0,), (4,)), Body(0, "body", (), (3,), iterates=iterates))
    return Model("loop", tensors, nodes, bodies)


def test_a_captured_value_that_dies_at_its_last_reader_is_overwritten_before_the_second_iteration() -> None:
    """spec: T8.3, V1.4, V2.1"""
    right, literal = (plan_memory(loop(iterates=word)).plan for word in (True, False))
    assert next(checker.violations(build_program(right, decide_permissions(right, None, frozenset()))), None) is None
    names = {
        problem.tensors[0]
        for problem in checker.violations(build_program(literal, decide_permissions(literal, None, frozenset())))
    }
    assert "captured" in names
    assert int(literal.allocation.tensors.death[0]) < int(right.allocation.tensors.death[0])


# The page itself.

LINE = re.compile(r"^\d+\. .+ \*(?P<tests>(?:`[^`]+`(?:, )?)+)\*$")


def lines(page: str) -> list[str]:
    """Return the lines from the first numbered one on, without blank ones."""
    numbered = dropwhile(lambda line: not re.match(r"\d+\. ", line), page.splitlines())
    return [line for line in numbered if line]


def wrong_lines(page: str, root: Path) -> list[str]:
    """Lines that are out of sequence, or that name no test that exists."""
    wrong = []
    for number, line in enumerate(lines(page), 1):
        found = LINE.match(line)
        tests = re.findall(r"`([^`]+)`", found["tests"]) if found else []
        if not line.startswith(f"{number}. ") or not tests or not all(exists(root, name) for name in tests):
            wrong.append(line)
    return wrong


def exists(root: Path, test: str) -> bool:
    """Whether there is such a test; of one that goes through a table, the row is named in brackets."""
    path, _, name = test.partition("::")
    name, _, row = name.partition("[")
    file = root / path
    is_row = not row or row.removesuffix("]") in map(str, (*wrong_plans.TABLE, *wrong_models.TABLE))
    return file.is_file() and f"def {name}(" in file.read_text() and is_row


def test_every_finding_names_a_test_that_exists() -> None:
    page = ARCHIVE.read_text().partition("\n## ")[0]  # `test_contradictions.py` keeps the table
    assert wrong_lines(page, ROOT) == []
    assert len(lines(page)) >= 271


def cited(page: str) -> set[int]:
    """Return the numbers that the tables of the short page have in their third or fourth column, ranges written out."""
    cells = re.findall(r"^\|(?: [^|]* \|){2,3}? ((?:\d+(?:, | to )?)+) \|", page, re.MULTILINE)
    ranges = [found for cell in cells for found in re.findall(r"(\d+)(?: to (\d+))?", cell)]
    return {number for first, last in ranges for number in range(int(first), int(last or first) + 1)}


def test_every_number_on_the_page_of_today_is_a_line_of_the_archive() -> None:
    today = cited((ROOT / "spec/findings.md").read_text())
    assert {20, 82, 267} <= today
    assert max(today) <= len(lines(ARCHIVE.read_text().partition("\n## ")[0]))
    assert cited("| a | b | 7, 9 to 11 | | |\n| a | b | none | 12 |\n") == {7, 9, 10, 11, 12}


def test_a_finding_without_a_test_is_noticed() -> None:
    here = "tests/unit/test_findings.py"
    good = f"1. It is so. *`{here}::test_a_finding_without_a_test_is_noticed`*"
    assert wrong_lines(good, ROOT) == []
    for bad in (
        good.replace("1.", "2."),
        good.replace("::test_a", "::test_no"),
        good.replace("noticed`", "noticed[no such row]`"),
        good.replace(here, "tests/none.py"),
        "1. It is so.",
    ):
        assert wrong_lines(bad, ROOT) == [bad]


def test_a_copy_on_leaving_a_body_is_as_large_as_its_value() -> None:
    """spec: T8.8"""
    model = text_model(
        "begin loop1 Loop x -> y", "arm body f g -> g f loop", "  node matmul Matmul f -> h", "end loop1"
    )
    right = plan_memory(model).plan
    assert not any(objections(right, None))
    found = list(objections(with_entries(right, "tensors", "loop1/body/g.copy0", bytes=32), None))
    assert [(each.obligation, each.tensors) for each in found] == [("bodies_nest", ("g", "loop1/body/g.copy0"))]


def test_a_slot_without_address_is_aligned_to_a_power_of_two() -> None:
    """spec: V1.2"""
    right = plan_memory(text_model("node matmul Matmul x -> y"), options=PlanOptions(layout="packed")).plan
    assert not any(objections(right, None))
    found = list(objections(with_entries(right, "slots", 0, alignment=384), None))
    assert "alignment" in {each.obligation for each in found}


def test_a_body_cannot_read_the_result_of_its_own_loop() -> None:
    """It is whole when the loop is left: the naive checker, too, says so with its witness."""
    lines = (
        "begin loop1 Loop x -> y", "arm body -> b loop", "  node matmul1 Matmul x -> p", "  node matmul2 Matmul p -> b",
        "end loop1", "node matmul3 Matmul y -> z",
    )  # fmt: skip
    plan = plan_memory(text_model(*lines)).plan
    names, reads = plan.allocation.tensors.name.list(), plan.allocation.steps.listed("reads")
    step = next(n for n, each in enumerate(reads) if [names[t] for t in each] == ["p"])
    wrong = with_entries(plan, "steps", sum(map(len, reads[:step])), reads=names.index("y"))
    assert any("reads y before it is written" in str(each) for each in objections(wrong, None))
    assert not list(objections(plan, None))


def test_the_leave_of_a_loop_writes_again_only_what_its_enter_began() -> None:
    """Not a formal input of its body: the naive checker, too, says so with its witness. spec: V1.7"""
    model = text_model("begin loop1 Loop x -> y", "arm body f -> b loop", "  node matmul Matmul f -> b", "end loop1")
    plan = plan_memory(model).plan
    names, writes = plan.allocation.tensors.name.list(), [list(row) for row in plan.allocation.steps.listed("writes")]
    assert not list(objections(plan, None))
    writes[-1].append(names.index("f"))
    flat, bounds = [t for row in writes for t in row], np.cumsum([0, *map(len, writes)]).tolist()
    steps = replace(
        plan.allocation.steps, writes=build_column(flat, np.uint32), writes_at=build_column(bounds, np.uint32)
    )
    found = [(each.obligation, each.tensors) for each in objections(amend_plan(plan, steps=steps), None)]
    assert ("sharing_is_sound", ("f",)) in found


def test_what_a_step_wrote_is_not_said_to_be_unwritten() -> None:
    """The plan names another writer: that is what is wrong, and what the witness says. spec: V4.4"""
    plan = plan_memory(text_model("node matmul Matmul x -> a", "node matmul2 Matmul a -> y")).plan
    found = [str(each) for each in objections(with_entries(plan, "tensors", "a", writer=1), None)]
    assert any(re.search("a .* step 1; step 0 ", each) for each in found)
    assert not any("before it is written" in each for each in found)


def test_a_model_of_no_steps_has_a_forward_half(tmp_path: Path) -> None:
    """spec: M3.6, C1.1"""
    files.save(text_model(outputs="x"), tmp_path / "m.ir.cbor")
    model, plan = str(tmp_path / "m.ir.cbor"), str(tmp_path / "p.cbor")
    assert run(["plan", model, "--mode", "forward", "-o", plan]) == 0
    assert verify(plan, Options(model=model)).verdict == PROVED


def test_a_plan_of_no_tensors_has_an_envelope_of_no_sizes() -> None:
    """spec: R6.3"""
    model = text_model(inputs="", outputs="")
    plan = plan_memory(replace(model, bindings=replace(model.bindings, ranges={"m": (0, 2)}))).plan
    assert plan.envelope is not None
    assert file.decode(file.encode(plan)).plan == plan


def test_what_a_body_of_backward_captures_or_returns_is_saved(tmp_path: Path) -> None:
    """For planner and verifier alike: `a` is read inside, `b` is returned, `c` nobody needs. spec: M1.1, T8.4"""
    model = text_model(
        "node matmul Matmul x -> a", "node matmul2 Matmul x -> b", "node matmul3 Matmul x -> c",
        "begin if If x -> g backward", "arm then_branch -> h", "  node relu Relu a -> h", "arm else_branch -> b",
        "end if", outputs="c",
    )  # fmt: skip
    files.save(model, tmp_path / "m.ir.cbor")
    name, path = str(tmp_path / "m.ir.cbor"), tmp_path / "p.cbor"
    assert run(["plan", name, "--mode", "forward", "-o", str(path)]) == 0
    plan = file.load(path).plan
    saved = {
        each
        for each, flags in zip(plan.allocation.tensors.name, plan.allocation.tensors.flags.tolist(), strict=True)
        if flags & IS_SAVED
    }
    assert saved == {"x", "a", "b"}
    assert verify(str(path), Options(model=name)).verdict == PROVED
    forgotten = with_entries(plan, "tensors", "a", flags=0)
    file.save(forgotten, path)
    assert verify(str(path), Options(model=name)).verdict == REFUTED


def test_scratch_is_no_operand_that_could_have_another_shape() -> None:
    """Of elements narrower than a byte, the sole operand's bytes may be taken. spec: T3.3"""
    model = text_model(
        "node matmul Matmul x -> a", "node add Add a -> y inplace y a scratch 7", "tensor x i4 5", "tensor a i4 5",
        "tensor y i4 5",
    )  # fmt: skip
    plan = plan_memory(model).plan
    assert (
        SHARES[int(plan.allocation.tensors.shares[plan.allocation.tensors.name.list().index("y")])] is Shares.IN_PLACE
    )
    assert not list(objections(plan, None))
