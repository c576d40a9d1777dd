"""Layouts: how addresses follow from storages and slots. One file for each layout, with `IN_PLACE` and `place`.

`place(problem, slots)` returns the offset of each storage and the footprint of each arena. Logical slots are assigned
for every layout, and persistent arenas are laid out in sequence in all of them. spec: A7.1, A7.2
"""

from tmmu.planner.layouts import hashed, packed, pools, slots

PLACE = {"packed": packed.place, "slots": slots.place, "pools": pools.place, "hashed": hashed.place}
"""The function of every layout, by its name in `tmmu.core.vocabulary.LAYOUTS`."""

IN_PLACE = {"packed": packed.IN_PLACE, "slots": slots.IN_PLACE, "pools": pools.IN_PLACE, "hashed": hashed.IN_PLACE}
"""Whether a layout puts results in place."""
