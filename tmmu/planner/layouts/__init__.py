"""How addresses follow from storages and slots: one file a layout, each with `IN_PLACE` and `place`.

`place(request)` returns the offset of each storage and the footprint of each arena (`tmmu.planner.placed.Placed`).
Logical slots are there whatever the layout, and persistent arenas lie in sequence in all of them. spec: A7.1, A7.2
"""
