"""A traced training graph: what the importers of torch and JAX produce, and `conversion` makes a model of.

Nothing here depends on a framework. A value is a tensor with the storage that it lies in; two values that name one
storage share its bytes. Operations stand in the order in which they were traced.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from tmmu.core.vocabulary import MAIN, Role


@dataclass(frozen=True, slots=True)
class TracedValue:
    """A tensor of a trace: which elements of which storage it shows.

    `strides` and `offset` count elements of `dtype` (no strides: dense, the last dimension fastest). `storage`
    identifies a storage of `storage_bytes` bytes; a value without one has bytes of its own.
    """

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None
    offset: int = 0
    storage: Hashable = None
    storage_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """An operation of a trace: the names of the values that it reads, returns and changes.

    `results` are what it returns, in its order; one of them may share the storage of an operand: then it is a view,
    or the operand itself where the operation changes it. `changes` are the operands into whose bytes it writes.
    `elementwise` states that an element of each result depends on the operands at the same index alone. `region` is the
    body that the operation stands in; `optimizer` states that it belongs to the update of the parameters.
    """

    name: str
    domain: str
    op: str
    reads: tuple[str, ...]
    results: tuple[str, ...]
    changes: tuple[str, ...] = ()
    elementwise: bool = False
    region: int = MAIN
    optimizer: bool = False


@dataclass(frozen=True, slots=True)
class Region:
    """The body of an operation (`tmmu.core.vocabulary.Body`): its owner and values by name, the outer region first."""

    owner: str
    attribute: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    iterates: bool


@dataclass
class TrainingTrace:
    """A whole graph.

    `given` names what the caller writes, with its role. `gradients` names for each trainable parameter the value that
    is its gradient, None where the trace found none. `seeds` are the inputs at which backward begins. `regions` are
    the bodies but for the main graph, which is region 0; `dims` are the sizes at which the graph was traced.
    """

    name: str
    values: dict[str, TracedValue] = field(default_factory=dict)
    given: dict[str, Role] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    gradients: dict[str, str | None] = field(default_factory=dict)
    seeds: set[str] = field(default_factory=set)
    regions: list[Region] = field(default_factory=list)
    dims: dict[str, int] = field(default_factory=dict)
