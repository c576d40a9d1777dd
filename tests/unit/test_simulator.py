"""Single rules of a run: what is compared, what is filled, what is tried of sharing, who owns which byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.support.effort import share
from tests.support.text_models import text_model
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model, Role, Shares
from tmmu.examples.broken.editing import changed, in_place, listed
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.columns import ROLES, SHARES
from tmmu.plans.sections import Plan, amend_plan
from tmmu.runtime.memory import MappedMemory
from tmmu.simulator import Corrupted, Corruption, HashKernels, PlanProgram, SimulationReport, simulate
from tmmu.simulator.bodies import DEEPEST
from tmmu.simulator.memories import PATTERN, PrivateMemory, Raw
from tmmu.simulator.owners import Owners
from tmmu.simulator.placed import PlacedMemory
from tmmu.testing.catalogue.entries import Change
from tmmu.testing.catalogue.entries import corrupted as changed_by
from tmmu.testing.strategies.models import numbered


def planned(model: Model, **options: str) -> Plan:
    return plan_memory(model, options=PlanOptions(**options)).plan


def simulated(
    plan: Plan, seed: int = 0, donated: frozenset[str] = frozenset(), *, sanitize: bool = False
) -> SimulationReport:
    program = PlanProgram(plan, donated)
    return simulate(program, HashKernels(program, seed), sanitize=sanitize)


def corruption(
    plan: Plan, seed: int = 0, donated: frozenset[str] = frozenset(), *, sanitize: bool = False
) -> Corruption:
    try:
        found = simulated(plan, seed, donated, sanitize=sanitize).corruption
    except Corrupted as error:
        found = error.corruption
    assert found is not None
    return found


CHAIN = text_model(
    "node matmul1 Matmul x -> a", "node relu Relu a -> b inplace b a", "node reshape Reshape b -> v",
    "node matmul2 Matmul v a2 -> y", "tensor v u8 64 view b 0", parameters="a2",
)  # fmt: skip


def moved(plan: Plan, tensor: str, onto: str, by: int = 0) -> Plan:
    """`tensor`'s storage put where that of `onto` begins."""
    names = plan.allocation.tensors.name.list()
    home, target = (int(plan.allocation.tensors.storage[names.index(name)]) for name in (tensor, onto))
    return changed(plan, "storages", home, offset=int(plan.allocation.storages.offset[target]) + by)


def test_a_right_plan_is_identical_and_uses_its_footprint() -> None:
    """spec: SIM1.1, SIM1.7"""
    for layout in ("packed", "slots", "pools"):
        report = simulated(planned(CHAIN, layout=layout), sanitize=True)
        assert report.identical
        assert report.touched == report.footprints
        assert report.looks == 2 + 4 + 5 + 2  # what the caller writes, results, operands, what the caller reads


def test_hashed_addresses_are_run_as_well() -> None:
    """Addresses all over 64 bits, in memory of a few pages. spec: SIM1.5, A2.4"""
    plan = plan_memory(CHAIN, options=PlanOptions(layout="hashed", address_token=bytes(64))).plan
    report = simulated(plan, sanitize=True)
    assert report.identical
    assert all(used <= footprint for used, footprint in zip(report.touched, report.footprints, strict=True))


def test_an_operand_that_was_overwritten_is_named_with_its_byte() -> None:
    """spec: SIM1.3, SIM1.6"""
    model = text_model("node matmul1 Matmul x -> a", "node matmul2 Matmul a -> b", "node add Add a b -> y")
    plan = moved(planned(model, layout="slots"), "b", "a", by=16)
    found = corruption(plan)
    first = int(plan.allocation.addresses()[plan.allocation.tensors.name.list().index("a")]) + 16
    assert (found.tensors, found.step, found.arena, found.first_byte) == (("a",), 1, "activations", first)
    assert "reads a, whose byte 16 is 0xa5" in found.text  # the pattern of the result that is about to be written
    owned = corruption(plan, sanitize=True)
    assert (owned.tensors, owned.step, owned.first_byte, owned.last_byte) == (("a", "b"), 1, first, first + 47)


