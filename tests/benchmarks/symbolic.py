"""The bytes of a symbolic plan at each shape, beside the most at any: `python -m tests.benchmarks.symbolic`.

Bytes are those of the arena `activations`. They follow from the plan alone: no time is measured.
"""

from __future__ import annotations

import os
import tempfile

import onnx

from tmmu import examples
from tmmu.core.vocabulary import Bindings, SteppedDim
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan
from tmmu.plans.shapes import at_shape
from tmmu.tasks.models import load

ACTIVATIONS = 2
SEQUENCE = Bindings({"batch": 1}, ranges={"seq": (1, 1024)})
SIDES = "side/32"
CASES = (
    ("gpt2", SEQUENCE, (1, 16, 128, 512, 1024)),
    ("llama-block", SEQUENCE, (1, 16, 128, 512, 1024)),
    (
        "detector",
        Bindings(values={"rate": "16000"}, ranges={SIDES: (0, 10)}, steps={"side": SteppedDim(SIDES, 320, 32)}),
        (320, 416, 512, 640),
    ),
)  # fmt: skip
"""A model, its ranges, and the sizes of its one open dimension that are shown."""


def main() -> None:
    """Print a row for each shape of each model."""
    print(f"{'model':12} {'size':>6} {'bytes':>12} {'of the most':>12} {'packed at it':>14}")
    with tempfile.TemporaryDirectory() as folder:
        for name, bindings, sizes in CASES:
            path = os.path.join(folder, f"{name}.onnx")
            examples.write(name, path)
            if name == "detector":
                _name_sides(path)
            model = load(path, bindings)
            plan = plan_memory(model, options=PlanOptions(symbolic=True)).plan
            most = _needed(plan)
            for size in sizes:
                [(unit, _)] = plan.ranges.items()
                needed = _needed(at_shape(plan, {unit: (size - 320) // 32 if name == "detector" else size}))
                packed = _needed(
                    plan_memory(load(path, _bound(bindings, size)), options=PlanOptions(layout="packed")).plan
                )
                print(f"{name:12} {size:>6} {needed:>12,} {needed / most:>12.1%} {packed:>14,}", flush=True)


def _bound(bindings: Bindings, size: int) -> Bindings:
    """Return the bindings of one size."""
    name = "side" if bindings.steps else "seq"
    return Bindings({**bindings.dims, name: size}, values=bindings.values)


def _needed(plan: Plan) -> int:
    found = plan.usage[ACTIVATIONS].footprint
    assert found is not None  # the planner states it
    return found


def _name_sides(path: str) -> None:
    """Give the detector's square pictures one named side; its dimensions all have the name `?`."""
    model = onnx.load(path, load_external_data=False)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_value = 1
    dims[2].dim_param = dims[3].dim_param = "side"
    onnx.save(model, path)


if __name__ == "__main__":
    main()
