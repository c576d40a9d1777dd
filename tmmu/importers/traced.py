"""A traced training graph: the output of the importers of torch and JAX, which `conversion` turns into a model.

Nothing here depends on a framework. A value is a tensor and its storage; two values that name one storage share its
bytes. Operations are in the order of the trace.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from tmmu.core.vocabulary import MAIN, Role


@dataclass(frozen=True, slots=True)
class TracedValue:
    """A tensor of a trace: the elements of a storage that it shows.

    `strides` and `offset` count elements of `dtype` (no strides: dense, the last dimension fastest). `storage`
    identifies a storage of `storage_bytes` bytes; a value without one has separate bytes.
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

    `results` are its results, in order; one of them may share the storage of an operand: then it is a view, or the
    operand itself if the operation changes it. `changes` are the operands into whose bytes it writes. `elementwise`
    states that an element of each result depends only on the operands at the same index, and `updates` that the result
    is its first operand with some elements written anew. `region` is the body that contains the operation; `optimizer`
    states that it belongs to the update of the parameters.
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
    updates: bool = False

    @property
    def takeable(self) -> tuple[str, ...]:
        """The operands whose bytes a result may take: the first of an update only if it does not come again."""
        if self.updates:
            return tuple(name for name in self.reads[:1] if self.reads.count(name) == 1)
        return self.reads if self.elementwise else ()


@dataclass(frozen=True, slots=True)
class Region:
    """The body of an operation (`tmmu.core.vocabulary.Body`): its owner and values by name, outer regions first."""

    owner: str
    attribute: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    iterates: bool


@dataclass
class TrainingTrace:
    """A whole graph.

    `given` names the values that the caller writes, with their roles. `gradients` names the gradient of each trainable
    parameter, None if the trace found none. `seeds` are the inputs at which backward begins. `regions` are the bodies
    except the main graph, which is region 0; `dims` are the sizes at which the graph was traced.
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
