"""Search for a lower placement of boxes that are accessed on several streams, by local search over orders.

Whether two boxes may share bytes is a partial order, not a matter of lifetimes, so that the searches of
`tmmu.planner.layouts.search` do not apply. Each search begins with a greedy order, later with one of the boxes in front
of it, and moves the box forward that ends too high. spec: X6.11
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tmmu.planner.layouts.boxes import FIXED, TURNS, Boxes, Neighbours, Obstructed, Packing
from tmmu.planner.layouts.search import Effort


class OrderedSearch:
    """The boxes of one arena with the best placement so far; no placement is below `bound`."""

    def __init__(self, boxes: Boxes, first: Packing, orders: Sequence[Sequence[int]]) -> None:
        self.boxes, self.best, self.orders = boxes, first, orders
        self.bound = boxes.least()

    def steps(self, effort: Effort) -> Iterator[None]:
        """Search step by step, until all orders were tried or no lower placement exists. Every step spends effort."""
        neighbours = Neighbours(self.boxes)
        for order in self._begin_orders():
            for _ in range(TURNS * len(order)):
                if self.best.height <= self.bound:
                    return
                placed = neighbours.place(order, self.best.height)
                if isinstance(placed, Packing):
                    top = next(i for i in order if placed.offsets[i] + self.boxes.size[i] == placed.height)
                    high = Obstructed(top, sum(map(len, neighbours.of)) + FIXED * len(order))
                else:
                    high = placed
                effort.spent += high.work
                if isinstance(placed, Packing) and self.boxes.is_disjoint(placed.offsets):
                    self.best, effort.found = placed, effort.spent
                yield
                place, mine = order.index(high.box), set(neighbours.of[high.box])
                before = [k for k in range(place) if order[k] in mine]
                if not before:
                    break
                order.insert(before[len(before) // 2], order.pop(place))

    def _begin_orders(self) -> Iterator[list[int]]:
        """Yield the orders to begin with: each of `orders`, then each with one of the boxes in front."""
        for lead in (None, *(self.orders[0] if self.orders else ())):
            for order in map(list, self.orders):
                if lead is not None:
                    order.insert(0, order.pop(order.index(lead)))
                yield order
