"""The witness of a wrong plan from a run: one place at which a read does not find the value written for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Corruption:
    """A corruption and the place where it showed: `text` is a sentence that names step and tensors.

    `step` is None before the first and after the last step; `first_byte` and `last_byte` are addresses in `arena`.
    """

    text: str
    tensors: tuple[str, ...]
    step: int | None = None
    arena: str | None = None
    first_byte: int | None = None
    last_byte: int | None = None


class Corrupted(Exception):
    """Ends a run at its first corruption."""

    def __init__(self, corruption: Corruption) -> None:
        self.corruption = corruption
        super().__init__(corruption.text)


def malformed_program(text: str, *tensors: str, step: int | None = None) -> Corrupted:
    """Return the corruption of steps that no runtime could execute."""
    return Corrupted(Corruption(f"the steps are not a program: {text}", tensors, step))
