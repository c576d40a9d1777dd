"""In which mode a model is planned, and how much memory it may take. spec: M1.1"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingOptions:
    """In which mode a model is planned, by which preset, and how many bytes it may need."""

    mode: str | None = None
    preset: str | None = None
    budget: int | None = None
