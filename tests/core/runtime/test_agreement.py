"""Before the first step one row goes through what is trained and through the file."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import onnxgrad as og
from onnxgrad.core.graph_passes import contrib_kernels
from onnxgrad.core.runtime import agreement, session_cache
from onnxgrad.errors import TrainingError
from onnxgrad.training import Trainer, add_lora

FOLDER = Path(__file__).parents[2] / "data" / "llm_models"
WORDS = np.tile(np.arange(40), (4, 1)) + np.arange(4)[:, None] % 2


def halved():
    """The int4 file as builders write it for other devices: 16 bits between coarse products"""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = onnx.load(FOLDER / "llama-int4.onnx")
    converted = convert_float_to_float16(model, disable_shape_infer=True, op_block_list=[])
    return onnx.ModelProto.FromString(converted.SerializeToString())


def trainer(source, **options):
    program = og.from_onnx(source)
    add_lora(program, "all", rank=2)
    return Trainer(program, loss="causal_lm", optimizer="sgd", learning_rate=0.01, **options)


def test_a_step_that_loses_a_product_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(contrib_kernels, "loses_scales", lambda op: False)
    run = trainer(halved())
    before = {p.name: np.array(p.get_value()) for p in run.trained}
    with pytest.raises(TrainingError, match=r"the training step differs from the file: '/model/layers.0.*differs by \d+%.*expand"):
        run.step({"input_ids": WORDS})
    assert run.step_number == 0
    for p in run.trained:
        np.testing.assert_array_equal(p.get_value(), before[p.name])


def test_the_level_that_is_right_is_chosen():
    run = trainer(halved())
    assert np.isfinite(run.step({"input_ids": WORDS})["loss"]) and run.step_number == 1


@pytest.mark.parametrize("name", ["llama-int4", "llama-fp32", "qwen2-fp32"])
@pytest.mark.parametrize("options", [{}, {"accumulate": 2}], ids=["", "accumulated"])
def test_a_file_that_agrees_trains_once_per_step(name, options, monkeypatch):
    """The comparison leaves no state, and is made once, with a short row"""
    seen = []
    real = agreement.first_difference

    def noting(*args):
        seen.append(args[3])
        return real(*args)

    monkeypatch.setattr("onnxgrad.training.trainer.first_difference", noting)
    opened = []
    for module in (agreement, session_cache):
        real_open = module.open_graph
        monkeypatch.setattr(
            module, "open_graph", lambda *a, real_open=real_open, **o: opened.append(o.get("runs_once")) or real_open(*a, **o)
        )
    run, other = (trainer(FOLDER / f"{name}.onnx", **options) for _ in range(2))
    other._is_compared = True
    for _ in range(2):
        assert run.step({"input_ids": WORDS}) == other.step({"input_ids": WORDS})
    assert opened[:2] == [True, True] and not any(opened[2:])  # the file and the step, which packs no weight
    assert len(seen) == 1 and seen[0]["input_ids"].shape == (1, 16) and seen[0]["labels"].shape == (1, 16)
    for ours, theirs in zip(run.trained, other.trained, strict=True):
        np.testing.assert_array_equal(ours.get_value(), theirs.get_value())


def test_a_wrong_operator_is_found_among_many(monkeypatch):
    """The step of another weight stands for a kernel that gives other numbers"""
    run = trainer(FOLDER / "llama-fp32.onnx")
    file = og.from_onnx(FOLDER / "llama-fp32.onnx")
    weight = next(p for p in file.parameters if "layers.1.mlp.down_proj" in p.name)
    weight.set_value(weight.get_value() * np.float32(1.5))
    feed = run.model.derived.short_row(run.model.feed_of({"input_ids": WORDS}, run.executor))
    found = agreement.first_difference(run.program, file, [v.name for v in run.outputs], feed, run.executor)
    assert found is not None and "/model/layers.1/mlp/down_proj" in found.name and found.share == pytest.approx(1 / 3, rel=0.01)
