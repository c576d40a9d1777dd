"""Rows of the operators that make tensors of numbers, and of Shape and Size."""

from __future__ import annotations

from proofs.readers.operators.gradients import NO_GRADIENT, NOTHING, Gradient
from proofs.readers.operators.loops import shape_alone
from proofs.readers.operators.row import KnownOperator, Rows
from proofs.readers.operators.sizes import arithmetic
from proofs.readers.operators.sizes import generators as sizes

ROWS: Rows = (
    KnownOperator("BlackmanWindow", versions=(17,), flags="periodic", size=sizes.window),
    KnownOperator("Constant", versions=(1, 9, 11, 12, 13, 19, 21, 23, 24, 25), size=sizes.constant_rule,
        value=sizes.read_constant),
    KnownOperator("ConstantOfShape", versions=(9, 20, 21, 23, 24, 25), names="value", size=sizes.constant_of_shape,
        value=sizes.fill,
        gradient=NO_GRADIENT),
    KnownOperator("DFT", versions=(17, 20), flags="onesided inverse", size=sizes.dft),
    KnownOperator("HammingWindow", versions=(17,), flags="periodic", size=sizes.window),
    KnownOperator("HannWindow", versions=(17,), flags="periodic", size=sizes.window),
    KnownOperator("MelWeightMatrix", versions=(17,), size=sizes.mel_weights),
    KnownOperator("Multinomial", versions=(7, 22), size=sizes.drawn),
    KnownOperator("RandomNormal", versions=(1, 22), size=sizes.random),
    KnownOperator("RandomUniform", versions=(1, 22), size=sizes.random),
    KnownOperator("Range", versions=(11, 27), names="stash_type", size=sizes.number_range, value=arithmetic.count_up,
        gradient=Gradient({0: NOTHING, 2: NOTHING})),
    KnownOperator("STFT", versions=(17,), flags="onesided", size=sizes.stft),
    KnownOperator("Shape", versions=(1, 13, 15, 19, 21, 23, 24, 25), names="end start", size=sizes.shape_of,
        value=sizes.list_dimensions, by_shape=True,
        loops=shape_alone, gradient=NO_GRADIENT),
    KnownOperator("Size", versions=(1, 13, 19, 21, 23, 24, 25), size=sizes.count_of, value=sizes.count_elements,
        by_shape=True,
        loops=shape_alone, gradient=NO_GRADIENT),
)  # fmt: skip
