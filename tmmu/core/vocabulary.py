"""The words of a memory plan, one sentence each; every other module uses these words.

A *model* is a graph of *nodes* that read and write *tensors*. Its execution order turns nodes into *steps*, numbered
from 0. A tensor lives over a *lifetime*. Tensors that share bytes form one *storage*. Storages whose lifetimes do not
overlap may share a *slot*. A *placement* gives a storage its *arena*, its offset and its steps. Indices refer to rows
of the model's own tuples; nothing here computes anything.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tmmu.core.dims.expressions import Dim

MAIN = 0
"""The body that is the model's main graph."""

MAX_BODY_DEPTH = 64
"""The deepest nesting of nodes with bodies, in a model and in a plan."""

MAX_EXCLUSIVE_ARMS = 64
"""The most bodies of one node of which a plan may declare that exactly one runs."""

MAX_RULES, MAX_PATTERNS = 1024, 1024
"""The most rules, and devices, of one configuration, and the most patterns with a star."""

UINT64_END = 1 << 64
"""Sizes, offsets, alignments and capacities are integers below this."""
EFFORT_END = 1 << 62
"""The effort of a placement is below this."""


MODES = ("inference", "forward", "backward")
"""The modes of a plan: forward steps; forward steps keeping what backward needs; or both halves in one order (M1)."""

PRESETS: Mapping[str, tuple[str, ...]] = {
    "inference": ("inference",),
    "train_full": ("backward", "forward"),
    "remat_enabled": ("backward",),
}
"""The modes of each preset, its default first."""

EXECUTION_MODES = ("local", "managed", "confidential", "regulated")
"""The modes of running a plan (M4)."""

REPLAN_POLICIES = ("ABORT", "REPLAN_AT_SAFEPOINT")
"""The reactions to a shape outside the envelope: refuse it, or plan again before the next iteration. spec: R6.7"""

LAYOUTS = ("packed", "slots", "pools", "hashed")
"""The layouts: how addresses follow from storages and their slots."""

RUNTIMES = {"onnxruntime": ("basic", "extended", "all")}
"""The runtimes whose own graph of a model can be planned, with the levels of their optimizations, the least first."""

ORDERS = ("given", "memory")
"""Execution orders: that of the model, or one with a lower peak of live bytes."""


class Role(enum.StrEnum):
    """The role of a tensor; the arena configuration assigns an arena to each role (M3)."""

    INPUT = "input"
    PARAMETER = "parameter"
    OPTIMIZER = "optimizer"
    ACTIVATION = "activation"
    GRADIENT = "gradient"
    SCRATCH = "scratch"


class Phase(enum.StrEnum):
    """The part of training that a node belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


class NodePart(enum.StrEnum):
    """The part of its node that a step executes: the whole node, or the enter or leave of a node with bodies (T8)."""

    WHOLE = "whole"
    ENTER = "enter"
    LEAVE = "leave"


class Shares(enum.StrEnum):
    """Why a tensor shares bytes with the tensor `of`, as a plan states it (T2, T3)."""

    NONE = "none"
    VIEW = "view"
    ALIAS = "alias"
    IN_PLACE = "in_place"


class View(NamedTuple):
    """A window of `bytes` bytes at byte `offset` of tensor `base`; `strides` (in elements) are informative."""

    base: int
    offset: int
    bytes: int
    strides: tuple[int, ...] | None = None


ARRIVAL = "tmmu.inputs", "Arrive"
"""The operator of a step that reads nothing, and at which the caller writes inputs that arrive late (T1.9)."""


class Scratch(NamedTuple):
    """Bytes that a node needs while it runs and that no other node reads."""

    bytes: int
    alignment: int
    arena: str | None = None


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of known shape and dtype, written by one node or by the caller before step 0.

    `bytes` is the planned size: that of the shape, or the largest inside the envelope if dimensions are expressions.
    `alignment` is the alignment that the tensor itself requires. `fixed_offset` is the byte of its arena where it must
    begin, None if the planner is free.
    """

    name: str
    shape: tuple[Dim, ...]
    dtype: str
    role: Role
    bytes: int
    alignment: int = 1
    view: View | None = None
    alias_group: str | None = None
    saved_for_backward: bool = False
    fixed_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """An operation; `reads` and `writes` are tensor indices in the operator's order, without absent operands.

    `in_place` are hints (result, operand) that the result may take the operand's bytes (T3). `mutates` are those of
    `writes` that the node overwrites although an earlier step or the caller wrote them. An `opaque` node has attributes
    that no table covers, so that its operator implies nothing. `stream` is the stream that it runs on, "" if the model
    states none or it is inside of a body, and `after` names the nodes that have ended before it begins (X5).
    """

    name: str
    op: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    domain: str = ""
    body: int = MAIN
    in_place: tuple[tuple[int, int], ...] = ()
    mutates: tuple[int, ...] = ()
    scratch: tuple[Scratch, ...] = ()
    phase: Phase = Phase.FORWARD
    opaque: bool = False
    stream: str = ""
    after: tuple[str, ...] = ()

    @property
    def made(self) -> tuple[int, ...]:
        """The tensors that it writes without mutating, in order. O(accesses)."""
        if not self.mutates:
            return self.writes
        changed = frozenset(self.mutates)
        return tuple(t for t in self.writes if t not in changed)


