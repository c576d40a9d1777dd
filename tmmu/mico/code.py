"""The content of the C files: memory, names, and the calls of each step. spec: MC2.2, MC3.4, MC10.1"""

from __future__ import annotations

from dataclasses import dataclass, field

from tmmu.mico.blocks import BlockPlace, CallerMemory, MemoryBlock
from tmmu.mico.kernels.node import KernelCall
from tmmu.mico.names import CNames, check_name, check_prefix
from tmmu.mico.network import OnnxNetwork
from tmmu.mico.weights import Constant

WEIGHTS = ("embed", "file")
MEMORY = ("malloc", "static", "caller")


@dataclass(frozen=True)
class CodeOptions:
    """The choices of a user of the C. Raises ValueError for a value that does not exist.

    `weights` are `embed` (C literals up to 1 MiB, else as `file`) or `file` (`weights.bin`, which the assembler
    includes). `memory` is from `malloc`, in `static` arrays, or only the `caller`'s. `name` is that of the header, the
    source and the program; a `prefix` takes its place and begins every other name too.
    """

    weights: str = "embed"
    memory: str = "malloc"
    name: str = "model"
    prefix: str = ""

    def __post_init__(self) -> None:
        for what, found, known in (("weights", self.weights, WEIGHTS), ("memory", self.memory, MEMORY)):
            if found not in known:
                raise ValueError(f"expected {what} to be one of {', '.join(known)}, got {found!r}")
        check_name(self.name)
        if self.prefix:
            check_prefix(self.prefix)

    @property
    def names(self) -> CNames:
        """The names of the C."""
        return CNames(self.prefix or self.name, self.prefix)


@dataclass(frozen=True)
class StepCode:
    """A step: its node, operator, the names of its operands and results, and its calls."""

    node: str
    op: str
    reads: list[str]
    writes: list[str]
    calls: list[KernelCall]


@dataclass(frozen=True)
class StateCode:
    """Bytes that keep their value from call to call.

    `tensors` are those of all programs that find or leave the value, `code` is the expression of the bytes. What
    `changes` is `initial` at first: the expression of a constant, or zeros if it is empty. If the value `is_given`, the
    caller writes it before the first call.
    """

    name: str
    tensors: tuple[str, ...]
    code: str
    bytes: int
    initial: str = ""
    changes: bool = True
    is_given: bool = False


@dataclass(frozen=True)
class ProgramCode:
    """A model: its tensors in memory and the calls of each step. `label` is empty unless it is in a plan set."""

    label: str
    plan_hash: str
    network: OnnxNetwork
    places: dict[str, BlockPlace]
    fields: dict[str, str]
    """The field of the struct for each tensor that is in a block."""
    code: dict[str, str]
    """The expression of the bytes of each tensor."""
    steps: list[StepCode]
    keeps_inputs: bool
    """Whether the plan keeps the inputs to its last step."""
    state_inputs: frozenset[str] = frozenset()
    """The inputs of a program of a set that keep their value from call to call."""


@dataclass(frozen=True)
class ModelCode:
    """The complete content of the C files: one program, or those of a plan set, in one memory."""

    names: CNames
    memory: str
    verdict: str
    blocks: list[MemoryBlock]
    memories: list[CallerMemory]
    programs: list[ProgramCode]
    constants: list[Constant]
    state: list[StateCode] = field(default_factory=list)
