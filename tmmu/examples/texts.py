"""A plan and a model as a person writes them: six tensors in one arena, and a graph with statements of its author.

`spec/text-plan.md` and `spec/text-ir.md` define each statement.
"""

from __future__ import annotations

PLAN = """tmmu-plan-text 1
arena act 768 align 64
tensor x 256 act   0 input
tensor w 256 act 256 parameter
tensor a 256 act 512
tensor v 256 act 512 view a 0     # the same bytes in another shape
tensor b 256 act 512 inplace v    # Relu may overwrite its operand
tensor y 256 act   0 output       # x is not read any more
step first  Gemm    x w -> a
step shape  Reshape a -> v
step second Relu    v -> b
step last   Gemm    b w -> y
"""
"""This plan is proved; with `y` at 512 it is refuted, because `b` and `w` are read while `y` is written."""

MODEL = """tmmu-ir-text 1
tensor x f32 1x64 input
tensor w f32 64x64 parameter
tensor a f32 1x64 saved           # backward reads it: in mode forward it lives to the end
tensor b f32 1x64
tensor c f32 1x64
tensor d f32 1x64
tensor y f32 1x64 output
node first  Gemm x w -> a
node second Gemm x w -> b
node third  Gemm b w -> c
node fourth Gemm c w -> d
node last   Add a d -> y
alias shared b d                  # one buffer for both: b is not read any more when d is written
apart a c                         # these two never share a byte, say because a device reads a late
order second first third fourth last
"""
"""A model with an alias group, two tensors that must not alias, a saved tensor, and its author's execution order."""
