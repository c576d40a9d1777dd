"""How addresses follow from slots: one file a layout, each with `IN_PLACE` and `addresses`."""
