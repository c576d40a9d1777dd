"""Rows of the operators on images, determinants and n-grams."""

from __future__ import annotations

from proofs.readers.operators.gradients import SETTINGS, Gradient
from proofs.readers.operators.row import KnownOperator, Rows
from proofs.readers.operators.sizes import images as sizes

ROWS: Rows = (
    KnownOperator("AffineGrid", versions=(20,), flags="align_corners", size=sizes.affine_grid),
    KnownOperator("Det", versions=(11, 22), size=sizes.determinant),
    KnownOperator("GridSample", versions=(16, 20, 22), flags="align_corners", size=sizes.grid_sample),
    KnownOperator("MaxRoiPool", versions=(1, 22), size=sizes.roi_pool),
    KnownOperator("NonMaxSuppression", versions=(10, 11), flags="center_point_box", size=sizes.non_max_suppression),
    KnownOperator("Resize", versions=(10, 11, 13, 18, 19),
        names="antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
        "keep_aspect_ratio_policy mode nearest_mode roi scales sizes",
        flags="antialias exclude_outside", size=sizes.resize,
        gradient=Gradient({0: SETTINGS})),
    KnownOperator("RoiAlign", versions=(10, 16, 22), size=sizes.roi_align),
    KnownOperator("TfIdfVectorizer", versions=(9,), size=sizes.n_grams),
    KnownOperator("Upsample", versions=(7, 9, 10), size=sizes.resize),
)  # fmt: skip