def test_equal_bytes_of_another_tensor_are_stale_to_the_sanitizer_alone() -> None:
    """Both read the same operand by the same operator, so that they hold the same. spec: SIM3.1"""
    model = text_model(
        "node matmul1 Matmul x -> a", "node matmul2 Matmul x -> b", "node matmul3 Matmul b -> y",
        "node add Add y a -> z", outputs="z",
    )  # fmt: skip
    plan = moved(planned(model, layout="slots"), "b", "a")
    assert simulated(plan).identical
    found = corruption(plan, sanitize=True)
    assert (set(found.tensors), found.step) == ({"a", "b"}, 3)


def test_a_tensor_that_nothing_has_written_is_named() -> None:
    """spec: SIM1.3"""
    plan = planned(text_model("node matmul1 Matmul x -> a", "node matmul2 Matmul a -> y"))
    names = plan.allocation.tensors.name.list()
    found = corruption(changed(plan, "steps", 0, reads=names.index("a")))
    assert (found.tensors, found.step) == (("a",), 0)


@pytest.mark.parametrize("op", ["Softmax", "CumSum", "MatMul", "Transpose"])
def test_an_operator_that_reads_its_neighbours_is_not_in_place(op: str) -> None:
    """Whatever the plan says, it is tried, from either end. spec: SIM2.2, SIM2.3"""
    model = text_model("node matmul Matmul x -> a", f"node other {op} a -> r", "node add Add r -> y")
    plan = in_place(planned(model), "r", "a")
    found = corruption(plan)
    assert (found.step, "computes r over a" in found.text) == (1, True)
    assert simulated(changed(plan, "steps", 1, op=plan.allocation.ops.index(("", "Add")))).identical


def test_a_slice_that_is_not_the_identical_one_is_an_ordinary_write() -> None:
    """spec: SIM2.2, SIM1.4"""
    model = text_model(
        "node matmul Matmul x -> a", "node relu Relu a -> r inplace r a", "node add Add r -> y",
        sizes={"a": 64, "r": 64},
    )  # fmt: skip
    plan = changed(planned(model), "tensors", "r", window=4)
    plan = changed(
        plan, "storages", int(plan.allocation.tensors.storage[plan.allocation.tensors.name.list().index("a")]), bytes=68
    )
    assert "reads a, whose byte 4 is 0xa5" in corruption(plan).text


def test_a_view_is_not_written_and_must_show_its_base() -> None:
    """spec: SIM2.1"""
    plan = planned(CHAIN, layout="slots")
    names = plan.allocation.tensors.name.list()
    elsewhere = changed(plan, "tensors", "v", storage=int(plan.allocation.tensors.storage[names.index("y")]))
    found = corruption(elsewhere)
    assert (found.tensors, found.step) == (("v",), 2)


def test_of_an_operator_that_is_no_view_the_word_counts_for_nothing() -> None:
    """It writes what is said to be a view to bytes of its own, as the verifier reads it too. spec: SIM2.1, V2.1"""
    plan = planned(text_model("node matmul Matmul x -> a", "node transpose Transpose a -> v", "node add Add v -> y"))
    names = plan.allocation.tensors.name.list()
    plan = changed(plan, "tensors", "v", shares=SHARES.index(Shares.VIEW), of=names.index("a"))
    assert simulated(plan, sanitize=True).identical


def test_what_the_caller_keeps_must_be_as_it_was() -> None:
    """spec: V1.10"""
    model = text_model(
        "node update test::Update w x -> w changes w", "node matmul Matmul w -> y", "tensor w u8 64 donated",
        parameters="w",
    )  # fmt: skip
    plan = planned(model)
    assert simulated(plan, donated=frozenset({"w"})).identical
    assert "the caller finds w changed" in corruption(plan).text


