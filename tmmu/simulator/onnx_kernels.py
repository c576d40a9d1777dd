"""Kernels for the nodes of an ONNX model: onnx's reference evaluator, or onnxruntime.

spec: SIM5.1, SIM5.3, SIM5.4, SIM5.8, SIM5.11
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from tmmu.core.dtypes import nbytes
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import NodePart
from tmmu.plans.sections import Plan
from tmmu.simulator.bodies import Holder
from tmmu.simulator.elements import Array, decode, encode, numpy_type
from tmmu.simulator.machine import Rounds
from tmmu.simulator.memories import Raw
from tmmu.simulator.onnx_bodies import ROUNDS, no_body_kernel
from tmmu.simulator.onnx_model import OnnxModel, ScopedNode, list_bodies
from tmmu.simulator.onnx_node import KernelFailed, NodeKernel
from tmmu.simulator.program import PlanProgram
from tmmu.simulator.values import draw, read_initializer


class OnnxKernels:
    """Kernels for a program that is bound to a model.

    Parameters
    ----------
    program, model
        After `model.bind(program)`.
    inputs
        Arrays for graph inputs, of the planned shapes and types; missing ones are drawn from the seed.
    seed
        The seed for missing inputs and weights; give each batch a different one.
    make
        Creates the kernel of a node; takes the arguments of `NodeKernel`.

    Raises
    ------
    TmmuError
        INVALID_IR for the first step that has no kernel, before anything is run.
    """

    def __init__(
        self,
        program: PlanProgram,
        model: OnnxModel,
        inputs: Mapping[str, Array] | None = None,
        seed: int = 0,
        make: Callable[..., NodeKernel] = NodeKernel,
    ) -> None:
        self.program, self.model, self.inputs, self.seed = program, model, dict(inputs or {}), seed
        self.is_bounded = has_bounds(program.plan, model)
        self.smaller: dict[int, tuple[int, ...]] = {}
        """The shapes of the tensors that are smaller in this run than planned, by row."""
        self._leaving = {t for body in list_bodies(program.items) for pair in body.returns for t in pair}
        self.kernels: dict[int, NodeKernel] = {}
        for n, step in enumerate(program.steps):
            place = model.nodes[step.node]
            if step.part is NodePart.WHOLE:
                self.kernels[n] = self._kernel(place, make)
            elif step.op[0] or step.op[1] not in ROUNDS:
                raise no_body_kernel(step.node, step.op[1])

        self.constants = self._evaluate_constants(make)

    def _kernel(self, place: ScopedNode, make: Callable[..., NodeKernel]) -> NodeKernel:
        model = self.model
        sizes = [model.sizes[name] for name in model.reads(place) if name is not None]
        results = [None if name is None else model.sizes[name] for name in model.writes(place)]
        opsets = model.proto.opset_import
        return make(place.name, place.node, opsets, sizes, results, is_bounded=self.is_bounded)

    def _evaluate_constants(self, make: Callable[..., NodeKernel]) -> dict[str, Array]:
        """Compute the constants that are tensors, by the nodes without a step. spec: T10.12"""
        wanted, chosen, found = set(self.model.constants), list[ScopedNode](), dict[str, Array]()
        for place in reversed(self.model.folded.values()):
            if not wanted.isdisjoint(self.model.writes(place)):
                chosen.append(place)
                wanted.update(name for name in self.model.reads(place) if name is not None)
        for place in reversed(chosen):
            operands = []
            for name in self.model.reads(place):
                if name is not None:
                    operands.append(found[name] if name in found else self._read_stored(name))
            made = iter(self._kernel(place, make).run(operands))
            found.update((name, next(made)) for name in self.model.writes(place) if name is not None)
        return {name: found[name] for name in self.model.constants}

    def _read_stored(self, name: str) -> Array:
        """Return the elements of an initializer; draws them if they are missing."""
        tensor = self.model.stored[name]
        array = read_initializer(tensor, self.model.folder) if isinstance(tensor, onnx.TensorProto) else _dense(tensor)
        size = self.model.sizes[name]
        return array if array is not None else decode(draw(self.seed, name, size), size)

    def given(self, t: int) -> Raw:
        """Return the caller's value: an input, a bound value or a stored weight; otherwise a drawn value."""
        name, (shape, dtype) = self.program.names[t], self.model.size(self.program, t)
        array: Array | None = None
        tensor = self.model.stored.get(name)
        if name in self.inputs:
            array = self.inputs[name]
        elif name in self.constants:
            array = self.constants[name]
        elif isinstance(tensor, onnx.TensorProto):
            array = read_initializer(tensor, self.model.folder)
        elif tensor is not None:
            array = _dense(tensor)
        elif name in self.program.plan.bindings.values:
            text = self.program.plan.bindings.values[name].lower()
            words = [{"true": "1", "false": "0"}.get(word, word) for word in text.split(",") if word]
            array = np.array([float(word) if "." in word else int(word) for word in words]).astype(numpy_type(dtype))
            array = array.reshape(shape)
        if array is None:
            return draw(self.seed, name, (shape, dtype))
        if (array.shape, array.dtype) != (shape, numpy_type(dtype)):
            raise TmmuError(
                "INVALID_IR", f"expected data of {dtype} {list(shape)}, got {array.dtype} {list(array.shape)}",
                place=f"tensor {name!r}", fix="write the model again", node_id=name,
            )  # fmt: skip
        return encode(array, dtype)

    def scratch(self, t: int) -> Raw:
        """Return zeros: these kernels need no scratch."""
        return np.zeros(self.program.sizes[t], np.uint8)

    def compute(self, n: int, operands: Sequence[Raw]) -> list[Raw]:
        """Compute the results of a step. Those of a smaller shape than planned are followed by zeros. spec: SIM5.11"""
        kernel, step = self.kernels[n], self.program.steps[n]
        made = kernel.run([self._decode(t, raw) for t, raw in zip(step.operands, operands, strict=True)])
        return [self._encode(array, t) for array, t in zip(made, step.results, strict=True)]

    def _decode(self, t: int, raw: Raw) -> Array:
        """Return the elements of a tensor at the shape that it has in this run."""
        shape, dtype = self.model.size(self.program, t)
        if t not in self.smaller:
            return decode(raw, (shape, dtype))
        return decode(raw[: nbytes(self.smaller[t], dtype)], (self.smaller[t], dtype))

    def _encode(self, array: Array, t: int) -> Raw:
        """Return the bytes of a tensor, and record its shape if it is smaller than planned."""
        shape, dtype = self.model.size(self.program, t)
        self.smaller.pop(t, None)
        if array.shape == shape:
            return encode(array, dtype)
        if t in self._leaving:
            raise self._refuse_shape(t, array.shape, "a body returns it at")
        self.smaller[t] = array.shape
        padded = np.zeros(self.program.sizes[t], np.uint8)
        content = encode(array, dtype)
        padded[: len(content)] = content
        return padded

    def rounds(self, holder: Holder, operands: Sequence[Raw]) -> Rounds:
        """Begin to execute an If, a Loop or a Scan. Raises `KernelFailed` for an operand smaller than planned."""
        step = self.program.steps[holder.enter]
        for t in step.operands:
            if t in self.smaller:
                raise self._refuse_shape(t, self.smaller[t], f"{step.node} has bodies, which take")
        return ROUNDS[step.op[1]](self.model.holder(holder, self.program), operands)

    def _refuse_shape(self, t: int, shape: tuple[int, ...], why: str) -> KernelFailed:
        """Return the error for a tensor that must not be smaller than planned."""
        return KernelFailed(
            "CONTRACT_VIOLATION", f"its shape is {list(shape)}, but {why} {list(self.model.size(self.program, t)[0])}",
            place=f"tensor {self.program.names[t]!r}", fix="plan with the sizes that hold at run time",
            operator="UML_OS.TMMU.ApplyPlan_v1", failure_operator=self.program.names[t],
        )  # fmt: skip

    def arrays(self, outputs: Mapping[int, Raw]) -> dict[str, Array]:
        """Return the values that the caller reads, as arrays by name."""
        names = self.program.names
        return {names[t]: self._decode(t, raw) for t, raw in outputs.items()}

    def shapes_below(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the tensors that were smaller in the last run than planned, by name."""
        return {self.program.names[t]: shape for t, shape in self.smaller.items()}


def has_bounds(plan: Plan, model: OnnxModel) -> bool:
    """Return whether the user stated sizes of results, which are upper bounds for a run. spec: SIM5.11"""
    bindings = plan.bindings
    return bindings.trust_shapes or bool(bindings.stated) or any(name not in model.inputs for name in bindings.shapes)


def _dense(sparse: onnx.SparseTensorProto) -> Array:
    """Return the elements of a sparse initializer, zeros included."""
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    array = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        array.reshape(-1)[indices] = values
    else:
        array[tuple(indices.T)] = values
    return array
