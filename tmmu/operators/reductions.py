"""Rows of the operators over whole axes."""

from __future__ import annotations

from tmmu.operators.gradients import GradientRule
from tmmu.operators.relations import reduction, summed_reduction
from tmmu.operators.row import PlannedOperator, Rows

ROWS: Rows = (
    PlannedOperator("CumSum", versions=(11, 14), harmless="exclusive reverse", gradient=GradientRule("0:o1+")),
    PlannedOperator("LogSoftmax", versions=(1, 11, 13), harmless="axis", gradient=GradientRule("0:r0")),
    PlannedOperator("OneHot", versions=(9, 11, 28), harmless="axis", gradient=GradientRule()),
    PlannedOperator("ReduceL1", versions=(1, 11, 13, 18), harmless="axes keepdims noop_with_empty_axes",
        gradient=GradientRule("0:o0+,r0")),
    PlannedOperator("ReduceL2", versions=(1, 11, 13, 18), harmless="axes keepdims noop_with_empty_axes",
        gradient=GradientRule("0:o0+,r0")),
    PlannedOperator("ReduceLogSum", versions=(1, 11, 13, 18, 28), harmless="axes keepdims noop_with_empty_axes",
        gradient=GradientRule("0:o0+,r0")),
    PlannedOperator("ReduceLogSumExp", versions=(1, 11, 13, 18, 28), harmless="axes keepdims noop_with_empty_axes",
        gradient=GradientRule("0:o0+,r0")),
    PlannedOperator("ReduceMax", versions=(1, 11, 12, 13, 18, 20), harmless="axes keepdims noop_with_empty_axes",
        split=reduction, gradient=GradientRule("0:o0+,r0")),
    PlannedOperator("ReduceMean", versions=(1, 11, 13, 18), harmless="axes keepdims noop_with_empty_axes",
        split=reduction, gradient=GradientRule("0:o1+")),
    PlannedOperator("ReduceMin", versions=(1, 11, 12, 13, 18, 20), harmless="axes keepdims noop_with_empty_axes",
        split=reduction, gradient=GradientRule("0:o0+,r0")),
    PlannedOperator("ReduceProd", versions=(1, 11, 13, 18), harmless="axes keepdims noop_with_empty_axes",
        gradient=GradientRule("0:o0+,r0")),
    PlannedOperator("ReduceSum", versions=(1, 11, 13), harmless="axes keepdims noop_with_empty_axes",
        split=summed_reduction, gradient=GradientRule("0:o1+")),
    PlannedOperator("ReduceSumSquare", versions=(1, 11, 13, 18), harmless="axes keepdims noop_with_empty_axes",
        gradient=GradientRule("0:o0+,r0")),
    PlannedOperator("Softmax", versions=(1, 11, 13), harmless="axis", gradient=GradientRule("0:r0")),
    PlannedOperator("SoftmaxCrossEntropyLoss", versions=(12, 13), harmless="ignore_index log_prob reduction weights",
        gradient=GradientRule("0:o0+,r1+")),
    PlannedOperator("TopK", versions=(1, 10, 11, 24), harmless="axis k largest sorted", gradient=GradientRule("0:r1")),
)  # fmt: skip