def test_tied_weights_are_written_once() -> None:
    """A view of what the caller writes, and a view of that. spec: SIM2.1"""
    model = text_model(
        "node matmul Matmul x w v u -> y", "tensor v u8 32 view w 16", "tensor u u8 16 view v 8", parameters="w v u",
    )  # fmt: skip
    plan = planned(model)
    assert simulated(plan, sanitize=True).identical
    names = plan.allocation.tensors.name.list()
    circle = changed(plan, "tensors", "v", of=names.index("u"), window=8)
    with pytest.raises(Corrupted, match="is a view of itself"):
        simulated(changed(changed(circle, "tensors", "v", bytes=16), "tensors", "u", window=8, bytes=16))


def test_a_tensor_outside_of_its_arena_is_no_crash() -> None:
    """spec: SIM1.8"""
    plan = planned(CHAIN)
    home = int(plan.allocation.tensors.storage[plan.allocation.tensors.name.list().index("a")])
    for offset in (1 << 20, (1 << 64) - 1):
        found = corruption(changed(plan, "storages", home, offset=offset))
        assert found.text.endswith("is outside of the arena activations")
    huge = corruption(changed(plan, "tensors", "x", bytes=(1 << 64) - 1))
    assert huge.text.endswith("is outside of the arena activations")
    assert (huge.tensors, huge.last_byte is not None and huge.last_byte > 1 << 63) == (("x",), True)


def test_arenas_beyond_all_memory_are_refused() -> None:
    """spec: SIM1.8"""
    plan = planned(CHAIN)
    plan = amend_plan(plan, usage=tuple(each._replace(footprint=1 << 62) for each in plan.usage))
    with pytest.raises(TmmuError, match="bytes cannot be allocated"):
        simulated(plan)


def test_private_memory_has_a_limit() -> None:
    """spec: SIM1.8"""
    program = PlanProgram(planned(CHAIN))
    private = PrivateMemory(program, limit=100)
    private.prepare([0])
    with pytest.raises(TmmuError, match="the limit is 100"):
        private.prepare([1])
    private.release(0)
    private.prepare([1])
    assert private.hold(1).tolist() == [PATTERN] * 64


def test_a_copy_that_cannot_hold_its_value_is_a_corruption() -> None:
    """spec: T8.8"""
    model = text_model(
        "begin loop1 Loop x -> y", "arm body f g -> g f loop", "  node matmul Matmul f -> h", "end loop1"
    )
    plan = planned(model)
    found = corruption(changed(plan, "tensors", "loop1/body/g.copy0", bytes=32), seed=1)
    assert "is not a copy of g: their sizes differ" in found.text


def test_a_copy_that_no_round_has_made_is_not_looked_at() -> None:
    """The caller asks for it, as for what is saved in a branch; some of these seeds run no round."""
    lines = ("begin loop1 Loop x -> y", "arm body i -> a loop", "end loop1")
    plan = planned(text_model("node relu Relu u -> a", *lines, inputs="x u", outputs="y"))
    copy = list(plan.allocation.tensors.name).index("loop1/body/a.copy0")
    asked = changed(plan, "tensors", copy, flags=8)
    reports = [simulated(asked, seed=seed) for seed in range(8)]
    assert [report.corruption for report in reports] == [None] * 8
    assert {copy in report.outputs for report in reports} == {False, True}


def test_a_node_that_reads_what_its_leave_writes_is_no_program() -> None:
    lines = ("begin loop1 Loop x -> y", "arm body i -> o loop", "  node relu Relu i -> o", "end loop1")
    plan = planned(text_model(*lines))
    found = corruption(listed(plan, "reads", 0, "x", "y"))
    assert (found.tensors, found.step) == (("y",), 0)
    assert "reads y, which its leave is the first to write" in found.text


def body_of_bodies(depth: int) -> Model:
    """Ifs within Ifs."""
    lines = []
    for k in range(depth):
        lines += [f"begin if{k} If x -> y{k}", f"arm then -> {f'y{k + 1}' if k + 1 < depth else 'x'}"]
    return text_model(*lines, *(f"end if{k}" for k in reversed(range(depth))), outputs="y0")


def test_bodies_nest_as_deeply_as_they_may() -> None:
    assert simulated(planned(body_of_bodies(40))).identical


