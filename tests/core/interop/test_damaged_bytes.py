"""What programs as bytes and ``training_info`` say of state is looked at before it is believed."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxgrad as og
from onnxgrad import static
from onnxgrad.errors import ArgumentTypeError, ExternalDataError, ModelError
from tests.fuzz.seeds import _training

pytestmark = pytest.mark.damaged

KEY = "onnxgrad.program"


def program_bytes():
    program = static.Program()
    with static.program_guard(program, static.Program()):
        x = static.data("x", [None, 2])
        loss = (static.nn.fc(x, 1, name="layer") ** 2).mean()
        og.optimizer.Adam(0.1).minimize(loss)
    return program.serialize_to_string()


def changed(change):
    """The bytes with ``change`` made to the description, or with a description that it returns"""
    model = onnx.ModelProto.FromString(program_bytes())
    (entry,) = [entry for entry in model.metadata_props if entry.key == KEY]
    details = json.loads(entry.value)
    given = change(details)
    entry.value = given if isinstance(given, str) else json.dumps(details)
    return model.SerializeToString()


class TestProgramBytes:
    def test_what_was_written_is_read(self):
        program = og.Program.parse_from_string(changed(lambda d: None))
        assert len(program.parameters) == 2 and program.updates

    @pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "{}", "[" * 100_000, '{"parameters": 1}'])
    def test_a_description_that_is_none(self, text):
        with pytest.raises(ModelError, match="do not describe the state of a program"):
            og.Program.parse_from_string(changed(lambda d: text))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda d: d.update(state=3), "do not describe"),
            (lambda d: d.update(state="x"), "do not describe"),
            (lambda d: d.update(parameters=["w"]), "do not describe"),
            (lambda d: d["parameters"].update(w="yes"), "do not describe"),
            (lambda d: d.update(outputs=[["x"]]), "do not describe"),
            (lambda d: d["parameters"].update(nothing=True), "names 'nothing', which is not an input"),
            (lambda d: d["state"].append("nothing"), "names 'nothing', which is not an input"),
            (lambda d: d["outputs"].append("nothing"), "names 'nothing', which is not there"),
            (lambda d: d["updates"].update(nothing="x"), "names 'nothing', which is not an input"),
            (lambda d: d["updates"].update({d["state"][0]: "nothing"}), "names 'nothing', which is not there"),
            (lambda d: d["updates"].update(x=d["state"][0]), "the program's update of 'x' to .* does not fit"),
            (lambda d: d["parameters"].update({next(iter(d["updates"].values())): True}), "which is not an input without a value"),
        ],
    )
    def test_names_that_do_not_fit(self, change, message):
        with pytest.raises(ModelError, match=message):
            og.Program.parse_from_string(changed(change))

    def test_a_new_value_of_another_type(self):
        model = onnx.ModelProto.FromString(program_bytes())
        (entry,) = [entry for entry in model.metadata_props if entry.key == KEY]
        details = json.loads(entry.value)
        model.graph.node.append(helper.make_node("Shape", ["x"], ["size"]))
        model.graph.output.append(helper.make_tensor_value_info("size", TensorProto.INT64, [2]))
        details["updates"][next(iter(details["parameters"]))] = "size"
        entry.value = json.dumps(details)
        with pytest.raises(ModelError, match="does not fit"):
            og.Program.parse_from_string(model.SerializeToString())

    def test_a_text(self):
        with pytest.raises(ModelError, match="there is no file"):
            og.Program.parse_from_string("text")
        with pytest.raises(ArgumentTypeError, match="not int"):
            og.Program.parse_from_string(3)


class TestTrainingInfo:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda m: setattr(m.training_info[0].update_binding[0], "key", "x"), "'x', which is not an initializer"),
            (lambda m: setattr(m.training_info[0].update_binding[0], "key", "d"), "'d', which is not an initializer"),
            (lambda m: setattr(m.training_info[0].update_binding[0], "key", "nothing"), "'nothing', which neither graph"),
            (lambda m: setattr(m.training_info[0].update_binding[0], "value", "l"), "which is of another type"),
            (lambda m: setattr(m.training_info[0].initialization_binding[0], "key", "r"), "'r', which is not state"),
            (lambda m: setattr(m.training_info[0].initialization_binding[0], "key", "x"), "'x', which is not state"),
            (lambda m: m.training_info[0].initialization.node[0].attribute[0].ints.append(3), "which is of another type"),
            (lambda m: m.training_info[0].algorithm.node[0].input.append("x"), "3 operands given"),
        ],
    )
    def test_bindings_that_do_not_fit(self, change, message):
        model = _training()
        og.from_training_info(model)
        change(model)
        with pytest.raises(ModelError, match=message):
            og.from_training_info(model)

    def external(self, tmp_path, location):
        model = _training()
        tensor = model.training_info[0].algorithm.initializer[0]
        tensor.ClearField("raw_data")
        tensor.ClearField("float_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
        (tmp_path / "model").mkdir()
        (tmp_path / "rate.bin").write_bytes(np.float32(0.5).tobytes())
        (tmp_path / "model" / "rate.bin").write_bytes(np.float32(0.25).tobytes())
        path = tmp_path / "model" / "m.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    def test_external_data_of_the_algorithm_is_read(self, tmp_path):
        training = og.from_training_info(self.external(tmp_path, "rate.bin"))
        assert float(training.program.find("r").get_value()) == 0.25

    def test_external_data_outside_the_folder(self, tmp_path):
        path = self.external(tmp_path, "../rate.bin")
        with pytest.raises(ExternalDataError, match="outside the model's folder"):
            og.from_training_info(path)

    def test_external_weights_are_read(self, tmp_path):
        model = _training()
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((2, 2), "f4"), "w"))
        onnx.save_model(model, str(tmp_path / "m.onnx"), save_as_external_data=True, size_threshold=0, location="w.bin")
        training = og.from_training_info(tmp_path / "m.onnx")
        np.testing.assert_array_equal(training.program.find("w").get_value(), np.ones((2, 2)))
        with pytest.raises(ExternalDataError):
            (tmp_path / "w.bin").unlink()
            og.from_training_info(tmp_path / "m.onnx")
