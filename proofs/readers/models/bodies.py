"""How a node with bodies becomes steps (T8): `enter`, the bodies' own steps, and `leave` with its copies.

What a body hands out is copied at once, as if by one simultaneous assignment. So an output that the body did not
make itself (a formal input, a captured value, an initializer), or that it hands out twice, is first copied to bytes
of its own: otherwise a loop that swaps two values would overwrite one of them before it is read.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple


class Handed(NamedTuple):
    """A body output: the tensor that is read, and the name of its copy if it is copied first."""

    tensor: str
    copy: str | None


def handed_out(body: str, outputs: Iterable[str], made: Container[str]) -> Iterator[Handed]:
    """The outputs of a body, each with the name of its copy where it needs one (spec: T8.8).

    The copy of output k is `<body>/<tensor>.copy<k>`, where a tensor of this very body stands without its scope.

    Parameters
    ----------
    body
        The name of the body.
    outputs
        The tensor of each output of the body, in order.
    made
        The tensors that steps of this very body write.

    Examples
    --------
    >>> [h.copy for h in handed_out("loop/body", ["loop/body/a", "x", "loop/body/a"], {"loop/body/a"})]
    [None, 'loop/body/x.copy1', 'loop/body/a.copy2']
    """
    seen: set[str] = set()
    for position, tensor in enumerate(outputs):
        own = tensor in made and tensor not in seen
        seen.add(tensor)
        yield Handed(tensor, None if own else f"{body}/{tensor.removeprefix(f'{body}/')}.copy{position}")


def leave_accesses(handed: Iterable[Handed], outputs: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What `leave` reads and writes: each body output and its copy; the copies first, then the node's outputs.

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
