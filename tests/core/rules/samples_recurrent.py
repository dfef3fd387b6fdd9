"""RNN, GRU and LSTM: directions, lengths, initial states, every attribute and combination of outputs."""

import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.samples import samples

STEPS, BATCH, WIDTH, H = 3, 2, 2, 2
LENGTHS = np.array([3, 2], np.int32)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {"RNN": ["Affine"], "GRU": ["HardSigmoid", "Softsign"], "LSTM": ["Sigmoid", "ScaledTanh", "Softplus"]}


def operands(draw, kind, directions=1, bias=True, lengths=None, states=False, peepholes=False, layout=0):
    gates = GATES[kind]
    x = draw.real(*((BATCH, STEPS) if layout else (STEPS, BATCH)), WIDTH)
    found = [x, draw.real(directions, gates * H, WIDTH), draw.real(directions, gates * H, H)]
    found += [draw.real(directions, 2 * gates * H) if bias else None, lengths]
    shape = (BATCH, directions, H) if layout else (directions, BATCH, H)
    found += [draw.real(*shape) if states else None for _ in range(2 if kind == "LSTM" else 1)]
    if peepholes:
        found.append(draw.real(directions, 3 * H))
    return found


def common(kind):
    outputs = 3 if kind == "LSTM" else 2

    def forms(draw):
        def sample(form, **attrs):
            attrs = {"outputs": outputs, "hidden_size": H, **attrs}
            return Sample(*operands(draw, kind, layout=attrs.get("layout", 0), **form), **attrs)

        yield sample({"bias": False})
        yield sample({"states": True}, direction="reverse")
        yield sample({"directions": 2, "lengths": LENGTHS, "states": True}, direction="bidirectional")
        yield sample({"lengths": LENGTHS}, direction="reverse")
        yield sample({"lengths": LENGTHS, "states": True})
        yield sample({}, clip=0.7)
        yield sample({"lengths": LENGTHS, "states": True}, layout=1)
        yield sample({"directions": 2, "states": True}, layout=1, direction="bidirectional")
        yield sample({}, activations=ACTIVATIONS[kind], activation_alpha=[0.4] * 2, activation_beta=[0.6] * 2)
        yield sample({"directions": 2}, direction="bidirectional", activations=ACTIVATIONS[kind] * 2)
        for i in range(outputs):
            yield sample({"states": True}, only=[i])

    return forms


for kind in GATES:
    samples(kind)(common(kind))


@samples("RNN")
def activations(draw):
    for name in ("Relu", "Sigmoid", "LeakyRelu", "Elu", "ThresholdedRelu"):
        yield Sample(*operands(draw, "RNN"), outputs=2, hidden_size=H, activations=[name], activation_alpha=[0.3])


@samples("GRU")
def reset_after(draw):
    form = {"outputs": 2, "hidden_size": H, "linear_before_reset": 1}
    yield Sample(*operands(draw, "GRU"), **form)
    yield Sample(*operands(draw, "GRU", bias=False, lengths=LENGTHS), **form, direction="reverse")
    yield Sample(*operands(draw, "GRU", 2, states=True), **form, direction="bidirectional", clip=0.9)


@samples("LSTM")
def peepholes(draw):
    form = {"outputs": 3, "hidden_size": H}
    yield Sample(*operands(draw, "LSTM", peepholes=True), **form)
    yield Sample(*operands(draw, "LSTM", 2, states=True, lengths=LENGTHS, peepholes=True), **form, direction="bidirectional")
    yield Sample(*operands(draw, "LSTM", peepholes=True), **form, clip=0.8)
    yield Sample(*operands(draw, "LSTM"), **form, input_forget=1)
    yield Sample(*operands(draw, "LSTM", bias=False, states=True, peepholes=True), **form, input_forget=1, direction="reverse")