def test_what_the_caller_writes_is_compared_when_all_is_written() -> None:
    """Though nobody reads the one, or it is written last. spec: SIM1.9"""
    plan = planned(text_model("node matmul Matmul x -> y", parameters="w v"))
    for one, other in (("w", "v"), ("v", "w")):
        wrong = moved(plan, one, other)
        for sanitize in (False, True):
            found = corruption(wrong, sanitize=sanitize)
            assert (found.step, found.text.startswith("the caller has written ")) == (None, True)
            assert {*found.tensors} <= {"v", "w"}


def test_a_step_that_changes_what_it_does_not_read_and_write_is_no_program() -> None:
    """Nor is one that reads and writes what is stated to be nothing of the kind. spec: SIM1.10"""
    update = "node update test::Update w x -> w changes w"
    plan = planned(text_model(update, "node matmul Matmul w -> y", "tensor w u8 64 donated", parameters="w"))
    with pytest.raises(Corrupted, match="update mutates x, which it does not"):
        PlanProgram(changed(plan, "steps", 0, mutates=plan.allocation.tensors.name.list().index("x")))
    scratch = planned(text_model("node matmul Matmul x -> y scratch 16"))
    with pytest.raises(Corrupted, match="which is neither its scratch nor declared as mutated"):
        PlanProgram(changed(scratch, "tensors", "matmul.scratch0", role=ROLES.index(Role.ACTIVATION)))


def test_steps_that_make_no_program_are_named() -> None:
    """spec: SIM1.6, T8.1, T8.10"""
    plan = planned(
        text_model(
            "begin if If x -> y", "arm then -> a", "  node relu Relu x -> a", "end if", "node matmul Matmul y -> z",
            outputs="z",
        )
    )  # fmt: skip
    wrong = {
        "is in no open body": changed(plan, "steps", 3, body=1),
        "is entered and never left": changed(plan, "bodies", 1, leave=3),
        "leaves a node that was not entered": changed(plan, "steps", 0, part=2),
        "relu is in no open body": changed(plan, "steps", 1, body=0),
    }
    for text, each in wrong.items():
        with pytest.raises(Corrupted, match=text):
            PlanProgram(each)
    with pytest.raises(Corrupted, match=f"nest deeper than {DEEPEST}"):
        PlanProgram(planned(body_of_bodies(DEEPEST + 2)))


class Counted(HashKernels):
    """Stand-in kernels that count how often each step was computed, in both memories together."""

    def __init__(self, program: PlanProgram, seed: int) -> None:
        super().__init__(program, seed)
        self.ran: dict[int, int] = {}

    def compute(self, n: int, operands: Sequence[Raw]) -> list[Raw]:
        self.ran[n] = self.ran.get(n, 0) + 1
        return super().compute(n, operands)


