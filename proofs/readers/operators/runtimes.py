"""Rows of the operators of onnxruntime. They state sizes only, and each operator has had one version."""

from __future__ import annotations

from proofs.readers.operators.row import KnownOperator, Rows
from proofs.readers.operators.sizes import runtimes as sizes

DOMAIN = "com.microsoft"

ROWS: Rows = (
    KnownOperator("SimplifiedLayerNormalization", versions=(1,), of_runtime=True, size=sizes.norm),
    KnownOperator("Attention", DOMAIN, versions=(1,), of_runtime=True, size=sizes.attention),
    KnownOperator("BiasGelu", DOMAIN, versions=(1,), of_runtime=True, size=sizes.like),
    KnownOperator("DequantizeLinear", DOMAIN, versions=(1,), of_runtime=True, size=sizes.dequantize),
    KnownOperator("DynamicQuantizeLSTM", DOMAIN, versions=(1,), of_runtime=True, size=sizes.lstm),
    KnownOperator("DynamicQuantizeMatMul", DOMAIN, versions=(1,), of_runtime=True, size=sizes.quantized_product),
    KnownOperator("EmbedLayerNormalization", DOMAIN, versions=(1,), of_runtime=True, size=sizes.embedding),
    KnownOperator("FastGelu", DOMAIN, versions=(1,), of_runtime=True, size=sizes.like),
    KnownOperator("FusedMatMul", DOMAIN, versions=(1,), of_runtime=True, size=sizes.fused_product),
    KnownOperator("Gelu", DOMAIN, versions=(1,), of_runtime=True, size=sizes.like),
    KnownOperator("MatMulIntegerToFloat", DOMAIN, versions=(1,), of_runtime=True, size=sizes.quantized_product),
    KnownOperator("MatMulNBits", DOMAIN, versions=(1,), of_runtime=True, size=sizes.packed_product),
    KnownOperator("MultiHeadAttention", DOMAIN, versions=(1,), of_runtime=True, size=sizes.many_heads),
    KnownOperator("QLinearAdd", DOMAIN, versions=(1,), of_runtime=True, size=sizes.both),
    KnownOperator("QLinearLeakyRelu", DOMAIN, versions=(1,), of_runtime=True, size=sizes.like),
    KnownOperator("QLinearMul", DOMAIN, versions=(1,), of_runtime=True, size=sizes.both),
    KnownOperator("QLinearSigmoid", DOMAIN, versions=(1,), of_runtime=True, size=sizes.like),
    KnownOperator("QuantizeLinear", DOMAIN, versions=(1,), of_runtime=True, size=sizes.quantize),
    KnownOperator("QuickGelu", DOMAIN, versions=(1,), of_runtime=True, size=sizes.like),
    KnownOperator("SkipLayerNormalization", DOMAIN, versions=(1,), of_runtime=True, size=sizes.skip_norm),
    KnownOperator("SkipSimplifiedLayerNormalization", DOMAIN, versions=(1,), of_runtime=True, size=sizes.skip_norm),
)  # fmt: skip
