"""Operators without a rule, each with the reason. Silence is an error that the tests find."""

from __future__ import annotations

from onnxgrad.core.rules.registry import stops_gradient, unsupported

stops_gradient(
    "SequenceEmpty", "Shape", "Size", "ArgMax", "ArgMin", "NonZero", "EyeLike", "Constant", "ConstantOfShape",
    because="the output is an integer, an index or a constant",
)  # fmt: skip
stops_gradient(
    "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf",
    "OptionalHasElement", because="the output is a boolean",
)  # fmt: skip
stops_gradient(
    "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "SequenceLength",
    because="the operands are integers",
)  # fmt: skip
stops_gradient("Floor", "Ceil", "Round", "Sign", "Hardmax", because="the derivative is zero almost everywhere")
stops_gradient(
    "StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer", "ImageDecoder",
    because="the operands are text or encoded bytes",
)  # fmt: skip
stops_gradient(
    "BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix", because="the result depends on integer sizes only"
)
unsupported("NonMaxSuppression", because="the set of selected boxes jumps when scores change")
unsupported("BitCast", because="reinterpreting bits is not a function of real numbers")
_ML = (
    "ArrayFeatureExtractor", "Binarizer", "CastMap", "CategoryMapper", "DictVectorizer", "FeatureVectorizer", "Imputer",
    "LabelEncoder", "LinearClassifier", "LinearRegressor", "Normalizer", "OneHotEncoder", "SVMClassifier", "SVMRegressor",
    "Scaler", "TreeEnsemble", "ZipMap",
)  # fmt: skip
unsupported(*_ML, because="operators of ai.onnx.ml are read but not differentiated", domain="ai.onnx.ml")
unsupported(
    *("Adagrad", "Adam", "Gradient", "Momentum"),
    because='no stock runtime executes it; from_onnx(..., expand="ai.onnx.preview.training") writes it as standard operators',
    domain="ai.onnx.preview.training",
)