def test_an_if_runs_both_branches_and_a_loop_every_number_of_rounds_in_four_seeds() -> None:
    """spec: SIM4.3"""
    lines = (
        "begin if If x -> a", "arm then -> b", "  node relu1 Relu x -> b", "arm else -> c", "  node relu2 Relu x -> c",
        "end if", "begin loop1 Loop a -> y", "arm body f -> g loop", "  node relu3 Relu f -> g", "end loop1",
    )  # fmt: skip
    program = PlanProgram(planned(text_model(*lines)))
    for first in (0, 5, 1 << 40):
        counts: list[dict[int, int]] = []
        for seed in range(first, first + 4):
            kernels = Counted(program, seed)
            assert simulate(program, kernels).identical
            counts.append(kernels.ran)
        steps = {step.node: n for n, step in enumerate(program.steps)}
        assert {bool(ran.get(steps["relu1"])) for ran in counts} == {True, False}
        assert {bool(ran.get(steps["relu2"])) for ran in counts} == {True, False}
        assert {ran.get(steps["relu3"], 0) // 2 for ran in counts} == {0, 1, 2, 3}


def test_stand_in_kernels_depend_on_every_byte_and_where_they_may_on_no_other() -> None:
    """spec: SIM4.1, SIM4.2"""
    model = text_model("node add Add x w -> a", "node matmul Matmul x w -> b", "node add2 Add a b -> y", parameters="w")
    program = PlanProgram(planned(model))
    kernels = HashKernels(program)
    x, w = (kernels.given(t) for t in program.given)
    for t, n in ((0, 0), (1, 0), (0, 1), (1, 1)):
        before = kernels.compute(n, [x, w])[0]
        for k in (0, 17, 63):
            operands = [np.array(x), np.array(w)]
            operands[t][k] ^= 1
            after = kernels.compute(n, operands)[0]
            same = (before == after).tolist()
            if program.steps[n].op[1] == "Add":
                assert [i for i, each in enumerate(same) if not each] == [k]
            else:
                assert sum(same) < 8
    assert kernels.compute(1, [x, w])[0].tolist() == HashKernels(program, 9).compute(1, [x, w])[0].tolist()
    assert kernels.given(0).tolist() != HashKernels(program, 9).given(0).tolist()


def test_a_long_result_depends_on_its_operands_as_well() -> None:
    """spec: SIM4.1"""
    model = text_model("node matmul Matmul x -> y", sizes={"y": 1 << 17})
    program = PlanProgram(planned(model))
    kernels = HashKernels(program)
    x = kernels.given(program.given[0])
    one = kernels.compute(0, [x])[0]
    assert len(one) == 1 << 17
    assert (one != kernels.compute(0, [x ^ 1])[0]).mean() > 0.9


def test_results_in_place_can_be_computed_at_once() -> None:
    """For measuring: without the pieces, and without private memory. spec: SIM2.3"""
    from tmmu.simulator.machine import run

    program = PlanProgram(planned(CHAIN))
    kernels = HashKernels(program)
    with MappedMemory.map(program.plan) as memory:
        placed = PlacedMemory(program, memory, careful=False)
        for _ in run(program, placed, kernels):
            pass
        report = simulate(program, kernels)
        for t, content in report.outputs.items():
            assert placed.hold(t).tolist() == content.tolist()


def test_owners_know_which_byte_of_which_value_is_where() -> None:
    """spec: SIM3.2"""
    arena = Owners()
    arena.write(10, 20, 1)
    arena.write(5, 12, 2)
    arena.write(12, 12, 3)
    found = [tuple(run) for run in arena.read(4, 22)]
    assert found == [(4, 5, -1, 0), (5, 12, 2, 5), (12, 20, 1, 10), (20, 22, -1, 0)]


def test_every_numbered_model_is_identical_under_every_layout_and_order() -> None:
    """Eight hundred models, each under another layout, order, mode and seed. spec: SIM1.1, SIM3.1"""
    for number in range(share(800)):
        model = numbered(number)
        options = {
            "mode": ("inference", "forward")[number % 2],
            "layout": ("packed", "slots", "pools")[number % 3],
            "order": ("given", "memory")[number // 2 % 2],
        }
        report = simulated(planned(model, **options), number, frozenset(model.bindings.donated), sanitize=True)
        assert report.corruption is None, (number, report.corruption)


def test_changed_bytes_are_seen() -> None:
    """The sanitizer says no, and often: of plans whose offsets were changed a good part corrupts."""
    seen = 0
    for number in range(60):
        plan = changed_by(planned(numbered(number)), [Change("storages", "offset", number, "other", 1)])
        if plan is None:
            continue
        try:
            seen += not simulated(plan, number, sanitize=True).identical
        except (Corrupted, TmmuError):
            continue
    assert seen > 10


def test_nothing_is_believed_of_lifetimes_slots_and_claims() -> None:
    """spec: SIM1.2"""
    plan = planned(CHAIN)
    tensors = replace(
        plan.allocation.tensors, birth=plan.allocation.tensors.birth * 0 + 7, death=plan.allocation.tensors.death * 0
    )
    storages = replace(plan.allocation.storages, birth=plan.allocation.storages.birth * 0 + 9)
    usage = tuple(each._replace(peak_live_bytes=1, slots=99, max_live=0) for each in plan.usage)
    assert simulated(amend_plan(plan, tensors=tensors, storages=storages, usage=usage), sanitize=True).identical
