"""What a kind of wrong plan is: a builder, the obligation that must catch it, and what the witness must name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tmmu.plans import file
from tmmu.plans.sections import Plan


@dataclass(frozen=True)
class Wrong:
    """A wrong plan: `stated` are hashes that its file states instead of the true ones, `model` the file with it.

    Where there is a model (ONNX), the plan may be right in itself, and only the model shows that it is wrong. `others`
    are plans of other ranks: each plan is right in itself, and they are wrong together.
    """

    plan: Plan
    stated: Mapping[str, bytes] = field(default_factory=dict)
    model: bytes | None = None
    others: tuple[Plan, ...] = ()

    def encode(self) -> bytes:
        """The bytes of the plan file. All hashes but those in `stated` hold: only a proof finds what is wrong."""
        return file.encode(self.plan, self.stated)


@dataclass(frozen=True)
class Broken:
    """A kind of wrong plan.

    Parameters
    ----------
    name
        `broken/<name>` is how it is asked for.
    sentence
        What is wrong with the plan.
    obligation
        The obligation that must be violated.
    tensors
        Tensors that the witness must name; none where it is a field.
    field
        The field that the witness must show with its stated and its recomputed value, or None.
    build
        Makes the plan anew.
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
    """Make a builder into a kind that is named after it and described by its docstring."""

    def declare(builder: Callable[[], Plan] | Callable[[], Wrong]) -> Broken:
        def build() -> Wrong:
            made = builder()
            return made if isinstance(made, Wrong) else Wrong(made)

        sentence = " ".join((builder.__doc__ or "").split())
        return Broken(builder.__name__.replace("_", "-"), sentence, obligation, tensors, field, build)

    return declare
