"""A program of somebody who builds static graphs: accepted by type checkers, and run."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import onnxgrad as paddle
from onnxgrad import static


def network(image: paddle.Variable, label: paddle.Variable) -> tuple[paddle.Variable, paddle.Variable]:
    hidden = static.nn.conv2d(image, num_filters=4, filter_size=3, act="relu")
    hidden = static.nn.batch_norm(hidden)
    volume = static.nn.conv3d(paddle.unsqueeze(hidden, 2), num_filters=2, filter_size=(1, 2, 2), padding="VALID")
    scores = static.nn.fc(volume, size=3, weight_attr=static.ParamAttr(name="head"))
    loss = paddle.mean(paddle.nn.functional.cross_entropy(scores, label))
    return scores, loss


def branched(scores: paddle.Variable) -> paddle.Variable:
    larger = static.nn.cond(paddle.mean(scores) > 0.0, lambda: scores * 2.0, lambda: scores - 1.0)
    table = static.create_parameter([3, 3], "float32", name="table")
    shape: tuple[int, ...] = table.shape
    assert shape == (3, 3)
    return paddle.matmul(larger, table)


def main() -> None:
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        image = static.data("image", [None, 1, 6, 6], "float32")
        image.stop_gradient = False
        label = static.data("label", [None, 1], "int64")
        scores, loss = network(image, label)
        result = branched(scores)
        pairs: list[tuple[paddle.Variable, paddle.Variable]] = static.append_backward(loss)
        (slope,) = static.gradients(loss, image)
    assert "head" in [p.name for p, _ in pairs] and slope is not None
    executor = static.Executor(static.CPUPlace())
    executor.run(startup)
    feed = {"image": np.ones((2, 1, 6, 6), np.float32), "label": np.zeros((2, 1), np.int64)}
    value, made = executor.run(program, feed=feed, fetch_list=[loss, result.name])
    assert value.shape == () and made.shape == (2, 3)
    program.outputs = [scores, loss.name]
    assert [v.name for v in program.outputs] == [scores.name, loss.name]
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        static.save_inference_model(path, [image], [scores], executor, program=program)
        again, names, fetches = static.load_inference_model(path, executor)
        (predicted,) = executor.run(again, feed={names[0]: feed["image"]}, fetch_list=fetches)
    assert predicted.shape == (2, 3)


if __name__ == "__main__":
    main()
