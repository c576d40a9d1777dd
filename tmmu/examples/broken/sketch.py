"""A small model written by hand, node by node: what the wrong plans are made from.

Every tensor has 64 float32 elements (256 bytes) unless it says otherwise. Nothing is checked, so that a model which
no importer would let through can be planned too. A node is named `<first result>/<operator>`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tmmu.core.dtypes import element_alignment, nbytes
from tmmu.core.vocabulary import MAIN, Bindings, Body, Model, Node, Role, Scratch, Tensor, View
from tmmu.importers.operators import iterates

ELEMENTS = 64


class Sketch:
    """A model in the making; tensors are the integers that its methods return."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._tensors: list[Tensor] = []
        self._nodes: list[Node] = []
        self._bodies = [Body(-1, "", (), ())]
        self._body = MAIN

    def input(self, name: str, elements: int = ELEMENTS, *, role: Role = Role.INPUT, dtype: str = "float32") -> int:
        """A tensor that the caller writes."""
        tensor = self._add(name, elements, role, dtype)
        if role is Role.INPUT:
            main = self._bodies[MAIN]
            self._bodies[MAIN] = replace(main, inputs=(*main.inputs, tensor))
        return tensor

    def weight(self, name: str, elements: int = ELEMENTS) -> int:
        """A parameter."""
        return self.input(name, elements, role=Role.PARAMETER)

    def node(
        self,
        op: str,
        *reads: int,
        result: str,
        elements: int = ELEMENTS,
        dtype: str = "float32",
        in_place: int | None = None,
        view: tuple[int, int] | None = None,
        group: str | None = None,
        saved: bool = False,
        scratch: int | None = None,
        domain: str = "",
    ) -> int:
        """A node with one result.

        `in_place` is the operand whose bytes the result may take, `view` the base that it shows and the byte at
        which it begins, `group` its alias group, `scratch` the bytes that the node needs while it runs.
        """
        tensor = self._add(result, elements, Role.ACTIVATION, dtype, view=view, group=group, saved=saved)
        self._write(op, reads, (tensor,), in_place=in_place, scratch=scratch, domain=domain)
        return tensor

    def nodes(self, op: str, *reads: int, results: Sequence[str], elements: int = ELEMENTS) -> tuple[int, ...]:
        """A node with several results of one size."""
        tensors = tuple(self._add(result, elements, Role.ACTIVATION, "float32") for result in results)
        self._write(op, reads, tensors)
        return tensors

    def rewrite(self, op: str, *reads: int, result: int, declared: bool = True) -> int:
        """A node that writes over a tensor which was written before, and says so if `declared`."""
        self._write(op, reads, (result,), mutates=(result,) if declared else ())
        return result

    @contextlib.contextmanager
    def body(self, owner: int, attribute: str, formals: Sequence[str] = ()) -> Iterator[tuple[int, ...]]:
        """A body of the node that writes the tensor `owner`: what is written within it is named by its scope.

        Yields the formal inputs. Every operator but If may run its body more than once.
        """
        outer, node = self._body, next(n for n, node in enumerate(self._nodes) if owner in node.writes)
        self._body = len(self._bodies)
        self._bodies.append(Body(node, attribute, (), (), iterates("", self._nodes[node].op)))
        inputs = tuple(self._add(formal, ELEMENTS, Role.ACTIVATION, "float32") for formal in formals)
        self._bodies[self._body] = replace(self._bodies[self._body], inputs=inputs)
        yield inputs
        self._body = outer

    def returns(self, *outputs: int) -> None:
        """What the body that is being written (or the main graph) returns."""
        self._bodies[self._body] = replace(self._bodies[self._body], outputs=outputs)

    def model(
        self, *outputs: int, donated: tuple[str, ...] = (), must_not_alias: Sequence[tuple[int, int]] = ()
    ) -> Model:
        """The model, whose caller reads `outputs` after the last step."""
        self.returns(*outputs)
        return Model(
            self.name, tuple(self._tensors), tuple(self._nodes), tuple(self._bodies), tuple(must_not_alias),
            bindings=Bindings(donated=donated),
        )  # fmt: skip

    def _scope(self) -> str:
        if self._body == MAIN:
            return ""
        body = self._bodies[self._body]
        return f"{self._nodes[body.owner].name}/{body.attribute}/"

    def _add(
        self,
        name: str,
        elements: int,
        role: Role,
        dtype: str,
        *,
        view: tuple[int, int] | None = None,
        group: str | None = None,
        saved: bool = False,
    ) -> int:
        size = nbytes((elements,), dtype)
        shown = None if view is None else View(view[0], view[1], size)
        alignment = element_alignment(dtype)
        scoped = self._scope() + name
        self._tensors.append(Tensor(scoped, (elements,), dtype, role, size, alignment, shown, group, saved))
        return len(self._tensors) - 1

    def _write(
        self,
        op: str,
        reads: tuple[int, ...],
        writes: tuple[int, ...],
        *,
        in_place: int | None = None,
        mutates: tuple[int, ...] = (),
        scratch: int | None = None,
        domain: str = "",
    ) -> None:
        first = self._tensors[writes[0]].name
        # A tensor that is written again would give two nodes one name.
        again = sum(node.name.startswith(f"{first}/{op}") for node in self._nodes)
        name = f"{first}/{op}{'.again' * again}"
        hints = () if in_place is None else ((writes[0], in_place),)
        requests = () if scratch is None else (Scratch(scratch, 1),)
        self._nodes.append(Node(name, op, reads, writes, domain, self._body, hints, mutates, requests))
