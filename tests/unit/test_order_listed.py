"""An execution order that the user lists. spec: O1.8, O1.9"""

from __future__ import annotations

from pathlib import Path

import pytest

from proofs.verify.judge import verify
from proofs.verify.options import Options
from proofs.verify.verdict import PROVED
from tests.support.commands import ran
from tests.support.example_models import BRANCHES
from tests.support.onnx_files import model_of, written
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings
from tmmu.importers.onnx import import_onnx
from tmmu.planner import PlanOptions, plan_memory
from tmmu.planner.replan import ReplanPolicy, replan
from tmmu.plans import file, metrics

LISTED = ("split", "up", "down", "up2", "down2", "join")
TEXT = "main (float[n] x) => (float[n] y) { a = Relu (x) b = Neg (x) c = Sub (a, a) y = Add (b, c) }"


def test_nodes_run_in_the_order_that_is_listed() -> None:
    """One branch after the other needs less than both side by side, which is the order of the model."""
    needed = []
    for listed in ((), LISTED):
        found = plan_memory(BRANCHES, options=PlanOptions(layout="packed", listed=listed)).plan
        needed.append(metrics.compute_footprints(found.allocation)[2])
        assert tuple(found.allocation.steps.node) == (listed or tuple(node.name for node in BRANCHES.nodes))
    assert needed[1] < needed[0]


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ((*LISTED, "split"), "'split' is listed twice"),
        ((*LISTED[:-1], "joni"), "no node is named 'joni'; did you mean join"),
        (LISTED[:-1], "not listed: join"),
        (("split", "down", "up", "up2", "down2", "join"), "'down' is listed before 'up'"),
    ],
)
def test_a_list_that_is_no_order_of_the_model_is_refused(listed: tuple[str, ...], why: str) -> None:
    with pytest.raises(TmmuError, match=why) as caught:
        plan_memory(BRANCHES, options=PlanOptions(listed=listed))
    assert caught.value.code_id == "INVALID_BINDING"
    with pytest.raises(TmmuError, match="both given"):
        plan_memory(BRANCHES, options=PlanOptions(listed=LISTED, order="memory"))


def test_the_command_plans_onnx_in_the_order_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan is proved against the model, and a plan for further shapes keeps the order."""
    model, order, plan = written(tmp_path, model_of(TEXT)), tmp_path / "order.txt", tmp_path / "m.plan.cbor"
    listed = ("Neg#1", "Relu#0", "Sub#2", "Add#3")
    order.write_text("\n".join(listed) + "\n\n")
    asked = ("plan", str(model), "--dim", "n=1..8", "-o", str(plan), "--replan-policy", "replan_at_safepoint")
    assert ran(capsys, *asked, "--execution-order", str(order))[0] == 0
    assert verify(str(plan), Options(model=str(model))).verdict == PROVED
    wider = import_onnx(model, Bindings(ranges={"n": (1, 9)}))
    made, _ = replan(file.load(plan).plan, wider, {"n": 9}, ReplanPolicy.REPLAN_AT_SAFEPOINT)
    assert tuple(made.allocation.steps.node) == listed
    order.write_bytes(b"\xff")
    code, _, error = ran(capsys, *asked, "--execution-order", str(order))
    assert (code, "expected the names of nodes" in error) == (2, True)
