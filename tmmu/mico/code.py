"""The content of the C files: memory, names, and the calls of each step. spec: MC2.2, MC3.4"""

from __future__ import annotations

from dataclasses import dataclass

from tmmu.mico.blocks import BlockPlace, MemoryBlock
from tmmu.mico.kernels.node import KernelCall
from tmmu.mico.network import OnnxNetwork
from tmmu.mico.weights import Constant


@dataclass(frozen=True)
class StepCode:
    """A step: its node, operator, the names of its operands and results, and its calls."""

    node: str
    op: str
    reads: list[str]
    writes: list[str]
    calls: list[KernelCall]


@dataclass(frozen=True)
class ModelCode:
    """The complete content of the C files."""

    name: str
    static: bool
    verdict: str
    plan_hash: str
    model_digest: str
    network: OnnxNetwork
    blocks: list[MemoryBlock]
    places: dict[str, BlockPlace]
    fields: dict[str, str]
    """The field of the struct for each tensor that is in a block."""
    code: dict[str, str]
    """The expression of the bytes of each tensor."""
    steps: list[StepCode]
    constants: list[Constant]
    keeps_inputs: bool
    """Whether the plan keeps the inputs to its last step."""
