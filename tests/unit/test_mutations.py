"""A tensor that a step changes has a new value: who may change what, and who may look at it afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from proofs.definition.checker.execute import violations
from proofs.definition.checker.program import build_program
from proofs.readers.sharing import decide_permissions
from tests.support.text_models import text_model
from tmmu.cli.entry import run
from tmmu.core.errors import TmmuError
from tmmu.examples.broken import KINDS
from tmmu.examples.broken.sketch import model
from tmmu.ir import files
from tmmu.planner import plan_memory


def test_a_view_is_not_read_after_its_base_was_changed() -> None:
    """spec: I1.11"""
    made = model("""
        tensor w f32 4096 parameter
        tensor v f32 64 view a 0
        node a MatMul x w -> a
        node v Reshape a -> v
        node change Relu a -> a changes a
        node y Add v a -> y
    """)
    with pytest.raises(TmmuError, match=r"a view .* 'a' ") as refused:
        plan_memory(made)
    assert refused.value.code_id == "INVALID_IR"


def test_a_view_made_after_the_change_may_be_read() -> None:
    """spec: I1.11"""
    made = model("""
        tensor w f32 4096 parameter
        tensor v f32 64 view a 0
        node a MatMul x w -> a
        node change Relu a -> a changes a
        node v Reshape a -> v
        node y Add v a -> y
    """)
    assert len(plan_memory(made).plan.allocation.steps) == 4


def test_a_view_is_not_changed() -> None:
    """spec: I1.11"""
    made = model("""
        tensor w f32 4096 parameter
        tensor v f32 64 view a 0
        node a MatMul x w -> a
        node v Reshape a -> v
        node change Relu v -> v changes v
        node y Neg v -> y
    """)
    with pytest.raises(TmmuError, match="a view"):
        plan_memory(made)


def test_a_view_of_a_changed_tensor_is_stale_for_the_checker() -> None:
    """The naive checker says no where the plan was made for another order. spec: V1.5, V1.7"""
    plan = KINDS["view-read-after-its-base-was-changed"].build().plan
    run = build_program(plan, decide_permissions(plan, None, frozenset()))
    assert [(p.obligation, p.tensors, p.step) for p in violations(run)] == [("sharing_is_sound", ("v", "a"), 3)]


def test_a_view_that_the_caller_reads_is_read_after_every_change() -> None:
    """spec: I1.11"""
    made = model("""
        tensor w f32 4096 parameter
        tensor v f32 64 view a 0 output
        node a MatMul x w -> a
        node v Reshape a -> v
        node change Relu a -> a changes a
    """)
    with pytest.raises(TmmuError, match="a view made before 'a' was mutated"):
        plan_memory(made)


def test_a_view_that_only_another_half_makes_is_refused_where_its_base_is_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A forward node reads a view that a backward node makes: in mode `inference` nobody does. spec: I1.6, M1.4"""
    model = text_model(
        "node matmul Matmul x -> a", "node reshape Reshape a -> v backward", "node matmul2 Matmul v -> y",
        "node update test::Update a -> a changes a", "tensor v u8 64 view a 0", outputs="y a",
    )  # fmt: skip
    files.save(model, tmp_path / "m.ir.cbor")
    assert run(["plan", str(tmp_path / "m.ir.cbor"), "-o", str(tmp_path / "p.cbor")]) == 4
    assert "[INVALID_IR]" in capsys.readouterr().err
