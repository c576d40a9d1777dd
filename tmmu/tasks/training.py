"""The mode of planning, and how much memory a plan may take. spec: M1.1"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingOptions:
    """The mode and the preset of planning, and how many bytes the plan may need."""

    mode: str | None = None
    preset: str | None = None
    budget: int | None = None
