"""Turn a node with bodies into steps (T8): `enter`, the bodies' own steps, and `leave` with its copies.

The outputs of a body are copied as if by one simultaneous assignment. An output that the body did not make itself (a
formal input, a captured value, an initializer), or that it returns twice, is therefore first copied to separate bytes.
Otherwise a loop that swaps two values would overwrite one of them before it is read.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple


class Handed(NamedTuple):
    """A body output: the tensor that is read, and the name of its copy if it is copied first."""

    tensor: str
    copy: str | None


def copy_outputs(body: str, outputs: Iterable[str], made: Container[str]) -> Iterator[Handed]:
    """Yield the outputs of a body, each with the name of its copy if it needs one (spec: T8.8).

    The copy of output k is `<body>/<tensor>.copy<k>`. A tensor of this body is named without its scope there.

    Parameters
    ----------
    body
        The name of the body.
    outputs
        The tensor of each output of the body, in order.
    made
        The tensors that steps of this body write.

    Examples
    --------
    >>> [h.copy for h in copy_outputs("loop/body", ["loop/body/a", "x", "loop/body/a"], {"loop/body/a"})]
    [None, 'loop/body/x.copy1', 'loop/body/a.copy2']
    """
    seen: set[str] = set()
    for position, tensor in enumerate(outputs):
        own = tensor in made and tensor not in seen
        seen.add(tensor)
        yield Handed(tensor, None if own else f"{body}/{tensor.removeprefix(f'{body}/')}.copy{position}")


def leave_accesses(handed: Iterable[Handed], outputs: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the reads and writes of `leave`: each body output and its copy; the copies first, then the node's outputs.

    Implements spec: T8.9.
    """
    reads: list[str] = []
    copies: list[str] = []
    for output in handed:
        reads.append(output.tensor)
        if output.copy is not None:
            reads.append(output.copy)
            copies.append(output.copy)
    return tuple(reads), (*copies, *outputs)
