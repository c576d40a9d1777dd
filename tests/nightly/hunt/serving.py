"""What a worker is: a process in the environment of one compiler, asked a program at a time by lines of JSON.

A worker is a file in `workers/` that a plain Python of that environment runs (without tmmu):

    sys.path.insert(0, str(Path(__file__).parents[1]))   # programs.py and this file
    from serving import Compiled, Refused, serve

    def compile_and_run(program, inputs, variant, folder, runs) -> Compiled: ...

    serve("ExecuTorch", "1.5.1", compile_and_run, features=FEATURES - {"subbyte"}, variants=("default", "greedy"))

The first line that it writes says what it is; then each line asked is answered by one line. Whatever the compiler
prints to standard output goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import programs as p
from numpy.typing import NDArray

Array = NDArray[Any]


class Refused(Exception):
    """The compiler, or the worker on its behalf, does not take this program; the message is counted."""


@dataclass
class Compiled:
    """What came of a program.

    `plans`: files with its memory plan, for `verify-plan`; none where the compiler made no plan. `outputs`: for each
    set of inputs the arrays that the planned program returned; None where it cannot be run here. `unplanned`: the same
    of the same program run without a plan, where the compiler offers that. `plain`: without rewrites as well.
    """

    plans: Sequence[Path | str]
    outputs: Sequence[Sequence[Array]] | None = None
    unplanned: Sequence[Sequence[Array]] | None = None
    plain: Sequence[Sequence[Array]] | None = None


Run = Callable[[p.Program, Sequence[Sequence[Array]], str, Path, bool], Compiled]
"""Program, sets of inputs, variant, an empty folder for files, whether it is to be run even if that is dear."""


def flat(outputs: Sequence[Sequence[Any]] | None) -> list[list[list[float]]] | None:
    """Outputs as numbers, whatever their type: bool as 0 and 1."""
    if outputs is None:
        return None
    return [[np.asarray(each).astype(np.float64).ravel().tolist() for each in one] for one in outputs]


@cache
def claim_output() -> TextIO:
    """Return the standard output. What is printed there from now on goes to standard error.

    Call it before the import of a package that prints something.
    """
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def serve(planner: str, version: str, run: Run, features: Iterable[str] = p.FEATURES,
          variants: Sequence[str] = ("default",), share: float = 1.0) -> None:  # fmt: skip
    """Answer lines until there are none. A `Refused` is an answer; any other exception is one too, as `failed`.

    A line says whether the program is to be run; where it does not, a `share` of all programs is.
    """
    out = claim_output()

    def say(what: dict[str, Any]) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    say({"planner": planner, "version": version, "features": sorted(features), "variants": list(variants)})
    for line in sys.stdin:
        asked = json.loads(line)
        program = p.from_json(asked["program"])
        inputs = [
            [
                np.array(numbers).reshape(value.shape).astype(p.stored_dtype(value.dtype))
                for value, numbers in zip(program.inputs, one, strict=True)
            ]
            for one in asked["inputs"]
        ]
        try:
            runs = asked["runs"]
            if runs is None:
                runs = zlib.crc32(repr((program.inputs, len(program.steps))).encode()) / 2**32 < share
            made = run(program, inputs, asked["variant"], Path(asked["folder"]), runs)
        except Refused as refused:
            say({"refused": str(refused)})
        except Exception as error:  # a compiler raises what it likes
            trace = traceback.format_exc().splitlines()
            say({"failed": f"{type(error).__name__}: {error}"[:6000], "trace": trace[-12:]})
        else:
            say({
                "plans": [str(path) for path in made.plans],
                "outputs": flat(made.outputs),
                "unplanned": flat(made.unplanned),
                "plain": flat(made.plain),
            })  # fmt: skip
