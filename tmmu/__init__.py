"""Plan the memory of machine-learning models: words, records, planner and commands.

`MiCoCodeGen` is MiCo's class with this project's verifier behind it, loaded when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tmmu.mico_codegen import MiCoCodeGen

__all__ = ["MiCoCodeGen"]


def __getattr__(name: str) -> Any:
    if name != "MiCoCodeGen":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tmmu.mico_codegen import MiCoCodeGen

    return MiCoCodeGen
