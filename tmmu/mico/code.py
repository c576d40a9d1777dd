"""All that the C files are written from: memory, names, and the calls of each step. spec: MC2.2, MC3.4"""

from __future__ import annotations

from dataclasses import dataclass

from tmmu.mico.blocks import BlockPlace, MemoryBlock
from tmmu.mico.kernels.node import KernelCall
from tmmu.mico.network import OnnxNetwork
from tmmu.mico.weights import Constant


@dataclass(frozen=True)
class StepCode:
    """A step: its node, operator, what it reads and writes by name, and its calls."""

    node: str
    op: str
    reads: list[str]
    writes: list[str]
    calls: list[KernelCall]


@dataclass(frozen=True)
class ModelCode:
    """All that the files are written from."""

    name: str
    static: bool
    verdict: str
    plan_hash: str
    model_digest: str
    network: OnnxNetwork
    blocks: list[MemoryBlock]
    places: dict[str, BlockPlace]
    fields: dict[str, str]
    """The field of the struct for each tensor that lies in a block."""
    code: dict[str, str]
    """The expression of each tensor's bytes."""
    steps: list[StepCode]
    constants: list[Constant]
