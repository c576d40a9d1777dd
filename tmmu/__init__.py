"""Plan the memory of machine-learning models, and prove the plans.

>>> import tmmu
>>> g = tmmu.Graph("layer")
>>> x, w = g.input("x", (8, 64)), g.parameter("w", (64, 64))
>>> g.output(g.node("MatMul", [x, w], g.tensor("y", (8, 64))))
>>> plan = tmmu.plan(g)
>>> plan["y"].bytes, tmmu.verify(plan, model=g).proved
(2048, True)

`plan`, `load`, `save` and `verify` are the commands as functions, with `PlannerOptions` and `VerifierOptions`. `Graph`
is a model of one's own, `MemoryPlan` what is planned, `VerificationResult` what is proved. `open_session` opens a
language model in memory whose plan is proved, with its `SessionOptions`; `MiCoCodeGen` is MiCo's class with this
project's verifier behind it. Each is loaded when it is asked for. spec: LIB4.1, LIB4.2
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tmmu.core.errors import TmmuError
    from tmmu.ir.graph import Graph
    from tmmu.tasks.language_session import SessionOptions, open_session
    from tmmu.tasks.library import (
        MemoryPlan,
        NotProved,
        PlannedArena,
        PlannedTensor,
        VerificationResult,
        load,
        plan,
        save,
        verify,
    )
    from tmmu.tasks.library_options import PlannerOptions, VerifierOptions
    from tmmu.tasks.mico_codegen import MiCoCodeGen

    __version__: str

__all__ = [
    "Graph", "MemoryPlan", "MiCoCodeGen", "NotProved", "PlannedArena", "PlannedTensor", "PlannerOptions",
    "SessionOptions", "TmmuError", "VerificationResult", "VerifierOptions", "__version__", "load", "open_session",
    "plan", "save", "verify",
]  # fmt: skip

_MODULES = {
    "Graph": "tmmu.ir.graph", "MiCoCodeGen": "tmmu.tasks.mico_codegen", "SessionOptions": "tmmu.tasks.language_session",
    "PlannerOptions": "tmmu.tasks.library_options", "TmmuError": "tmmu.core.errors",
    "VerifierOptions": "tmmu.tasks.library_options", "open_session": "tmmu.tasks.language_session",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("tmmu")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, "tmmu.tasks.library")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
