"""What ``onnxgrad export`` and ``onnxgrad grad`` say they wrote is all that onnxruntime needs, whatever file the model came in."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad as og
from onnxgrad.core.interop import model_file
from onnxgrad.errors import ExternalDataError
from tests.cli.command import command

LLAMA = Path(__file__).parents[1] / "data" / "llm_models" / "llama-int4.onnx"
WORDS = np.tile(np.arange(12), (8, 1)) + np.arange(8)[:, None] % 2
EXPORTS = {
    "inference": ["--inference"],
    "folded": ["--fold", "--inference"],
    "merged": ["--merged"],
    "merged and rounded": ["--requantise", "--merged"],
    "adapters of onnxruntime": ["--adapters"],
    "step": ["--training-step"],
    "step for a provider": ["--lowering", "cpu", "--training-step"],
    "step in two models": ["--split", "--training-step"],
}


def beside(model, folder, name="weights.bin"):
    """Save a model whose weights, constants too, all lie in one file beside it"""
    folder.mkdir()
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location=name, size_threshold=0)
    return path


def opened_alone(files, folder):
    """The sessions of the models among these files, in a folder with nothing but them"""
    folder.mkdir()
    for file in files:
        shutil.copy(file, folder)
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3
    models = [path for path in sorted(folder.iterdir()) if path.suffix == ".onnx"]
    return [onnxruntime.InferenceSession(path, quiet, providers=["CPUExecutionProvider"]) for path in models]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of adapters on int4 weights, which lie in a file beside the model"""
    folder = tmp_path_factory.mktemp("alone")
    path = beside(onnx.load(LLAMA), folder / "model")
    np.savez(folder / "words.npz", input_ids=WORDS)
    what = ("--lora", "2", "--on", "all", "--loss", "causal_lm", "--data", folder / "words.npz", "--batch-size", "8")
    command("train", path, *what, "--epochs", "1", "--out", folder / "run")
    return folder


@pytest.mark.parametrize("where", ["elsewhere", "beside the model"])
@pytest.mark.parametrize("kind", EXPORTS)
def test_an_export_opens_in_an_empty_folder(run, kind, where, tmp_path):
    home = tmp_path if where == "elsewhere" else run / "model"
    path = home / ("a.onnx_adapter" if "--adapters" in EXPORTS[kind] else "written.onnx")
    said = json.loads(command("export", run / "run", *EXPORTS[kind], path, "--json"))
    reads = [note.split(" reads ")[1].split(",")[0] for note in said.get("notes", []) if " reads " in note]
    assert reads == [] if where == "elsewhere" or "step" in kind else set(reads) == {"weights.bin"}
    assert opened_alone([*said["written"], *(home / name for name in reads)], tmp_path / "empty")


def test_the_exported_step_computes_what_the_run_did(run, tmp_path):
    """The loss of the first step in onnxruntime alone, from the message and from files"""
    said = json.loads(command("export", run / "run", "--training-step", tmp_path / "step.onnx", "--json"))
    (session,) = opened_alone(said["written"], tmp_path / "empty")
    manifest = json.loads((tmp_path / "step.json").read_text())
    empty = {e["name"]: np.zeros((8, 2, 0, 16), np.float32) for e in manifest["feeds"] if e["name"].startswith("past")}
    labels = {e["name"]: WORDS for e in manifest["feeds"] if e["name"] not in (*empty, "input_ids", "attention_mask")}
    feed = {"input_ids": WORDS, "attention_mask": np.ones_like(WORDS), **empty, **labels}
    (loss,) = session.run([manifest["fetches"][0]["name"]], feed)
    (before,) = onnxruntime.InferenceSession(LLAMA).run(["logits"], {n: feed[n] for n in feed if n not in labels})
    assert np.isfinite(before).all() and 0 < float(loss) < 8


def test_gradients_of_a_file_with_weights_beside_it(run, tmp_path):
    path = tmp_path / "grad.onnx"
    command("grad", run / "model" / "model.onnx", "--of", "logits", "--wrt", "model.embed_tokens.weight", "-o", path)
    assert opened_alone([path, *(tmp_path / name for name in model_file.files_read_by(path))], tmp_path / "empty")


def stepped(path):
    program = og.from_onnx(path)
    with og.static.program_guard(program):
        loss = og.mean(program.outputs[0])
        og.optimizer.SGD(0.1).minimize(loss)
    return program, loss


class TestMessages:
    """A message has no folder, so what lay in files is in it."""

    @pytest.fixture
    def path(self, tmp_path):
        return beside(onnx.load(LLAMA), tmp_path / "model")

    @pytest.mark.parametrize("make", ["to_onnx", "to_training_step", "to_split_training_step", "to_training_info", "serialize"])
    def test_a_message_needs_no_files(self, make, path):
        program, loss = stepped(path)
        if make == "to_onnx":
            models = [og.to_onnx(program, [program.outputs[0]])]
        elif make == "to_training_info":
            models = [og.to_training_info(program, [loss])]
        elif make == "serialize":
            models = [onnx.load_model_from_string(program.serialize_to_string())]
        else:
            models = [m for m in getattr(og, make)(program, [loss]) if isinstance(m, onnx.ModelProto)]
        assert models
        for model in models:
            assert "weights.bin" not in str(model)

    @pytest.mark.parametrize("save", ["save_training_step", "save_split_training_step"])
    @pytest.mark.parametrize("where", ["elsewhere", "beside the model"])
    def test_saved_steps_name_no_file_but_their_own(self, save, where, path, tmp_path):
        program, loss = stepped(path)
        home = path.parent if where == "beside the model" else tmp_path / "steps"
        getattr(og, save)(program, home / "step", [loss])
        models = list(home.glob("step*.onnx"))
        named = [file.parent / name for file in models for name in model_file.files_read_by(file)]
        assert all(file.name in {f"{m.name}.data" for m in models} for file in named)
        assert opened_alone([*models, *named], tmp_path / "empty")

    def test_a_message_that_cannot_hold_the_files_is_refused(self, path, monkeypatch):
        program, loss = stepped(path)
        monkeypatch.setattr(model_file, "_LARGEST_MESSAGE", 100)
        with pytest.raises(
            ExternalDataError, match=r"more than one protobuf message may hold. Write files: save_onnx, or save_training_step"
        ):
            og.to_training_step(program, [loss])


def test_a_constant_node_with_its_value_in_a_file(tmp_path):
    value = onnx.numpy_helper.from_array(np.arange(6, dtype=np.float32), "c")
    nodes = [onnx.helper.make_node("Constant", [], ["c"], value=value), onnx.helper.make_node("Add", ["x", "c"], ["y"])]
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [6]) for name in "xy")
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "g", [x], [y]), opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10
    )
    (tmp_path / "model").mkdir()
    path = tmp_path / "model" / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0, convert_attribute=True)
    assert "weights.bin" in str(onnx.load(path, load_external_data=False))
    written = og.to_onnx(og.from_onnx(path))
    assert "weights.bin" not in str(written)
    (found,) = onnxruntime.InferenceSession(written.SerializeToString()).run(None, {"x": np.ones(6, np.float32)})
    np.testing.assert_array_equal(found, np.arange(6) + 1)
