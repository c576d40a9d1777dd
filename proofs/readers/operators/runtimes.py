"""Rows of the operators of onnxruntime: what a model may hold, and what it writes when it optimizes for the CPU.

Each operator has had one version. Three convolutions may have their result in the bytes of their fourth operand: ONNX
Runtime registers them so, and their kernels add to what they find there. The two caches of GroupQueryAttention may be
in the bytes of the past ones: its kernels look whether they are, and write the new rows alone. No other row permits
sharing.
"""

from __future__ import annotations

from proofs.readers.operators.row import KnownOperator, Rows
from proofs.readers.operators.sizes import fused
from proofs.readers.operators.sizes import runtimes as sizes

DOMAIN, BLOCKS, LAST = "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc"
"""The domains: general, of tensors whose channels are in blocks, of tensors whose channels come last."""

ROWS: Rows = (
    KnownOperator("SimplifiedLayerNormalization", versions=(1,), of_runtime=True, size=sizes.norm),
    KnownOperator("Attention", DOMAIN, versions=(1,), of_runtime=True, size=sizes.attention),
    KnownOperator("BiasGelu", DOMAIN, versions=(1,), of_runtime=True, size=sizes.like),
    KnownOperator("BiasSoftmax", DOMAIN, versions=(1,), of_runtime=True, size=sizes.like),
    KnownOperator("DequantizeLinear", DOMAIN, versions=(1,), of_runtime=True, size=sizes.dequantize),
    KnownOperator("DynamicQuantizeLSTM", DOMAIN, versions=(1,), of_runtime=True, size=sizes.lstm),
    KnownOperator("DynamicQuantizeMatMul", DOMAIN, versions=(1,), of_runtime=True, size=sizes.quantized_product),
    KnownOperator("EmbedLayerNormalization", DOMAIN, versions=(1,), of_runtime=True, size=sizes.embedding),
    KnownOperator("FastGelu", DOMAIN, versions=(1,), of_runtime=True, size=sizes.like),
    KnownOperator("FusedConv", DOMAIN, versions=(1,), of_runtime=True, size=fused.conv, in_place=(3,),
        optional=1),
    KnownOperator("FusedGemm", DOMAIN, versions=(1,), of_runtime=True, size=fused.gemm),
    KnownOperator("FusedMatMul", DOMAIN, versions=(1,), of_runtime=True, size=sizes.fused_product),
    KnownOperator("Gelu", DOMAIN, versions=(1,), of_runtime=True, size=sizes.like),
    KnownOperator("GroupQueryAttention", DOMAIN, versions=(1,), of_runtime=True, size=sizes.grouped_heads,
        further=((1, 3), (2, 4)), optional=2),
    KnownOperator("MatMulIntegerToFloat", DOMAIN, versions=(1,), of_runtime=True, size=sizes.quantized_product),
    KnownOperator("MatMulNBits", DOMAIN, versions=(1,), of_runtime=True, size=sizes.packed_product),
    KnownOperator("MultiHeadAttention", DOMAIN, versions=(1,), of_runtime=True, size=sizes.many_heads),
    KnownOperator("NhwcFusedConv", DOMAIN, versions=(1,), of_runtime=True, size=fused.nhwc_conv,
        in_place=(3,), optional=1),
    KnownOperator("NhwcMaxPool", DOMAIN, versions=(1,), of_runtime=True, size=fused.nhwc_pool),
    KnownOperator("QGemm", DOMAIN, versions=(1,), of_runtime=True, size=fused.quantized_gemm),
    KnownOperator("QLinearAdd", DOMAIN, versions=(1,), of_runtime=True, size=sizes.both),
    KnownOperator("QLinearAveragePool", DOMAIN, versions=(1,), of_runtime=True, size=fused.pool),
    KnownOperator("QLinearConcat", DOMAIN, versions=(1,), of_runtime=True, size=fused.quantized_concat),
    KnownOperator("QLinearConv", DOMAIN, versions=(1,), of_runtime=True, size=fused.quantized_conv),
    KnownOperator("QLinearGlobalAveragePool", DOMAIN, versions=(1,), of_runtime=True, size=fused.global_pool),
    KnownOperator("QLinearLeakyRelu", DOMAIN, versions=(1,), of_runtime=True, size=sizes.like),
    KnownOperator("QLinearMul", DOMAIN, versions=(1,), of_runtime=True, size=sizes.both),
    KnownOperator("QLinearSigmoid", DOMAIN, versions=(1,), of_runtime=True, size=sizes.like),
    KnownOperator("QLinearSoftmax", DOMAIN, versions=(1,), of_runtime=True, size=sizes.like),
    KnownOperator("QLinearWhere", DOMAIN, versions=(1,), of_runtime=True, size=fused.quantized_where),
    KnownOperator("QuantizeLinear", DOMAIN, versions=(1,), of_runtime=True, size=sizes.quantize),
    KnownOperator("QuickGelu", DOMAIN, versions=(1,), of_runtime=True, size=sizes.like),
    KnownOperator("SkipLayerNormalization", DOMAIN, versions=(1,), of_runtime=True, size=sizes.skip_norm),
    KnownOperator("SkipSimplifiedLayerNormalization", DOMAIN, versions=(1,), of_runtime=True, size=sizes.skip_norm),
    KnownOperator("TransposeMatMul", DOMAIN, versions=(1,), of_runtime=True, size=sizes.fused_product),
    KnownOperator("AveragePool", BLOCKS, versions=(1,), of_runtime=True, size=fused.pool),
    KnownOperator("Conv", BLOCKS, versions=(1,), of_runtime=True, size=fused.conv, in_place=(3,),
        optional=1),
    KnownOperator("GlobalAveragePool", BLOCKS, versions=(1,), of_runtime=True, size=fused.global_pool),
    KnownOperator("GlobalMaxPool", BLOCKS, versions=(1,), of_runtime=True, size=fused.global_pool),
    KnownOperator("MaxPool", BLOCKS, versions=(1,), of_runtime=True, size=fused.pool),
    KnownOperator("ReorderInput", BLOCKS, versions=(1,), of_runtime=True, size=fused.reorder_input),
    KnownOperator("ReorderOutput", BLOCKS, versions=(1,), of_runtime=True, size=fused.reorder_output),
    KnownOperator("Upsample", BLOCKS, versions=(1,), of_runtime=True, size=fused.upsample),
    KnownOperator("AveragePool", LAST, versions=(1,), of_runtime=True, size=fused.nhwc_pool),
    KnownOperator("GlobalAveragePool", LAST, versions=(1,), of_runtime=True, size=fused.nhwc_global_pool),
    KnownOperator("MaxPool", LAST, versions=(1,), of_runtime=True, size=fused.nhwc_pool),
)  # fmt: skip
