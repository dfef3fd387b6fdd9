"""A program of somebody who exports: accepted by type checkers, and run."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx

import onnxgrad as og
from onnxgrad import func, static


class Small(og.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.linear = og.nn.Linear(3, 2)

    def forward(self, x: og.Tensor) -> og.Tensor:
        y: og.Tensor = self.linear(x)
        return og.nn.functional.relu(y)


@og.jit.to_static(input_spec=[static.InputSpec([None, 2], "float32", "x")])
def doubled(x: og.Tensor) -> og.Tensor:
    return x * 2


def of_a_program(folder: Path) -> None:
    program, startup = og.Program(), og.Program()
    with static.program_guard(program, startup):
        x = static.data("x", [None, 3], "float32")
        y = static.nn.fc(x, 2)
        loss = y.mean()
    static.Executor().run(startup)
    og.save_onnx(program, folder / "names.onnx", [y.name], lowering="cpu")
    og.save_onnx(program, folder / "variables.onnx", y, external_data="keep")
    model: onnx.ModelProto = og.to_onnx(program, [y, loss.name])
    assert [v.name for v in model.graph.output] == [y.name, loss.name]
    (slopes,) = func.grad(program, loss, x)({"x": np.ones((2, 3), np.float32)}).values()
    assert slopes.shape == (2, 3)
    with static.program_guard(program, startup):
        og.optimizer.Adam(0.01).minimize(loss)
    static.Executor().run(startup)
    og.save_training_step(program, folder / "step.onnx", [loss])
    step, manifest = og.to_training_step(program, loss.name)
    onnx.checker.check_model(step)
    assert len(manifest["state"]) >= 2


def of_a_layer(folder: Path) -> None:
    layer = Small()
    og.jit.save(layer, str(folder / "layer"), input_spec=[static.InputSpec([None, 3], "float32", "x")])
    loaded = og.jit.load(str(folder / "layer"))
    assert loaded(og.ones([1, 3])).shape == [1, 2]
    og.onnx.export(layer, str(folder / "again"), input_spec=[og.ones([1, 3])])
    same: og.Tensor = doubled(og.ones([1, 2]))
    assert same.shape == [1, 2]
    og.jit.save(doubled, str(folder / "doubled"))
    assert [v.name for v in doubled.main_program.inputs] == ["x"]


def main() -> None:
    with TemporaryDirectory() as name:
        of_a_program(Path(name))
        of_a_layer(Path(name))


if __name__ == "__main__":
    main()
