"""Compute sizes for operators on images: resizing, sampling, regions; and for determinants and n-grams."""

from __future__ import annotations

from math import floor
from typing import Any

import numpy as np

from proofs.readers.operators.sizes.call import (
    Call,
    Misfit,
    NotKnown,
    Shape,
    TensorSize,
    axes_of,
    format_shape,
    same,
    same_shape,
    whole,
)
from tmmu.core.dims.expressions import Dim, Expression, bounds_of


def resize(call: Call) -> list[TensorSize]:
    """Return the size of Resize and Upsample: the stated sizes, or floor(dimension * scale) for each (listed) axis."""
    shape = list(call.shape(0))
    newest = call.node.op_type == "Resize" and call.since >= 11
    axes = axes_of(call.attribute("axes", range(len(shape))), len(shape)) if newest else list(range(len(shape)))
    if newest and call.attribute("axes") == []:
        raise NotKnown("the text does not say whether an empty list of axes is one")
    scales = _scales(call, 2 if newest else 1)
    sizes = call.numbers(3) if newest and call.has(3) else None
    if sizes is not None and scales is not None:
        raise Misfit("both scales and sizes are stated")
    if sizes is not None:
        policy = call.attribute("keep_aspect_ratio_policy", "stretch")
        for axis, size in zip(axes, _as_many(sizes, axes), strict=True):
            shape[axis] = size
        if policy != "stretch":
            given = [whole(call.shape(0)[axis]) for axis in axes]
            for axis, size in zip(axes, _in_ratio(given, [whole(size) for size in sizes], policy), strict=True):
                shape[axis] = size
        return [TensorSize(tuple(shape), call.dtype(0))]
    if scales is None:
        raise Misfit("neither scales nor sizes are stated")
    if call.attribute("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise NotKnown("no rule follows a region that is resized")
    for axis, scale in zip(axes, _as_many(scales, axes), strict=True):
        shape[axis] = _scaled(shape[axis], np.float32(scale))
    return [TensorSize(tuple(shape), call.dtype(0))]


def _in_ratio(given: list[int], sizes: list[int], policy: str) -> list[int]:
    """Return round(scale * dimension), halfway cases up, by the one scale that fits all sizes, or that fills them."""
    if policy not in ("not_larger", "not_smaller") or 0 in given:
        raise Misfit(f"policy {policy!r} for dimensions {given}")
    from fractions import Fraction  # see `generators.steps`

    ratios = [Fraction(size, dim) for size, dim in zip(sizes, given, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    rounded = np.float32(scale.numerator) / np.float32(scale.denominator)
    exact = [floor(scale * dim + Fraction(1, 2)) for dim in given]
    if exact != [floor(float(rounded * np.float32(dim)) + 0.5) for dim in given]:
        raise NotKnown(f"{given} in the ratio {scale} depend on how they are rounded")
    return exact


def _scales(call: Call, k: int) -> list[Any] | None:
    """Return the scales of a resizing, or None if there are none. An empty list counts as none."""
    if call.node.op_type == "Upsample" and call.since < 9:
        found = call.attribute("scales")
        if found is None:
            raise Misfit("'scales' is missing")
        return list(found)
    if not call.has(k) or call.shape(k) == (0,):
        return None
    value = call.value(k)
    if value is None or value.dtype != "float32":
        raise NotKnown("the scales are not known")
    return list(value.cells.reshape(-1))


def _as_many(found: list[Any], axes: list[int]) -> list[Any]:
    if len(found) != len(axes):
        raise Misfit(f"{len(found)} numbers for {len(axes)} axes")
    return found


def _scaled(dim: Dim, scale: np.float32) -> Dim:
    """Return floor(dim * scale), unless the precision of the product decides it."""
    if not np.isfinite(scale) or scale <= 0:
        raise Misfit(f"a scale of {scale}")
    if scale == np.floor(scale):
        return dim * int(scale)
    if isinstance(dim, Expression):
        raise NotKnown(f"{dim} times {scale} is not one number")
    from fractions import Fraction  # see `generators.steps`

    exact, rounded = floor(dim * Fraction(float(scale))), floor(float(np.float32(dim) * scale))
    if exact != rounded:
        raise NotKnown(f"{dim} times {scale} is {exact} or {rounded}, depending on how it is rounded")
    return exact


def roi_align(call: Call) -> list[TensorSize]:
    """Return the size of RoiAlign: a picture of stated height and width for each region."""
    regions = call.shape(1, 2)
    same(regions[1], 4, "coordinates of a region")
    same(call.shape(2, 1)[0], regions[0], "regions and their images")
    inner = (call.attribute("output_height", 1), call.attribute("output_width", 1))
    return [TensorSize((regions[0], call.shape(0, 4)[1], *inner), call.dtype(0))]


def roi_pool(call: Call) -> list[TensorSize]:
    """Return the size of MaxRoiPool: a picture of stated height and width for each region."""
    inner, regions = call.attribute("pooled_shape"), call.shape(1, 2)
    same(regions[1], 5, "coordinates of a region")
    if inner is None or len(inner) != 2:
        raise Misfit(f"'pooled_shape' is {inner}")
    return [TensorSize((regions[0], call.shape(0, 4)[1], *inner), call.dtype(0))]


def grid_sample(call: Call) -> list[TensorSize]:
    """Return the size of GridSample: the shape of the grid, whose last dimension is a place in the picture."""
    shape, grid = call.shape(0), call.shape(1)
    rank = len(shape) - 2
    if rank < 1 or len(grid) != len(shape):
        raise Misfit(f"a grid of {format_shape(grid)} for {format_shape(shape)}")
    same(grid[0], shape[0], "batches of picture and grid")
    same(grid[-1], rank, "coordinates of a place")
    return [TensorSize((*shape[:2], *grid[1:-1]), call.dtype(0))]


def affine_grid(call: Call) -> list[TensorSize]:
    """Return the size of AffineGrid: a place for each element of a picture of the stated size."""
    theta, size = call.shape(0, 3), call.numbers(1)
    rank = len(size) - 2
    if rank not in (2, 3):
        raise Misfit(f"a picture of {format_shape(tuple(size))}")
    same_shape(theta, (size[0], rank, rank + 1), "matrices and picture")
    return [TensorSize((size[0], *size[2:], rank), call.dtype(0))]


def determinant(call: Call) -> list[TensorSize]:
    """Return the size of Det: one number for each square matrix."""
    shape = call.shape(0)
    if len(shape) < 2:
        raise Misfit(f"{format_shape(shape)} is not a matrix")
    same(shape[-1], shape[-2], "rows and columns")
    return [TensorSize(shape[:-2], call.dtype(0))]


def n_grams(call: Call) -> list[TensorSize]:
    """Return the size of TfIdfVectorizer: a column for each n-gram."""
    shape, indices = call.shape(0), call.attribute("ngram_indexes")
    if len(shape) not in (1, 2) or not indices:
        raise Misfit(f"{format_shape(shape)} with n-grams {indices}")
    found: Shape = (*shape[:-1], max(indices) + 1)
    return [TensorSize(found, "float32")]


def non_max_suppression(call: Call) -> list[TensorSize]:
    """Return the size of NonMaxSuppression: none if no box may stay.

    Otherwise the number of boxes depends on the data.
    """
    boxes, scores = call.shape(0, 3), call.shape(1, 3)
    same_shape((boxes[0], boxes[1], boxes[2]), (scores[0], scores[2], 4), "boxes and scores")
    if not call.has(2) or bounds_of(call.number(2)) == (0, 0):
        return [TensorSize((0, 3), "int64")]
    raise NotKnown("how many boxes stay is in the data")
