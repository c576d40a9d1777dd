"""A kind of wrong plan: a builder, the obligation that must catch it, and the content of its witness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tmmu.plans import file
from tmmu.plans.sections import Plan


@dataclass(frozen=True)
class Wrong:
    """A wrong plan: `stated` are false hashes that its file states, `model` is the model file that belongs to it.

    If there is a model (ONNX), the plan may be right in itself, and only the model shows that it is wrong. `others` are
    plans of other ranks: each plan is right in itself, and they are wrong together.
    """

    plan: Plan
    stated: Mapping[str, bytes] = field(default_factory=dict)
    model: bytes | None = None
    others: tuple[Plan, ...] = ()

    def encode(self) -> bytes:
        """Encode the plan file. All hashes except those in `stated` hold: only a proof finds the error."""
        return file.encode(self.plan, self.stated)


@dataclass(frozen=True)
class Broken:
    """A kind of wrong plan.

    Parameters
    ----------
    name
        The name after `broken/` in the name of the example.
    sentence
        A sentence that states what is wrong with the plan.
    obligation
        The obligation that must be violated.
    tensors
        The tensors that the witness must name; none if it names a field.
    field
        The field that the witness must show with its stated and its recomputed value, or None.
    build
        A function that builds the plan anew.
    """

    name: str
    sentence: str
    obligation: str
    tensors: tuple[str, ...]
    field: str | None
    build: Callable[[], Wrong]


def wrong(
    obligation: str, *tensors: str, field: str | None = None
) -> Callable[[Callable[[], Plan] | Callable[[], Wrong]], Broken]:
    """Turn a builder into a kind with its name and with its docstring as the sentence."""

    def declare(builder: Callable[[], Plan] | Callable[[], Wrong]) -> Broken:
        def build() -> Wrong:
            made = builder()
            return made if isinstance(made, Wrong) else Wrong(made)

        sentence = " ".join((builder.__doc__ or "").split())
        return Broken(builder.__name__.replace("_", "-"), sentence, obligation, tensors, field, build)

    return declare
