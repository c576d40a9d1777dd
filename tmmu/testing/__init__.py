"""Test a memory planner, an allocator or a checker of plans against random input.

>>> from tmmu import testing
>>> sorted(testing.PROPERTIES)[:3]
['aligned', 'answers', 'bounded']

Strategies: `dags`, `graphs`, `models`, `buffers`, `traces`, `plans` and `faults`. Checks: `check_planner`,
`check_allocator` and `check_verifier`. `tmmu.testing.conformance` is a module of tests for pytest. Names are loaded on
first use; those that need Hypothesis or networkx name the command that installs them. spec: TP1.1, TP1.6
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tmmu.testing.allocators import check_allocator
    from tmmu.testing.buffer import TimedBuffer
    from tmmu.testing.cases import PlannerFailure, read_case
    from tmmu.testing.planners import check_planner
    from tmmu.testing.problems import read_dag, read_model
    from tmmu.testing.profiles import PROFILES, ExampleRun, running
    from tmmu.testing.properties import PROPERTIES, Figures, Planner
    from tmmu.testing.strategies.buffers import buffers
    from tmmu.testing.strategies.graphs import dags, graphs
    from tmmu.testing.strategies.plans import WrongPlan, faults, plans
    from tmmu.testing.strategies.programs import models
    from tmmu.testing.strategies.traces import Allocate, Free, traces
    from tmmu.testing.verifiers import Score, VerifierFailure, check_verifier

_MODULES = {
    "TimedBuffer": "buffer", "PROPERTIES": "properties", "Figures": "properties", "PlannerFailure": "cases",
    "read_case": "cases", "PROFILES": "profiles", "ExampleRun": "profiles", "running": "profiles",
    "read_model": "problems", "read_dag": "problems", "Planner": "properties",
}  # fmt: skip
_OF_EXTRA = {
    "check_planner": "planners", "check_allocator": "allocators", "check_verifier": "verifiers",
    "Score": "verifiers", "VerifierFailure": "verifiers", "buffers": "strategies.buffers",
    "dags": "strategies.graphs", "graphs": "strategies.graphs", "models": "strategies.programs",
    "traces": "strategies.traces", "Allocate": "strategies.traces", "Free": "strategies.traces",
    "plans": "strategies.plans", "faults": "strategies.plans", "WrongPlan": "strategies.plans",
}  # fmt: skip
"""The names that need the extra `testing`."""

__all__ = [
    "PROFILES",
    "PROPERTIES",
    "Allocate",
    "ExampleRun",
    "Figures",
    "Free",
    "Planner",
    "PlannerFailure",
    "Score",
    "TimedBuffer",
    "VerifierFailure",
    "WrongPlan",
    "buffers",
    "check_allocator",
    "check_planner",
    "check_verifier",
    "dags",
    "faults",
    "graphs",
    "models",
    "plans",
    "read_case",
    "read_dag",
    "read_model",
    "running",
    "traces",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _OF_EXTRA:
        from tmmu.core.extras import require_package

        for package in ("hypothesis", "networkx"):
            require_package(package, f"tmmu.testing.{name}", "testing")
        return getattr(import_module(f"tmmu.testing.{_OF_EXTRA[name]}"), name)
    if name in _MODULES:
        return getattr(import_module(f"tmmu.testing.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
