"""Arguments of layers of a wrong kind are refused where they are passed; every class of nn is written out."""

import inspect
import typing

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import errors, nn
from onnxgrad.internal.arguments import checked_with_words
from onnxgrad.nn.types import Layout, Numbers, Padding, Reduction

CLASSES = {name: getattr(nn, name) for name in nn.__all__ if inspect.isclass(getattr(nn, name))}
LAYERS = {name: kind for name, kind in CLASSES.items() if issubclass(kind, nn.Layer) and kind.__name__ == name}
CHECKED = {name: kind for name, kind in LAYERS.items() if hasattr(kind.__init__, "__wrapped__")}
HELD = {"Identity", "Layer", "LayerDict", "LayerList", "ParameterDict", "ParameterList", "RNNCellBase", "Sequential"}
# Values that fit, where 2 does not.
REQUIRED = {"weight_shape": [2, 2], "shape": [1, 2]}


def arguments(kind):
    """The required arguments of a layer, and all its parameters."""
    parameters = inspect.signature(kind).parameters
    required = {name: REQUIRED.get(name, 2) for name, p in parameters.items() if p.default is p.empty}
    for name in ("cell", "cell_fw", "cell_bw"):
        if name in required:
            required[name] = nn.GRUCell(2, 2)
    if "encoder_layer" in required:
        required["encoder_layer"] = nn.TransformerEncoderLayer(2, 1, 2)
    if "decoder_layer" in required:
        required["decoder_layer"] = nn.TransformerDecoderLayer(2, 1, 2)
    return required, parameters


def test_all_constructors_are_checked_but_those_that_take_anything_or_hold_members():
    assert set(LAYERS) - set(CHECKED) == HELD


@pytest.mark.parametrize("name", CHECKED)
def test_each_argument_of_a_wrong_kind_is_refused_with_its_name(name):
    required, parameters = arguments(CHECKED[name])
    CHECKED[name](**required)
    for argument in parameters:
        with pytest.raises(TypeError, match=rf"^{name}: {argument} is (?!.*\bNone, not None)"):
            CHECKED[name](**{**required, argument: object()})


