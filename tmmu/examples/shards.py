"""A shard spec for the example `gpt2`: data, tensor and pipeline parallel on eight ranks, with ZeRO stage 2.

Only inputs and weights need rules; the sharding of other tensors follows from them.
"""

from __future__ import annotations

GPT2 = """\
[mesh]                             # 2 x 2 x 2 = 8 ranks; the last axis varies fastest
pipeline = 2
data = 2
tensor = 2

[zero]                             # 1: optimizer state, 2: gradients of parameters too, 3: parameters too
axis = "data"
stage = 2

[pipeline]                         # patterns of nodes for each stage; without `stages`: even by depth
axis = "pipeline"

[[rules]]                          # the batch
roles = ["input"]
names = ["input_ids"]
split = ["data"]

[[rules]]                          # column parallel: split what a layer makes
names = ["*.attn.c_attn.weight", "*.mlp.c_fc.weight"]
split = ["", "tensor"]

[[rules]]
names = ["*.attn.c_attn.bias", "*.mlp.c_fc.bias"]
split = ["tensor"]

[[operators]]                      # what a node's attributes say and its operands do not
op = "Softmax"
across = [-1]

[[operators]]
op = "LayerNormalization"
across = [-1]
"""
