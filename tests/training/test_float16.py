"""Files in float16: float32 copies of what trains, and a scale of the loss.

onnxruntime computes most of float16 in float32 on the CPU, so what is said of the range is tried on the reference evaluator.
"""

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.testing import evaluate
from onnxgrad.training import Trainer, add_lora

SMALL = 2.0**-13


def line(kind="float16"):
    """y = x w v with a small v, so that the gradient of w is small"""
    name = "float" if kind == "float32" else kind
    text = (
        f'<ir_version: 8, opset_import: ["": 17]> f ({name}[N, 2] x) => ({name}[N, 1] y) {{ h = MatMul (x, w) y = MatMul (h, v) }}'
    )
    made = parse_model(text)
    arrays = {"w": np.array([[0.5, 0.25], [0.125, 1.0]]), "v": np.array([[SMALL], [SMALL]])}
    made.graph.initializer.extend(numpy_helper.from_array(value.astype(kind), key) for key, value in arrays.items())
    return made


def data(kind="float16", factor=1.0):
    return {"x": factor * np.array([[1.0, 0.5], [0.25, 2.0]], kind), "target": np.full((2, 1), 2.0**-9, kind)}


def trained(kind="float16", **options):
    options = {"trainable": "w", "optimizer": "sgd", "learning_rate": 2.0**10, "loss": "mse", **options}
    return Trainer(line(kind), **options)


def state(trainer):
    return {v.name: v.get_value() for v in trainer.program.list_vars() if v.persistable}


def step(trainer, batch):
    """The state after the step that a file of it makes, on the reference evaluator"""
    model, manifest = trainer.to_training_step()
    found = dict(zip([v.name for v in model.graph.output], evaluate(model, {**batch, **state(trainer)}), strict=True))
    return {entry["name"]: found[entry["output"]] for entry in manifest["state"]}


def overflowing(trainer, batch, run):
    """Names of what changed in a step"""
    before = state(trainer)
    after = run(trainer, batch)
    return {name for name, value in after.items() if not np.array_equal(before[name], value)}


def by_runtime(trainer, batch):
    assert np.isfinite(trainer.step(batch)["loss"])
    return state(trainer)


class TestLossScale:
    def test_gradients_do_not_vanish(self):
        """A step is that of float32; without a scale it is another"""
        exact, scaled, plain = trained("float32"), trained(), trained(loss_scale=0)
        start = state(exact)["w"]
        wanted = step(exact, data("float32"))["w"] - start
        found = step(scaled, data())["w_fp32_master_0"] - start
        assert np.abs(wanted).min() > 1e-5
        # The gradient itself has eleven bits.
        np.testing.assert_allclose(found, wanted, rtol=4e-3)
        vanished = step(plain, data())["w_fp32_master_0"] - start
        assert np.abs(vanished / wanted - 1).max() > 0.05

    def test_it_is_said_and_only_where_it_is_needed(self):
        assert any("the loss is scaled, by 32768 at first" in text for text in trained().remarks)
        for trainer in (trained("float32"), trained(loss_scale=0)):
            assert "loss_scaling_0" not in state(trainer)
            assert not any("scaled" in text for text in trainer.remarks)
        with pytest.raises(og.errors.ArgumentError, match="begins with a positive number, or 0"):
            trained(loss_scale=-1)

    @pytest.mark.parametrize("optimizer", ["adam", "momentum"])
    def test_a_step_that_overflows_changes_the_scale_alone(self, optimizer):
        trainer = trained(loss_scale=2.0**40, optimizer=optimizer)
        assert overflowing(trainer, data(), step) == {"loss_scaling_0"}
        assert step(trainer, data())["loss_scaling_0"] == 2.0**39
        trainer = trained(loss_scale=2.0**126, optimizer=optimizer)
        assert overflowing(trainer, data(factor=1e4), by_runtime) == {"loss_scaling_0"}

    def test_a_micro_batch_that_overflows_does_not_count(self):
        trainer = trained(loss_scale=2.0**126, accumulate=2)
        assert overflowing(trainer, data(factor=1e4), by_runtime) == {"loss_scaling_0"}
        trainer.step(data())
        assert np.isfinite(state(trainer)["w_fp32_master_0"]).all() and (state(trainer)["w_fp32_master_0"] != 0).all()

    def test_training_finds_the_scale(self):
        trainer = trained(loss_scale=2.0**127, learning_rate=2.0**-6)
        losses = [trainer.step(data(factor=1e4))["loss"] for _ in range(40)]
        assert 1 < state(trainer)["loss_scaling_0"] < 2.0**127 and losses[-1] < 0.5 * losses[0]

    def test_micro_batches_make_the_step_of_the_whole(self):
        whole, parts = trained(), trained(accumulate=2)
        for _ in range(3):
            whole.step(data())
            for row in range(2):
                parts.step({name: value[row : row + 1] for name, value in data().items()})
        np.testing.assert_allclose(state(parts)["w_fp32_master_0"], state(whole)["w_fp32_master_0"], rtol=1e-5)

    def test_a_run_resumes_with_its_scale(self, tmp_path):
        one = trained(loss_scale=2.0**127)
        for _ in range(3):
            one.step(data(factor=1e4))
        one.save(tmp_path / "c.safetensors")
        two = trained(loss_scale=2.0**127)
        two.load(tmp_path / "c.safetensors")
        assert state(two)["loss_scaling_0"] == state(one)["loss_scaling_0"] < 2.0**127


def test_adapters_of_a_float16_layer_train_in_float32():
    program = og.from_onnx(line())
    names = add_lora(program, "w", rank=1)
    trainer = Trainer(program, loss="mse", optimizer="adam", learning_rate=0.3)
    losses = [trainer.step(data())["loss"] for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    found = state(trainer)
    for name in names:
        master = found[f"{name}_fp32_master_0"]
        assert master.dtype == np.float32 and np.array_equal(master.astype(np.float16), found[name])
        assert not np.array_equal(master, found[name].astype(np.float32))
        assert found[f"{name}_fp32_master_0_moment1_0"].dtype == np.float32
