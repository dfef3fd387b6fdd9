"""Files with bfloat16 weights are trained, saved, loaded and exported."""

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnxgrad.training import Trainer

BFLOAT16 = ml_dtypes.bfloat16


def model():
    weight = numpy_helper.from_array(np.ones((2, 3), BFLOAT16), "w")
    nodes = [helper.make_node("Cast", ["w"], ["wide"], to=1), helper.make_node("MatMul", ["x", "wide"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, n]) for name, n in (("x", 2), ("y", 3)))
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()


def test_a_run_is_saved_loaded_and_exported(tmp_path):
    data = {"x": np.random.default_rng(0).uniform(size=(20, 2)).astype(np.float32), "target": np.arange(20) % 3}
    trainer = Trainer(model(), loss="cross_entropy", metrics=["accuracy"], ema=0.9)
    trainer.fit(data, epochs=2, validation=data, batch_size=5, out=tmp_path / "run", verbose=False)
    trainer.save(tmp_path / "saved.safetensors")
    scope = trainer.program.active_scope()
    trained = {name: scope.get(name) for name in scope.local_var_names()}
    assert trained["w"].dtype == BFLOAT16 and (trained["w"] != np.ones((2, 3), BFLOAT16)).any()
    expected = trainer.step({name: column[:5] for name, column in data.items()})

    other = Trainer(model(), loss="cross_entropy", metrics=["accuracy"], ema=0.9)
    other.load(tmp_path / "saved.safetensors")
    found = other.program.active_scope()
    assert all(found.get(name).tobytes() == value.tobytes() for name, value in trained.items() if name in found.local_var_names())
    assert other.step({name: column[:5] for name, column in data.items()}) == expected

    other.load(tmp_path / "saved.safetensors")
    other.average = None
    other.export(tmp_path / "tuned.onnx")
    (held,) = onnx.load(tmp_path / "tuned.onnx").graph.initializer
    assert held.data_type == TensorProto.BFLOAT16 and held.raw_data == trained["w"].tobytes()