@dataclass(frozen=True, slots=True)
class Body:
    """The inside of a node with bodies: its formal inputs, written on entry, and its outputs, read on leaving.

    `owner` is the node (-1 for the main graph), `attribute` the name under which the owner holds it, `iterates` whether
    the owner may run it more than once. The main graph's inputs and outputs are the model's.
    """

    owner: int
    attribute: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    iterates: bool = False


class SteppedDim(NamedTuple):
    """A dimension with only every `step`-th size: `first + step * n`, where `unit` is the name of the dimension n."""

    unit: str
    first: int
    step: int


@dataclass(frozen=True, slots=True)
class RuntimeGraph:
    """The graph that a runtime makes of a model file before it runs it (T10.16).

    A request has a name and a level only. `version` is that of the runtime, `block` the number of channels that its
    layout for the CPU keeps together (0 if it has no such layout), and `digest` the SHA-256 of the graph as text
    (T10.17).
    """

    name: str
    level: str
    version: str = ""
    block: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Bindings:
    """The values that the user fixed so that every shape is known (T10): the plan holds for these and no others.

    `ranges` is the envelope: (low, high), both included, of each open dimension (R6). `defaults` are initializers that
    are graph inputs too and that decided a shape or a branch. Values are text, since a plan contains no float. `stated`
    are sizes that the user declares for tensors whose size is otherwise unknown, as `[TYPE:]1x10` or `bytes:40`; after
    resolution only those that were needed. `steps` maps dimensions with a step to their units, which `ranges` or `dims`
    has instead. With `keep_inputs` the caller finds its inputs unchanged after the last step, except donated ones. With
    `runtime` the model is the graph that this runtime makes of the file.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    donated: tuple[str, ...] = ()
    trust_shapes: bool = False
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    stated: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, SteppedDim] = field(default_factory=dict)
    keep_inputs: bool = False
    runtime: RuntimeGraph | None = None


UNBOUND = Bindings()
"""The bindings of a model if the user binds nothing."""


@dataclass(frozen=True, slots=True)
class Model:
    """A graph whose every tensor has a known size: nodes in a valid order, bodies flat, body 0 the main graph.

    `must_not_alias` are pairs of tensors that may never share a byte (T5). `unproduced` names optional outputs that no
    node reads and that have no shape (T9). `source_digest` is the SHA-256 of the file that it came from. `kept` are
    tensors of the caller that a plan set keeps as state, whatever the bindings say; a file of the model does not have
    them.
    """

    name: str
    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    bodies: tuple[Body, ...]
    must_not_alias: tuple[tuple[int, int], ...] = ()
    unproduced: tuple[str, ...] = ()
    bindings: Bindings = field(default_factory=Bindings)
    source_digest: bytes | None = None
    kept: frozenset[int] = frozenset()

    @property
    def has_streams(self) -> bool:
        """Whether its nodes state streams: all nodes of the main graph do, or none. O(nodes)."""
        return any(node.stream for node in self.nodes)

    @property
    def inputs(self) -> tuple[int, ...]:
        """The tensors that the caller writes before step 0, except parameters and optimizer state."""
        return self.bodies[MAIN].inputs

    @property
    def kept_inputs(self) -> list[int]:
        """The caller's tensors that it reads after the last step: `kept`, and with `keep_inputs` all that it keeps."""
        if not self.bindings.keep_inputs:
            return sorted(self.kept)
        donated = frozenset(self.bindings.donated)
        return sorted(self.kept.union(t for t in self.inputs if self.tensors[t].name not in donated))

    @property
    def outputs(self) -> tuple[int, ...]:
        """The tensors that the caller reads after the last step."""
        return self.bodies[MAIN].outputs


