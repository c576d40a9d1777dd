"""The streams of a plan as lanes: the steps of each, and the waits between steps.

spec: RP1.16
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tmmu.core.output import count_noun
from tmmu.plans.sections import BufferPlan, Plan

Int = NDArray[np.int64]

MOST = 4000
"""The most bars that are drawn, and the most waits."""


@dataclass(frozen=True)
class StreamLanes:
    """Bars and waits of lanes, in columns: a bar has its lane and its first and last step, a wait both of its steps.

    A bar is a step, or if there are more than `MOST` steps, `width` steps of which at least one is on the stream.
    """

    names: tuple[str, ...]
    stream: Int
    """The lane of each step."""
    lane: Int
    first: Int
    last: Int
    awaited: Int
    waiting: Int
    """The step that waits until the step `awaited` has ended."""
    width: int
    left_out: int
    """The number of waits that are not drawn."""

    def describe(self) -> str:
        """Return what is drawn and what is left out, in words."""
        if self.width > 1:
            bars = f"a bar is up to {self.width} steps, of which the stream has at least one"
        else:
            bars = "a bar is a step"
        waits = (
            f"a line is a wait ({count_noun(self.left_out, 'wait')} not drawn)" if self.left_out else "a line is a wait"
        )
        return f"Streams: {bars}, {waits}. Steps of different streams overlap in time unless waits order them."


def find_lanes(plan: Plan | BufferPlan, most: int = MOST) -> StreamLanes | None:
    """Return the lanes of a plan with streams, None for any other. O(steps)."""
    if not isinstance(plan, Plan) or not plan.allocation.streams:
        return None
    names, steps = plan.allocation.streams, plan.allocation.steps
    stream, count = steps.stream.astype(np.int64), len(steps)
    width = 1 if count <= most else -(-count // max(1, most // len(names)))
    # The parts of a lane in which it has a step, each once.
    parts = -(-count // width)
    lane, part = np.divmod(np.unique(stream * parts + np.arange(count) // width), parts)
    awaited = steps.after.astype(np.int64)
    waiting = np.repeat(np.arange(count), steps.after_at[1:].astype(np.int64) - steps.after_at[:-1])
    drawn = slice(0, most)
    return StreamLanes(
        names, stream, lane, part * width, np.minimum((part + 1) * width, count) - 1, awaited[drawn], waiting[drawn],
        width, max(0, len(awaited) - most),
    )  # fmt: skip
