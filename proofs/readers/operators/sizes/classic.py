"""Compute sizes for operators of ai.onnx.ml whose texts state them. No plan has strings.

Operators whose texts leave the size open have no rule: linear classifiers and those of support vectors, which may score
one or both of two classes, and regressions of support vectors.
"""

from __future__ import annotations

from proofs.readers.operators.sizes.call import Call, Misfit, NotKnown, TensorSize, format_shape, product
from proofs.readers.operators.sizes.stored import size_of
from tmmu.core.dims.expressions import Dim


def like(call: Call) -> list[TensorSize]:
    """Return the size of Binarizer and Imputer: like the operand."""
    return [call.size(0)]


def as_floats(call: Call) -> list[TensorSize]:
    """Return the size of Normalizer and Scaler: the operand's shape, as floats."""
    if call.node.op_type == "Normalizer" and len(call.shape(0)) not in (1, 2):
        raise Misfit(f"{format_shape(call.shape(0))} is neither [N, C] nor [C]")
    return [TensorSize(call.shape(0), "float32")]


def one_hot(call: Call) -> list[TensorSize]:
    """Return the size of OneHotEncoder: a further dimension with one number for each category."""
    found = [each for each in map(call.attribute, ("cats_int64s", "cats_strings")) if each]
    if len(found) != 1:
        raise Misfit(f"{len(found)} lists of categories")
    return [TensorSize((*call.shape(0), len(found[0])), "float32")]


def label(call: Call) -> list[TensorSize]:
    """Return the size of LabelEncoder: the operand's shape, with the type of the values."""
    kinds = {"values_int64s": "int64", "values_floats": "float32", "values_tensor": "", "values_strings": "string"}
    found = {name: call.attribute(name) for name in kinds if call.attribute(name)}
    if len(found) != 1:
        raise Misfit(f"{len(found)} lists of values")
    ((name, values),) = found.items()
    if kinds[name] == "string":
        raise NotKnown("its values are strings")
    return [TensorSize(call.shape(0), kinds[name] or size_of(values).dtype)]


def targets(call: Call) -> list[TensorSize]:
    """Return the size of LinearRegressor, TreeEnsembleRegressor and TreeEnsemble: a number for each target and row."""
    linear = call.node.op_type == "LinearRegressor"
    count = call.attribute("targets" if linear else "n_targets", 1)
    if count < 1:
        raise Misfit(f"{count} targets")
    return [
        TensorSize((call.shape(0, 2)[0], count), call.dtype(0) if call.node.op_type == "TreeEnsemble" else "float32")
    ]


def classes(call: Call) -> list[TensorSize]:
    """Return the sizes of TreeEnsembleClassifier: a label for each row, and a score for each label."""
    rows = call.shape(0, 2)[0]
    numbers, texts = call.attribute("classlabels_int64s", []), call.attribute("classlabels_strings", [])
    if bool(numbers) == bool(texts):
        raise Misfit("it has no list of labels, or two")
    if texts:
        raise NotKnown("its labels are strings")
    return [TensorSize((rows,), "int64"), TensorSize((rows, len(numbers)), "float32")]


def feature_vectorizer(call: Call) -> list[TensorSize]:
    """Return the size of FeatureVectorizer: matrices side by side. A list is a matrix of one row."""
    shapes = [size.shape if len(size.shape) == 2 else (1, *size.shape) for size in call.present()]
    if not shapes or any(len(shape) != 2 or shape[0] != shapes[0][0] for shape in shapes):
        raise Misfit(f"operands {', '.join(map(format_shape, shapes))}")
    width: Dim = 0
    for shape in shapes:
        width = width + shape[1]
    return [TensorSize((shapes[0][0], width), "float32")]


def array_feature_extractor(call: Call) -> list[TensorSize]:
    """Return the size of ArrayFeatureExtractor: the indices apply to the last axis. A vector is a matrix of one row."""
    if not call.shape(0):
        raise Misfit("a scalar has no features")
    rows = call.shape(0)[:-1] or (1,)
    return [TensorSize((*rows, product(call.shape(1))), call.dtype(0))]