@pytest.mark.parametrize("name", CHECKED)
def test_each_word_that_is_none_is_refused_with_those_that_are(name):
    required, _ = arguments(CHECKED[name])
    words = {
        argument: typing.get_args(kind)
        for argument, kind in typing.get_type_hints(CHECKED[name].__init__).items()
        if typing.get_origin(kind) is typing.Literal and all(isinstance(word, str) for word in typing.get_args(kind))
    }
    for argument, known in words.items():
        with pytest.raises(ValueError, match=f"^{name}: {argument} is {known[0]!r}.*, not 'wrong'"):
            CHECKED[name](**{**required, argument: "wrong"})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Linear("4", 2), "Linear: in_features is an int, not str '4'."),
        (lambda: nn.Linear(4, 2.0), "Linear: out_features is an int, not float 2.0."),
        (lambda: nn.Linear(4, True), "Linear: out_features is an int, not bool True."),
        (lambda: nn.Linear(4, 2, bias_attr=3), "Linear: bias_attr is a ParamAttr, an Initializer, a str, True or False or None, not int 3."),
        (lambda: nn.Dropout("0.5"), "Dropout: p is a number or a Variable, not str '0.5'."),
        (lambda: nn.Conv2D(3, 4, "3"), "Conv2D: kernel_size is an int or a list of ints, not str '3'."),
        (lambda: nn.Conv2D(3, 4, [3, 2.5]), "Conv2D: kernel_size is an int or a list of ints, not list [3, 2.5]."),
        (lambda: nn.LSTM(3, 4, time_major="no"), "LSTM: time_major is True or False, not str 'no'."),
        (lambda: nn.ReLU(3), "ReLU: name is a str or None, not int 3."),
        (lambda: nn.RNN(nn.Linear), "RNN: cell is a Layer, not the class Linear."),
        (lambda: nn.Linear(4), r"Linear(): missing a required argument: 'out_features'."),
        (lambda: nn.ReLU(bogus=1), r"ReLU(): got an unexpected keyword argument 'bogus'."),
        (lambda: nn.LayerList([nn.ReLU(), 3]), "LayerList: a member is a Layer, not 3."),
        (lambda: nn.Sequential(nn.ReLU(), paddle.tanh), "Sequential: a member is a Layer, not <function tanh"),
        (lambda: nn.LayerDict({"a": None}), "LayerDict: a member is a Layer, not None."),
        (lambda: nn.ParameterList([np.ones(2)]), "ParameterList: a member is a Tensor, not array([1., 1.])."),
    ],
)  # fmt: skip
def test_the_message_names_class_argument_and_what_it_takes(make, message):
    with pytest.raises(errors.ArgumentTypeError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_a_word_that_is_none_is_an_error_of_value():
    with pytest.raises(errors.ArgumentError, match=r"^MSELoss: reduction is 'mean', 'sum' or 'none', not 'avg'\.$"):
        nn.MSELoss("avg")
    with pytest.raises(errors.ArgumentError, match=r"padding is 'SAME', 'VALID', 'same', 'valid', an int, a list of ints"):
        nn.Conv2D(3, 4, 3, padding="FULL")
    with pytest.raises(errors.ArgumentTypeError, match="reduction is 'mean', 'sum' or 'none', not int 3"):
        nn.MSELoss(3)


def test_the_class_of_a_subclass_is_named():
    class Mine(nn.Linear):
        pass

    with pytest.raises(TypeError, match=r"^Mine: in_features"):
        Mine(None, 2)


def test_numbers_of_numpy_fit():
    assert nn.Linear(np.int64(3), np.int32(2)).weight.shape == [3, 2]
    assert nn.Dropout(np.float32(0.5)).p == 0.5
    assert nn.Conv2D(1, 1, np.array([2, 2])).weight.shape == [1, 1, 2, 2]


def test_kinds_are_read_from_annotations():
    class Made:
        @checked_with_words
        def __init__(
            self,
            sizes: Numbers = 1,
            border: Padding = 0,
            words: Reduction | None = None,
            layout: Layout = "NCHW",
            call: typing.Callable[[int], int] | None = None,
            kind: type[nn.Layer] | None = None,
            rest: typing.Any = None,
        ):
            self.sizes = sizes

    assert Made((1, 2), [[0, 0], [1, 1]], None, "NLC", len, nn.Linear, object()).sizes == (1, 2)
    for wrong in ({"call": 3}, {"kind": int}, {"kind": 3}, {"sizes": {1}}, {"border": [["a", "b"]]}, {"words": 1}):
        with pytest.raises(TypeError, match=f"^Made: {next(iter(wrong))} is "):
            Made(**wrong)


# Written out ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, kind in CLASSES.items() if kind.__name__ == name])
def test_the_source_and_the_arguments_of_each_class_are_found(name):
    kind = CLASSES[name]
    assert inspect.getsource(kind).startswith(f"class {name}")
    if kind.__module__.startswith("onnxgrad.nn.") and name not in ("Layer",):
        assert "Args:" in kind.__doc__ and "Example:" in kind.__doc__
        named = {argument for line in kind.__doc__.splitlines() for argument in line.partition(":")[0].strip().split(", ")}
        assert set(inspect.signature(kind).parameters) <= named


@pytest.mark.parametrize("name", nn.functional.__all__)
def test_each_function_says_what_its_arguments_are(name):
    function = getattr(nn.functional, name)
    if not function.__module__.startswith("onnxgrad.nn."):
        return
    named = {argument for line in function.__doc__.splitlines() for argument in line.partition(":")[0].strip().split(", ")}
    assert set(inspect.signature(function).parameters) <= named
    assert "Example:" in function.__doc__
    assert all(p.annotation is not p.empty for p in inspect.signature(function).parameters.values())


def test_lists_of_names_hold_what_the_families_hold():
    families = [getattr(nn.functional, family) for family in FAMILIES]
    assert set(nn.functional.__all__) == {"diag_embed", *(name for family in families for name in family.__all__)}
    modules = [getattr(nn, name) for name in ("container", "functional_layers", "recurrent", "transformer", "weighted")]
    assert set(LAYERS) == {"Layer", "Identity", "Softmax2D", *(name for module in modules for name in module.__all__)}


FAMILIES = ["activation", "attention", "classification", "common", "conv", "inplace", "loss", "norm", "pooling", "vision"]
