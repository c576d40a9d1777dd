"""`make bench`: how planning and proving grow, and how long the commands take on real networks."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from tests.benchmarks import foundry, kernel, mico, mnemosyne, replacement, report, startup
from tests.benchmarks.growth import growth
from tests.benchmarks.orders import orders
from tests.benchmarks.plan_sets import plan_sets


def networks() -> None:
    """Whole commands on the largest network that the onnx wheel carries, and on the examples."""
    import onnx

    densenet = Path(onnx.__file__).parent / "backend/test/data/light/light_densenet121.onnx"
    print("\ncommands, whole process")
    print(f"{'model':16} {'tmmu plan':>10} {'verify-plan':>12}   seconds")
    with tempfile.TemporaryDirectory() as folder:
        cases = [("densenet121", str(densenet), [])]
        for name, flags in (
            ("gpt2", ["--dim", "batch=1", "--dim", "seq=1024"]),
            ("resnet50", ["--dim", "batch=2"]),
            ("unet", ["--dim", "batch=1"]),
            ("llama-block", ["--dim", "batch=1", "--dim", "seq=4096"]),
        ):
            path = os.path.join(folder, f"{name}.onnx")
            subprocess.run(["tmmu", "example", name, "-o", path], check=True, capture_output=True)
            cases.append((name, path, flags))
        for name, path, flags in cases:
            plan = os.path.join(folder, f"{name}.plan.cbor")
            planned = _seconds(["tmmu", "plan", path, "-o", plan, *flags])
            proved = _seconds(["verify-plan", plan, "--model", path])
            print(f"{name:16} {planned:>10.2f} {proved:>12.2f}", flush=True)


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    for layout in ("slots", "packed"):
        growth(layout)
    networks()
    startup.main()
    print("\nthe checker that Coq has proved, beside Z3")
    kernel.main()
    orders()
    plan_sets()
    print("\nC of a plan, gcc -O2, one thread")
    mico.main([])
    foundry.sessions()
    print("\npage replacement")
    replacement.main([])
    mnemosyne.main()
    print()
    report.main()
