"""An execution order that the user lists, node by node.

spec: O1.8, O1.9
"""

from __future__ import annotations

from collections.abc import Sequence

from tmmu.core.errors import TmmuError
from tmmu.core.output import list_names, suggest_names
from tmmu.core.vocabulary import Model
from tmmu.ir.order import arrange_nodes, find_dependencies


def arrange_as_listed(model: Model, names: Sequence[str]) -> Model:
    """Return `model` with the nodes of each body in the order in which `names` has them.

    The nodes of a body run while the node that owns it runs, wherever they are listed. Raises INVALID_BINDING unless
    each node is named once, and no node before one that it depends on. O(nodes + accesses).
    """
    rows = {node.name: n for n, node in enumerate(model.nodes)}
    place: dict[int, int] = {}
    for position, name in enumerate(names):
        if name not in rows:
            raise _refuse(
                f"no node is named {name!r}", suggest_names(name, sorted(rows), "name the nodes of the model")
            )
        if place.setdefault(rows[name], position) != position:
            raise _refuse(f"node {name!r} is listed twice", "list it once")
    if absent := [name for name, n in rows.items() if n not in place]:
        raise _refuse(f"of {len(rows)} nodes these are not listed: {list_names(absent)}", "list each node once")
    for earlier, later in find_dependencies(model):
        if earlier == later or place[earlier] > place[later]:
            first, second = model.nodes[earlier].name, model.nodes[later].name
            raise _refuse(f"node {second!r} is listed before {first!r}, on which it depends", f"list {first!r} first")
    order: list[list[int]] = [[] for _ in model.bodies]
    for n in sorted(place, key=place.__getitem__):
        order[model.nodes[n].body].append(n)
    return arrange_nodes(model, order)


def _refuse(what: str, fix: str) -> TmmuError:
    return TmmuError("INVALID_BINDING", what, place="the execution order", fix=fix, binding="execution_order")
