"""Plan the memory of machine-learning models: words, records, planner and commands.

`MiCoCodeGen` is MiCo's class with this project's verifier behind it, `open_session` a language model in memory whose
plan is proved, with its `SessionOptions`; each is loaded when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tmmu.language_session import SessionOptions, open_session
    from tmmu.mico_codegen import MiCoCodeGen

__all__ = ["MiCoCodeGen", "SessionOptions", "open_session"]

_MODULES = {
    "MiCoCodeGen": "tmmu.mico_codegen", "SessionOptions": "tmmu.language_session",
    "open_session": "tmmu.language_session",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
