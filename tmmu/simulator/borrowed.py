"""Kernels of onnx's evaluator, and of onnxruntime for a node that the evaluator has none for. spec: SIM5.12"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx
import onnxruntime

from tmmu.core.errors import TmmuError
from tmmu.simulator.elements import Size
from tmmu.simulator.onnx_node import NodeKernel
from tmmu.simulator.onnxruntime_node import SessionKernel


@dataclass
class BorrowingKernels:
    """Creates the kernel of a node, as `NodeKernel` is created, and notes those that onnxruntime computes."""

    taken: dict[str, str] = field(default_factory=dict)
    """The operator of each node that onnxruntime computes."""
    sessions: dict[bytes, onnxruntime.InferenceSession] = field(default_factory=dict)

    def __call__(
        self,
        name: str,
        node: onnx.NodeProto,
        opsets: Sequence[onnx.OperatorSetIdProto],
        operands: Sequence[Size],
        results: Sequence[Size | None],
        *,
        is_bounded: bool = False,
    ) -> NodeKernel:
        """Create a kernel. Raises the error of the evaluator if neither has one."""
        try:
            return NodeKernel(name, node, opsets, operands, results, is_bounded=is_bounded)
        except TmmuError as error:
            try:
                found = SessionKernel(
                    name, node, opsets, operands, results, sessions=self.sessions, is_bounded=is_bounded
                )
            except TmmuError:
                raise error from None
            self.taken[name] = node.op_type
            return found