class Lifetime(NamedTuple):
    """The first and the last step of a live range, both included (T1)."""

    birth: int
    death: int


@dataclass(frozen=True, slots=True)
class ArenaConfiguration:
    """The configuration of an arena for the planner: its roles, its capacity, and its alignment.

    `reuse` is False for persistent arenas: no two of their storages share a slot, whenever they live. `page_size`
    rounds the backing memory, not the plan. `memory` names a memory of `device`; if it is empty, no other arena counts
    against the same bytes.
    """

    name: str
    roles: tuple[Role, ...]
    capacity: int = UINT64_END - 1
    alignment: int = 128
    page_size: int = 4096
    reuse: bool = True
    device: str = "default"
    memory: str = ""


class Memory(NamedTuple):
    """Bytes of a device that its arenas divide among them: together they end within `capacity`."""

    name: str
    capacity: int


class DeviceConfiguration(NamedTuple):
    """A device that runs nodes and has memories: it runs nodes whose name or operator matches one of its patterns."""

    name: str
    memories: tuple[Memory, ...] = ()
    nodes: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()


class Rule(NamedTuple):
    """The arenas that matching tensors may use, in order of preference; a single arena pins them.

    A rule matches a tensor that has one of the `roles`, a name matching one of the patterns `names`, and a node with an
    operator in `ops` and a device in `devices`. The node is the one that writes the tensor; for the caller's tensors
    the first that reads it. An empty field matches everything. In a pattern `*` is any text, every other character
    itself.
    """

    arenas: tuple[str, ...]
    roles: tuple[Role, ...] = ()
    names: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


FixedByte = int | tuple[str, int]
"""The offset at which a tensor must begin: a byte of the arena for its role, or the name of an arena and a byte."""


class ArenaPolicy(NamedTuple):
    """The devices, and the rules for the arenas that a tensor may use; without a match, its role decides (M3)."""

    devices: tuple[DeviceConfiguration, ...] = ()
    rules: tuple[Rule, ...] = ()

    def excess(self) -> str | None:
        """Return which limit is exceeded: rules, devices, or patterns with a star, which are tried on each name.

        spec: P1.8
        """
        patterns = {p for d in self.devices for p in (*d.nodes, *d.ops)}
        patterns |= {p for rule in self.rules for p in (*rule.names, *rule.ops)}
        return describe_excess("devices", max(len(self.rules), len(self.devices)), patterns)


def describe_excess(others: str, most: int, patterns: Iterable[str]) -> str | None:
    """Return a message if there are too many rules or `others`, or too many patterns with a star; otherwise None."""
    if most > MAX_RULES:
        return f"more than {MAX_RULES} rules or {others}"
    if sum("*" in pattern for pattern in patterns) > MAX_PATTERNS:
        return f"more than {MAX_PATTERNS} patterns with a star"
    return None


ANYWHERE = ArenaPolicy()
"""No devices and no rules: each tensor is placed in the arena of its role."""
