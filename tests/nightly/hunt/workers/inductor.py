"""Torch's Inductor: the wrapper that it writes of a program with planned memory, and its run on the CPU.

Most programs are stopped once the wrapper is written, before their kernels are compiled; some are compiled and run.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1])  # in place of this folder, whose files have the names of compilers
CACHE = tempfile.mkdtemp(prefix="hunt-inductor-")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = CACHE
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = "1"  # or g++ is asked for each program what this processor has
import programs as p
import torch
from in_torch import module
from serving import Array, Compiled, Refused, serve
from torch._inductor import config
from torch._inductor.graph import GraphLowering

VARIANTS = {
    "default": {}, "outputs": {"memory_pool": "outputs"}, "combined": {"memory_pool": "combined"},
    "none": {"memory_pool": "none"}, "inplace": {"memory_pool": "combined", "inplace_buffers": True},
    "reuse": {"memory_planning": False},
}  # fmt: skip
SHARE = 0.02
"""The part of programs whose kernels are compiled by g++, and that are run: 14 seconds each, where others take one."""
REFUSED = ("liasing", "differ in", "branches", "FunctionalTensor", "higher order operator", "is not supported")
"""Words of torch's messages about programs that it does not compile."""


class Planned(Exception):
    """The wrapper is there, and nothing is to be run."""


def compile_and_run(
    program: p.Program, inputs: Sequence[Sequence[Array]], variant: str, folder: Path, runs: bool
) -> Compiled:
    """Compile, and run if it is to be."""
    made_of = module(program)
    plans: list[Path] = []

    def save(code: str) -> None:
        plans.append(folder / f"plan{len(plans)}.inductor")
        plans[-1].write_text(code)
        if not runs:
            raise Planned

    given = [[torch.from_numpy(each.copy()) for each in one] for one in inputs]
    GraphLowering.save_output_code = staticmethod(save)
    torch._dynamo.reset()
    settings: dict[str, Any] = {"memory_planning": True, "force_disable_caches": True, "cpp.threads": 1}
    outputs = unplanned = None
    try:
        with torch.no_grad(), config.patch(settings | VARIANTS[variant]):
            compiled = torch.compile(made_of, fullgraph=True, dynamic=False)
            made = [compiled(*(each.clone() for each in one)) for one in given]
            outputs = [[each.clone().numpy() for each in one] for one in made]
    except Exception as error:  # torch raises what it likes
        text = f"{type(error).__name__}: {error}"
        if "Planned" not in text and not isinstance(error, Planned):
            if any(word in text for word in REFUSED):
                raise Refused(text[:300]) from error
            raise
    if outputs is not None:
        with torch.no_grad():
            unplanned = [[each.numpy() for each in made_of(*(t.clone() for t in one))] for one in given]
    words = ("alloc_from_pool(", "# reuse", "# alloc")
    plans = [path for path in plans if any(word in path.read_text() for word in words)]  # others place nothing
    return Compiled(plans, outputs, unplanned)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
    serve("Inductor", torch.__version__, compile_and_run, p.FEATURES - {"subbyte"}, tuple(VARIANTS), SHARE)
