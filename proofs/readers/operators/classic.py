"""Rows of the operators of classical machine learning, ai.onnx.ml. They state sizes only."""

from __future__ import annotations

from proofs.readers.operators.row import KnownOperator, Rows
from proofs.readers.operators.sizes import classic as sizes

DOMAIN = "ai.onnx.ml"

ROWS: Rows = (
    KnownOperator("ArrayFeatureExtractor", DOMAIN, versions=(1,), size=sizes.array_feature_extractor),
    KnownOperator("Binarizer", DOMAIN, versions=(1,), size=sizes.like),
    KnownOperator("FeatureVectorizer", DOMAIN, versions=(1,), size=sizes.feature_vectorizer),
    KnownOperator("Imputer", DOMAIN, versions=(1,), size=sizes.like),
    KnownOperator("LabelEncoder", DOMAIN, versions=(4,), size=sizes.label),
    KnownOperator("LinearRegressor", DOMAIN, versions=(1,), size=sizes.targets),
    KnownOperator("Normalizer", DOMAIN, versions=(1,), size=sizes.as_floats),
    KnownOperator("OneHotEncoder", DOMAIN, versions=(1,), flags="zeros", size=sizes.one_hot),
    KnownOperator("Scaler", DOMAIN, versions=(1,), size=sizes.as_floats),
    KnownOperator("TreeEnsemble", DOMAIN, versions=(5,), size=sizes.targets),
    KnownOperator("TreeEnsembleClassifier", DOMAIN, versions=(1, 3, 5), size=sizes.classes),
    KnownOperator("TreeEnsembleRegressor", DOMAIN, versions=(1, 3, 5), size=sizes.targets),
)  # fmt: skip
