"""Options from a file: the same run as by the command line, which overrules it."""

import json

import pytest

from tests.cli.command import command
from tests.cli.test_commands import files, train  # noqa: F401

TOML = """
model = "{0}/m.onnx"
data = "{0}/train.npz"
target = "y"
loss = "cross_entropy"
lr = 0.02
batch-size = 50
epochs = 2
metric = ["accuracy", "f1"]
rate = [["head.*", "2"]]
clip_norm = 1
no-report = true
memory-budget = "2GB"
"""


def rows(folder):
    return (folder / "history.jsonl").read_text()


def settings(folder):
    return json.loads((folder / "settings.json").read_text())


def test_is_the_run_of_the_same_options(files):  # noqa: F811
    (files / "s.toml").write_text(TOML.format(files))
    command("train", "--config", files / "s.toml", "--out", files / "a")
    more = ["--batch-size", 50, "--epochs", 2, "--metric", "accuracy", "f1", "--rate", "head.*", 2, "--clip-norm", 1, "--no-report"]
    train(files, *more, "--memory-budget", "2GB", "--out", files / "b")
    assert settings(files / "a") == settings(files / "b") and rows(files / "a") == rows(files / "b")


def test_settings_of_a_run_are_a_file(files):  # noqa: F811
    train(files, "--epochs", 1, "--metric", "accuracy", "--clip-norm", 1, "--out", files / "a")
    command("train", "--config", files / "a" / "settings.json", "--out", files / "b")
    assert settings(files / "a") == settings(files / "b") and rows(files / "a") == rows(files / "b")


@pytest.mark.parametrize("first", [True, False])
def test_the_command_line_overrules_it_on_either_side(files, first):  # noqa: F811
    (files / "s.toml").write_text(TOML.format(files))
    config, more = ["--config", files / "s.toml"], ["--epochs", 5, "--batch-size", 32, "--out", files / "a"]
    command("train", *(config + more if first else more + config), "--max-steps", 3)
    assert (
        settings(files / "a")["epochs"] == 5 and settings(files / "a")["batch_size"] == 32 and settings(files / "a")["lr"] == 0.02
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epoch = 3", "there is no option 'epoch'. Did you mean 'epochs'?"),
        ("epochs = 3.5", "epochs is a whole number, not 3.5"),
        ("epochs = true", "epochs is one value, not True"),
        ("flip = 1", "flip is true or false, not 1"),
        ("loss = 'mseloss'", "loss is one of "),
        ("lr = 'fast'", "lr cannot be 'fast'"),
        ("rate = [['a']]", "rate has 2 entries, not 1"),
        ("term = 'mse'", "term is a list, not 'mse'"),
        ("memory-budget = 'much'", "memory-budget cannot be 'much': not a size"),
        ("= 3", "is not valid TOML"),
        ("[loss]\nname = 'mse'", "loss is one value, not {'name': 'mse'}"),
        ("config = 'other.toml'", "there is no option 'config'"),
    ],
)
def test_an_unsound_one_is_refused(tmp_path, text, said):
    (tmp_path / "s.toml").write_text(text)
    assert said in command("train", "--config", tmp_path / "s.toml", code=2)


def test_other_files_are_refused(tmp_path):
    assert "takes a .toml or .json file" in command("train", "--config", tmp_path / "s.yaml", code=2)
    assert "there is no file" in command("train", f"--config={tmp_path / 's.toml'}", code=2)
    (tmp_path / "s.json").write_text("[1]")
    assert "holds no options by name" in command("train", "--config", tmp_path / "s.json", code=2)
