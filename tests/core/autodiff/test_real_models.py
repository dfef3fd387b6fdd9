"""Gradients of exporter-made models against those the source frameworks computed."""

import numpy as np
import onnx
import pytest

import onnxgrad
import onnxgrad.nn.functional as F
from onnxgrad import static
from tests.real_models import WITH_REFERENCE, RealModel

# The source knows more than the file: see the README beside the models.
DIFFERS_IN_SOURCE = {("ppo_policy-dyn18", "ls")}


def attach_loss(program, model):
    """The loss that the reference was computed with."""
    described = model.meta["loss"]
    with static.program_guard(program):
        output = program.global_block().var(described["output"])
        target = program.constant(model.target)
        if described["kind"] == "ce":
            return F.cross_entropy(output, target, axis=1)
        if described["kind"] == "mse":
            return F.mse_loss(output, target)
        return onnxgrad.sum(output * target) / float(model.target.size)


@pytest.mark.parametrize("folder", WITH_REFERENCE, ids=lambda folder: folder.name)
def test_gradients_match_the_source_framework(folder):
    model = RealModel(folder)
    program = onnxgrad.from_onnx(model.path)
    if folder.name.endswith("-train"):
        program.train()
    expected = model.gradients()
    inputs = [v for v in program.inputs if v.name in expected]
    for v in inputs:
        v.stop_gradient = False
    loss = attach_loss(program, model)
    pairs = static.append_backward(loss, [*program.all_parameters(), *inputs])
    found = {p.name: g for p, g in pairs}
    onnx.checker.check_model(onnxgrad.to_onnx(program, [loss, *found.values()]), full_check=True)
    values = static.Executor().run(program, model.feed, [loss, *found.values()])
    np.testing.assert_allclose(values[0], model.reference["loss"], rtol=1e-5, atol=1e-6)
    computed = dict(zip(found, values[1:], strict=True))
    largest = max(float(np.abs(g).max()) for g in expected.values())
    for name, reference in expected.items():
        if (folder.name, name) in DIFFERS_IN_SOURCE:
            continue
        parts = [computed[copy] for copy in model.copies_of(name) if copy in computed]
        assert parts or not reference.any(), f"{name} received no gradient"
        total = sum(part if part.shape == reference.shape else part.T for part in parts)
        if "bert" in folder.name and name.endswith("word_embeddings.weight"):
            total = np.concatenate([reference[:1], total[1:]])
        # Gradients that are zero in exact arithmetic (a bias before a normalisation) are rounding noise on both sides.
        np.testing.assert_allclose(total, reference, rtol=1e-3, atol=1e-3 * np.abs(reference).max() + 1e-6 * largest, err_msg=name)
