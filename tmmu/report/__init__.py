"""Drawings of plans: a map of memory as one page, as an image, and in the formats of other viewers.

`arena_map` is the common input: the storages of each arena as rectangles of steps and bytes. `page` draws it with
Bokeh, `image` with Matplotlib; `records` writes Perfetto's trace, PyTorch's memory snapshot, JSON, CSV and a C header.
"""
