"""PEFT's adapters on the file of the same weights give the logits that PEFT recorded; what we write, PEFT loaded and recorded."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import onnxgrad as og
from onnxgrad.errors import ArgumentError, ModelError, UnknownName
from onnxgrad.internal.tensor_file import read_tensors, write_tensors
from onnxgrad.training import Trainer, add_lora, load_peft, merge_lora, save_peft
from tests.cli.command import command

DATA = Path(__file__).parents[2] / "data"
PEFT = DATA / "peft"
WORDS = np.tile(np.arange(12), (2, 1)) + np.arange(2)[:, None] % 2
KINDS = ["llama", "llama_some", "packed", "dora", "dora_packed", "from_onnxgrad", "from_onnxgrad_packed", "from_onnxgrad_dora"]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """llama-fp32.onnx with the angles of its positions as PyTorch computes them: in the file they are rounded to bfloat16"""
    model = onnx.load(DATA / "llm_models" / "llama-fp32.onnx")
    for tensor in model.graph.initializer:
        if tensor.name in ("cos_cache", "sin_cache"):
            positions, pairs = tensor.dims
            angles = np.outer(np.arange(positions), 10000.0 ** (-np.arange(pairs) / pairs))
            function = np.cos if tensor.name == "cos_cache" else np.sin
            tensor.CopyFrom(numpy_helper.from_array(function(angles).astype(np.float32), tensor.name))
    path = tmp_path_factory.mktemp("peft") / "model.onnx"
    onnx.save(model, path)
    return path


def logits(program):
    empty = {f"past_key_values.{i}.{part}": np.zeros((2, 2, 0, 16), np.float32) for i in range(2) for part in ("key", "value")}
    feed = {"input_ids": WORDS, "attention_mask": np.ones_like(WORDS), **empty}
    return og.Executor().run(program, {v.name: feed[v.name] for v in program.inputs}, ["logits"])[0]


def test_the_pytorch_model_has_the_weights_of_the_file(file):
    np.testing.assert_allclose(logits(og.from_onnx(file)), np.load(PEFT / "base.npy"), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_peft(file, kind):
    program = og.from_onnx(file)
    names = load_peft(program, PEFT / kind)
    wanted = np.load(PEFT / kind / "logits.npy")
    np.testing.assert_allclose(logits(program), wanted, atol=1e-5)
    np.testing.assert_allclose(logits(merge_lora(program)), wanted, atol=1e-5)
    assert abs(wanted - np.load(PEFT / "base.npy")).max() > 0.3
    assert [p.name for p in program.parameters if p.trainable] == names


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_written_is_what_peft_loaded(file, packed, tmp_path):
    program = og.from_onnx(file)
    rng = np.random.default_rng(4)
    for label in add_lora(program, "all", rank=2, alpha=3):
        p = program.global_block().vars[label]
        p.set_value(rng.normal(0, 0.2, p.shape).astype(np.float32))
    save_peft(program, tmp_path, packed=packed)
    recorded = PEFT / ("from_onnxgrad_packed" if packed else "from_onnxgrad")
    assert json.loads((tmp_path / "adapter_config.json").read_text()) == json.loads((recorded / "adapter_config.json").read_text())
    ours, theirs = (read_tensors(folder / "adapter_model.safetensors").arrays for folder in (tmp_path, recorded))
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name])
    np.testing.assert_allclose(logits(program), np.load(recorded / "logits.npy"), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("base", ["llama", "phi3"])
def test_round_trips_keep_the_function(file, kind, base, tmp_path):
    """Of whichever modules they are"""
    program = og.from_onnx(file)
    load_peft(program, PEFT / kind)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": base}))
    save_peft(program, tmp_path / "out", base=str(tmp_path))
    again = og.from_onnx(file)
    load_peft(again, tmp_path / "out")
    np.testing.assert_allclose(logits(again), np.load(PEFT / kind / "logits.npy"), atol=1e-5)


def changed(tmp_path, rename=None, resize=None, **config):
    """A copy of a recorded folder with another module name, width or setting"""
    folder = tmp_path / "changed"
    shutil.copytree(PEFT / "llama", folder)
    path = folder / "adapter_model.safetensors"
    arrays = {name: np.array(array) for name, array in read_tensors(path).arrays.items()}
    if rename:
        arrays = {name.replace(*rename): array for name, array in arrays.items()}
    for part, width in (resize or {}).items():
        arrays = {name: np.resize(a, (width, a.shape[1])) if part in name else a for name, a in arrays.items()}
    write_tensors(path, arrays)
    settings = json.loads((folder / "adapter_config.json").read_text()) | config
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"rename": ("down_proj", "dawn_proj")}, UnknownName, r"adapts 'model.layers.0.mlp.dawn_proj' and 1 more, of shape \[64, \d+\].*"
                                                              r"nearest is 'model.layers.0.mlp.down_proj.MatMul.weight', of shape"),
        ({"rename": ("layers.1", "layers.7")}, UnknownName, r"'model.layers.7.mlp.down_proj' and 6 more"),
        ({"resize": {"1.self_attn.o_proj.lora_B": 60}}, UnknownName, r"'model.layers.1.self_attn.o_proj', of shape \[60, 64\].*nearest"),
        ({"resize": {"0.self_attn.k_proj.lora_B": 33}}, UnknownName, r"of the widths|have the widths"),
        ({"use_dora": True}, ModelError, r"the sizes of '.*' do not match adapter_config.json \(use_dora\)"),
        ({"modules_to_save": ["lm_head"]}, ModelError, "modules that were trained whole"),
        ({"bias": "all"}, ModelError, "trains biases"),
        ({"peft_type": "IA3"}, ModelError, "of the kind 'IA3'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(file, options, error, said, tmp_path):
    program = og.from_onnx(file)
    with pytest.raises(error, match=said):
        load_peft(program, changed(tmp_path, **options))


def test_another_folder_is_refused(file, tmp_path):
    with pytest.raises(ModelError, match=r"does not hold adapter_config.json and adapter_model.safetensors"):
        load_peft(og.from_onnx(file), tmp_path)
    with pytest.raises(ArgumentError, match="has no LoRA branches"):
        save_peft(og.from_onnx(file), tmp_path)


def test_training_goes_on_from_an_adapter(file):
    program = og.from_onnx(file)
    names = load_peft(program, PEFT / "llama")
    trainer = Trainer(program, loss="causal_lm", trainable=names, optimizer="sgd", learning_rate=0.1)
    losses = [trainer.step({"input_ids": WORDS})["loss"] for _ in range(3)]
    assert losses[-1] < losses[0]


def test_from_the_command_line(file, tmp_path):
    """A run begins with PEFT's adapter, and what it exports is PEFT's again"""
    np.savez(tmp_path / "words.npz", input_ids=WORDS)
    what = ("--loss", "causal_lm", "--data", tmp_path / "words.npz", "--batch-size", "2", "--epochs", "1", "--lr", "0")
    command("train", file, "--adapter", PEFT / "llama", *what, "--optimizer", "sgd", "--out", tmp_path / "run")
    assert "have a rank and layers of their own" in command(
        "train", file, "--adapter", PEFT / "llama", "--lora", "2", *what, "--out", tmp_path / "no", code=2
    )
    said = command("export", tmp_path / "run", "--peft", tmp_path / "out")
    assert "adapter_config.json" in said and "adapter_model.safetensors" in said
    ours, theirs = (read_tensors(folder / "adapter_model.safetensors").arrays for folder in (tmp_path / "out", PEFT / "llama"))
    again = og.from_onnx(file)
    load_peft(again, tmp_path / "out")
    np.testing.assert_allclose(logits(again), np.load(PEFT / "llama" / "logits.npy"), atol=1e-5)
    assert ours.keys() == theirs.keys()
    tuned = tmp_path / "tuned.onnx"
    command("export", tmp_path / "run", "--inference", tuned)
    np.testing.assert_allclose(logits(og.from_onnx(tuned)), np.load(PEFT / "llama" / "logits.npy"), atol=1e-5)
