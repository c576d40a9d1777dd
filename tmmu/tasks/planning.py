"""From a model to a plan that the verifier's own function has checked: what `tmmu plan` and `tmmu.plan` both do.

spec: C2.1, C2.11
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from tmmu.core import kind
from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_package
from tmmu.core.vocabulary import ArenaConfiguration, ArenaPolicy, Bindings, Model, Node, Scratch
from tmmu.planner import Planned, PlanOptions, plan_memory
from tmmu.planner.modes import choose_mode, has_backward, prepare_graph
from tmmu.planner.remat import check_budget
from tmmu.planner.slots import MoveObserver
from tmmu.plans.sections import Plan
from tmmu.plans.workspace_file import Workspace
from tmmu.tasks.checking import PlanCheck, check_sizes
from tmmu.tasks.models import load_resolved
from tmmu.tasks.training import TrainingOptions


@dataclass(frozen=True)
class PlanningTask:
    """A model as it was given, the graph that is planned for it, and how."""

    given: Model
    graph: Model
    """The halves that the mode runs, with what had to be added, in execution order."""
    arenas: tuple[ArenaConfiguration, ...]
    policy: ArenaPolicy
    options: PlanOptions
    budget: int | None
    is_ir: bool

    def planned(
        self, graph: Model, observer: MoveObserver | None = None, stopped: Callable[[], bool] = lambda: False
    ) -> Planned:
        """The plan of `graph`, which is the task's own or a rank's part of it, within the budget. As `plan_memory`."""
        made = plan_memory(graph, self.arenas, self.options, policy=self.policy, observer=observer, stopped=stopped)
        if self.budget is not None:
            check_budget(made.plan, self.budget)
        return made

    def check(self, plan: Plan) -> bytes:
        """The bytes of a plan that was made for this task. Raises CONTRACT_VIOLATION unless the verifier finds nothing
        wrong with them.
        """
        return self._check(plan)

    @cached_property
    def _check(self) -> PlanCheck:
        return PlanCheck(self.graph, is_ir=self.is_ir)


def task(
    model: str | Model,
    bindings: Bindings,
    training: TrainingOptions,
    options: PlanOptions,
    arenas: tuple[tuple[ArenaConfiguration, ...], ArenaPolicy],
    *,
    divided: bool = False,
    workspace: Workspace | None = None,
) -> PlanningTask:
    """What there is to plan of a model, which is a file or a valid graph in execution order.

    `divided` is whether ranks get parts of it. With a `workspace` nodes have the scratch that it states. Raises
    `TmmuError`: INVALID_IR, INVALID_BINDING, INVALID_IR_SHAPES, MODE_VIOLATION, ARENA_TOO_SMALL or, before the model is
    read, MISSING_PACKAGE. O(n log n) for n nodes and tensors, and what onnx's inference takes.
    """
    if options.layout == "hashed":
        require_package("blake3", "the layout hashed", "hashed")
    is_ir = isinstance(model, Model) or kind.is_ir(model)
    loaded, resolved = (model, None) if isinstance(model, Model) else load_resolved(model, bindings)
    check_sizes(resolved)
    mode, _ = choose_mode(training.mode, training.preset, training.budget)
    if workspace is not None:
        if mode != "inference":
            raise TmmuError(
                "MODE_VIOLATION", "--workspace goes with inference only", fix="drop one of the two", mode=mode
            )
        loaded = add_workspace(loaded, workspace)
    graph = prepare_graph(loaded, mode, arenas[0], training.budget, arenas[1])
    wanted = replace(options, mode=mode, is_stage=divided or has_backward(loaded))
    return PlanningTask(loaded, graph, *arenas, wanted, training.budget, is_ir)


def add_workspace(model: Model, stated: Workspace) -> Model:
    """Return a model whose nodes need the scratch that is stated; nodes with bodies need none. spec: M4.1

    Raises INVALID_BINDING for a node or an operator that no other node has. O(nodes).
    """
    owners = {body.owner for body in model.bodies}

    def named(node: Node) -> str:
        domain = "" if node.domain == "ai.onnx" else node.domain
        return f"{domain}::{node.op}" if domain else node.op

    stated.check_names((node.name, named(node)) for n, node in enumerate(model.nodes) if n not in owners)
    nodes = list(model.nodes)
    for n, node in enumerate(nodes):
        need = None if n in owners else stated.needed_by(node.name, named(node))
        if need is not None:
            nodes[n] = replace(node, scratch=(*node.scratch, Scratch(*need)))
    return replace(model, nodes=tuple(nodes))
