"""A kernel for one ONNX node: a model of only this node, run by the reference evaluator of the onnx package.

spec: SIM5.1, SIM5.5
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from tmmu.core.errors import TmmuError
from tmmu.onnx.naming import domain_of
from tmmu.onnx.sizes import NUMBERS
from tmmu.simulator.elements import Array, Size, numpy_type
from tmmu.simulator.operators import row_of


class GatherElements(OpRun):
    """GatherElements as specified: onnx's own kernel fails if an axis has more than 32 elements."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        """Gather along `axis`; data beyond the length of `indices` along other axes are ignored."""
        axis %= data.ndim
        near = tuple(slice(None) if k == axis else slice(size) for k, size in enumerate(indices.shape))
        within = np.where(indices < 0, indices + data.shape[axis], indices)
        return (np.take_along_axis(data[near], within, axis),)


class GlobalMaxPool(OpRun):
    """GlobalMaxPool as specified: onnx's own kernel takes the maximum over two axes, however many there are."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array]:
        """Take the maximum over all axes but the first two."""
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class KernelFailed(TmmuError):
    """A kernel cannot compute on the operands that it was given."""


class NodeKernel:
    """A node of ai.onnx, or of another domain that the backend supports. The backend here is the reference evaluator.

    Parameters
    ----------
    name
        The node's name, for messages and for the seeds of random operators.
    node
        The node itself, without bodies.
    opsets
        The model's operator sets.
    operands
        The sizes of the operands that are present.
    results
        The sizes of the outputs in order, None for those that are absent or not produced.
    is_bounded
        Whether the sizes are upper bounds: operands and results of a run may be smaller in any dimension.

    Raises
    ------
    TmmuError
        INVALID_IR if the backend has no kernel for the node.
    """

    judge = "onnx"
    """The name of the backend."""
    instead = "install onnxruntime, which then computes it (pip install 'tmmu[judges]'), or "
    """What else to do about a missing kernel."""

    def __init__(
        self,
        name: str,
        node: onnx.NodeProto,
        opsets: Sequence[onnx.OperatorSetIdProto],
        operands: Sequence[Size],
        results: Sequence[Size | None],
        *,
        is_bounded: bool = False,
    ) -> None:
        self.name, self.operands, self.wanted, self.is_bounded = name, operands, results, is_bounded
        own = onnx.NodeProto()
        own.CopyFrom(node)
        own.name, own.domain = "", domain_of(node)
        present = iter(f"operand{k}" for k in range(len(operands)))
        inputs = [next(present) if text else "" for text in node.input]
        outputs = [f"result{k}" if size is not None else "" for k, size in enumerate(results)]
        while outputs and not outputs[-1]:
            outputs.pop()
        del own.input[:], own.output[:]
        own.input.extend(inputs)
        own.output.extend(outputs)
        self.outputs = [text for text in outputs if text]
        self.draws = row_of(own.domain, own.op_type).draws
        if self.draws and all(a.name != "seed" for a in own.attribute):
            seed = float(zlib.crc32(name.encode()) & 0xFFFF)
            own.attribute.append(helper.make_attribute("seed", int(seed) if own.op_type == "Dropout" else seed))
        given = [
            helper.make_tensor_value_info(f"operand{k}", NUMBERS[dtype], [None] * len(shape) if is_bounded else shape)
            for k, (shape, dtype) in enumerate(operands)
        ]
        made = [
            helper.make_tensor_value_info(f"result{k}", NUMBERS[size[1]], size[0])
            for k, size in enumerate(results)
            if size is not None
        ]
        graph = helper.make_graph([own], "node", given, made)
        sets = [helper.make_opsetid(domain_of(each), each.version) for each in opsets]
        sets = [each for each in sets if each.domain in ("", own.domain)]
        try:
            self.load(helper.make_model(graph, opset_imports=sets))
        except Exception as error:  # both raise exceptions of any kind over an unknown node
            raise TmmuError(
                "INVALID_IR",
                f"{self.judge} has no kernel for {own.op_type} ({_first_line(error)})",
                place=f"node {name!r}",
                fix=f"{self.instead}run it with stand-ins for every operator: --kernels hash",
                operator="UML_OS.TMMU.ApplyPlan_v1",
                node_id=name,
            ) from error

    def load(self, model: onnx.ModelProto) -> None:
        """Prepare to compute the node's model; may raise any exception if there is no kernel."""
        self.evaluator = ReferenceEvaluator(model, new_ops=[GatherElements, GlobalMaxPool])

    def compute(self, operands: Sequence[Array]) -> list[Array]:
        """Compute the produced results; may raise any exception if that fails."""
        return list(self.evaluator.run(self.outputs, {f"operand{k}": each for k, each in enumerate(operands)}))

    def run(self, operands: Sequence[Array]) -> list[Array]:
        """Compute the produced results and check their planned sizes. Raises `KernelFailed` if that fails."""
        try:
            with np.errstate(all="ignore"):
                made = self.compute(operands)
        except Exception as error:  # kernels raise exceptions of any kind
            raise self._failure(f"the kernel fails ({_first_line(error)})") from error
        sizes = [size for size in self.wanted if size is not None]
        return [self._check_size(array, size) for array, size in zip(made, sizes, strict=True)]

    def _check_size(self, array: Array, size: Size) -> Array:
        """Return a result of the planned type; raises `KernelFailed` for another shape, or one beyond its bound.

        The evaluator computes some operators in another type than it should.
        """
        shape, dtype = size
        array = np.asarray(array)
        if array.shape != shape and not (self.is_bounded and fits(array.shape, shape)):
            most = "at most " if self.is_bounded else ""
            raise self._failure(f"expected a result of {most}{list(shape)}, got {list(array.shape)}")
        with np.errstate(all="ignore"):
            return array if array.dtype == numpy_type(dtype) else array.astype(numpy_type(dtype))

    def _failure(self, what: str) -> KernelFailed:
        return KernelFailed(
            "CONTRACT_VIOLATION",
            what,
            place=f"node {self.name!r}",
            fix="give inputs that the model can take, with --inputs, and plan with their shapes",
            operator="UML_OS.TMMU.ApplyPlan_v1",
            failure_operator=self.name,
        )


def fits(shape: Sequence[int], bound: Sequence[int]) -> bool:
    """Return whether a shape has the rank of its bound, and no dimension above it.

    >>> fits((2, 3), (2, 64)), fits((3, 3), (2, 64)), fits((2,), (2, 64))
    (True, False, False)
    """
    return len(shape) == len(bound) and all(size <= most for size, most in zip(shape, bound, strict=True))


def _first_line(error: Exception) -> str:
    """Return the first line of an exception's message, or its type."""
    return next(iter(str(error).splitlines()), type(error).__name__)
