"""The subcommands, as a user types them."""

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

from onnxgrad.cli.common import print_notes
from onnxgrad.cli.main import _COMMANDS, main
from onnxgrad.core.step.split import files_of
from tests.cli.command import command, start
from tests.training import quantised
from tests.training.small import data, model

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "models" / "digits" / "digits.onnx"
REAL = ROOT / "tests" / "data" / "real_models" / "torch" / "gru_clf-dyn18"


@pytest.fixture
def files(tmp_path):
    """A model, training and validation data."""
    onnx.save(model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "train.npz", x=data(200)["x"], y=data(200)["target"])
    np.savez(tmp_path / "val.npz", x=data(60, seed=2)["x"], y=data(60, seed=2)["target"])
    return tmp_path


def train(files, *more, **options):
    what = ["--data", files / "train.npz", "--target", "y", "--loss", "cross_entropy", "--lr", "0.02"]
    return command("train", files / "m.onnx", *what, *more, **options)


def epochs_in(text):
    """Rows of epochs among lines of JSON"""
    return [row for row in map(json.loads, text.splitlines()) if row["event"] == "epoch"]


@pytest.mark.process
def test_output_that_nobody_reads_ends_the_command_silently():
    """As ``onnxgrad info MODEL | head``"""
    process = start("info", DIGITS)
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), said) == (141, "")


class TestRunsAsModels:
    """What takes a model takes the folder of a run, and sees what export writes of it."""

    @pytest.fixture
    def trained(self, files):
        train(files, "--lora", "2", "--epochs", "1", "--out", files / "run")
        command("export", files / "run", "--inference", files / "tuned.onnx")
        return files

    @pytest.mark.parametrize("words", [["info"], ["check", "--seed", "1"]], ids=lambda words: words[0])
    def test_sees_the_exported_model(self, trained, words):
        shown = {name: command(words[0], trained / name, *words[1:]) for name in ("run", "tuned.onnx")}
        assert shown["run"] == shown["tuned.onnx"]

    def test_gradients_are_those_of_the_exported_weights(self, trained):
        x = np.load(trained / "val.npz")["x"][:3]
        results = []
        for name in ("run", "tuned.onnx"):
            command("grad", trained / name, "-o", trained / "g.onnx", "--wrt", "x")
            results.append(onnxruntime.InferenceSession(trained / "g.onnx").run(None, {"x": x}))
        assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))

    def test_a_folder_without_a_run_is_named(self, tmp_path):
        assert f"'{tmp_path}' is a folder" in command("info", tmp_path, code=1)


class TestNotes:
    def test_are_three_lines_at_most_unless_all_are_asked_for(self, capsys):
        print_notes(["a", "b", "a", "c", "d"], False)
        assert capsys.readouterr().out.splitlines() == [
            *("note: a", "note: b", "note: 2 more notes on how model and data are interpreted (--explain)"),
        ]
        print_notes(["a", "b", "c", "a"], False)
        print_notes(["a", "b", "c", "d", "d"], True)
        assert capsys.readouterr().out.splitlines() == [f"note: {letter}" for letter in "abcabcd"]

    def test_a_run_says_each_once(self, files):
        what = ("--batch-norm", "train", "--metric", "accuracy", "--epochs", 1)
        short, whole = (train(files, *what, *more, "--out", files / name) for more, name in (((), "a"), (("--explain",), "b")))
        notes = [[line for line in said.splitlines() if line.startswith("note: ")] for said in (short, whole)]
        assert len(notes[0]) <= 3 and len(set(notes[1])) == len(notes[1]) and set(notes[0][:2]) <= set(notes[1])


class TestHelp:
    @pytest.mark.parametrize("name", ["info", "check", "grad", "train", "export"])
    def test_shows_examples(self, name):
        shown = command(name, "--help")
        assert "examples:" in shown and f"\n  onnxgrad {name} " in shown

    def test_wrong_usage_is_2(self):
        assert "invalid choice" in command("dance", code=2)
        assert "required" in command(code=2)
        assert "onnxgrad 0." in command("--version")

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["train", "--batchsize", "3"], "error: unrecognized arguments: --batchsize. Did you mean --batch-size? "),
            (["info", "m.onnx", "\x1b[2J"], "error: unrecognized arguments: \\x1b[2J. "),
            (["train", "--epochs", "x"], "error: argument --epochs: invalid int value: 'x'. "),
            (["export"], "error: the following arguments are required: "),
        ],
    )
    def test_wrong_options_are_one_line(self, words, said):
        """Twenty-seven lines of usage stood before it."""
        shown = command(*words, code=2)
        assert shown.startswith(said) and shown.endswith(f"See onnxgrad {words[0]} --help.\n") and shown.count("\n") == 1

    def test_every_module_that_runs_is_a_command(self):
        shown = command("--help")
        for path in sorted((ROOT / "onnxgrad" / "cli").glob("*.py")):
            if "\ndef run(options" in path.read_text():
                assert f"\n    {path.stem.replace('_', '-')}" in shown

    @pytest.mark.process
    @pytest.mark.parametrize(
        "words",
        [
            *(f"{command} --help" for command in _COMMANDS),
            *("--help", "--version", "info", "train --loss nothing", "train --no-such"),
        ],
    )
    def test_help_and_wrong_usage_import_nothing_that_computes(self, words):
        code = (
            "import sys\nfrom onnxgrad.cli.main import main\n"
            f"try: main({words.split()})\nexcept SystemExit: print(*sys.modules, file=open(1, 'w', closefd=False))"
        )
        done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        *shown, modules = done.stdout.splitlines()
        assert shown or "error" in done.stderr
        own = {name for name in modules.split() if name.split(".")[0] == "onnxgrad"}
        asked = words.split()[0].replace("-", "_")
        assert own <= {
            *("onnxgrad", "onnxgrad.errors", "onnxgrad.version"),
            *(f"onnxgrad.internal{name}" for name in ("", ".collector", ".late", ".refusals", ".words")),
            *(f"onnxgrad.cli{name}" for name in ("", ".main", ".options", ".options.shared", f".options.{asked}")),
        }
        assert len(modules.split()) < 150


class TestErrors:
    """One line and an exit code, whatever a file holds."""

    def test_a_damaged_file_of_arrays(self, files):
        (files / "bad.npz").write_bytes(b"PK\3\4 and then nothing")
        assert "is not an .npz file of plain arrays" in command("check", files / "m.onnx", "--feeds", files / "bad.npz", code=1)
        (files / "train.npz").write_bytes((files / "bad.npz").read_bytes())
        said = train(files, "--out", files / "run", code=1)
        assert said.startswith("error:") and said.count("\n") == 1

    def test_a_damaged_model(self, files):
        data = (files / "m.onnx").read_bytes()
        (files / "cut.onnx").write_bytes(data[: len(data) // 2])
        said = command("info", files / "cut.onnx", code=1)
        assert said.startswith("error:") and said.count("\n") == 1

    def test_control_characters_are_shown_and_not_sent(self, files):
        model = onnx.load(files / "m.onnx")
        model.producer_name = "\x1b[2Jwiped \x9b1m\u4e2d"
        onnx.save(model, files / "odd.onnx")
        assert "\\x1b[2Jwiped \\x9b1m\u4e2d" in command("info", files / "odd.onnx")
        model.graph.node[0].op_type = "\x1b[2J"
        onnx.save(model, files / "odd.onnx")
        assert "\x1b" not in command("check", files / "odd.onnx", code=1)

    def test_damaged_settings(self, files):
        (files / "run").mkdir()
        for content in ("[]", "{", "{}"):
            (files / "run" / "settings.json").write_text(content)
            assert "is damaged" in command("train", "--resume", files / "run", code=2)
        (files / "run" / "settings.json").write_text(json.dumps({"model": str(files / "m.onnx")}))
        assert "has no entry 'expand'" in command("train", "--resume", files / "run", code=2)

    @pytest.mark.parametrize("debug", [[], ["--debug"]])
    def test_an_error_of_our_own_is_one_line_unless_it_is_debugged(self, files, debug, monkeypatch, capsys):
        def broken(path, expand=None):
            raise KeyError("shape")

        monkeypatch.setattr("onnxgrad.cli.common.from_onnx", broken)
        arguments = ["info", str(files / "m.onnx"), *debug]
        if debug:
            with pytest.raises(KeyError):
                main(arguments)
            return
        assert main(arguments) == 1
        said = capsys.readouterr().err
        assert said.startswith("error: onnxgrad failed (KeyError: 'shape'). Run it again with --debug") and said.count("\n") == 1
        monkeypatch.setenv("ONNXGRAD_DEBUG", "1")
        with pytest.raises(KeyError):
            main(arguments)


class TestInfo:
    def test_input_that_the_first_output_does_not_need_is_named(self, files):
        text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] a, float[N, 2] b) => (float[N, 2] y, float[N, 2] z) {'
        onnx.save(parse_model(text + "y = Relu(a) z = Add(a, b) }"), files / "two.onnx")
        assert "note: a loss of 'y' does not need the input 'b'." in command("info", files / "two.onnx")

    def test_digits(self):
        shown = command("info", DIGITS, "--dim", "batch=64")
        for text in (
            "input   image: float32[batch, 1, 8, 8]",
            "151,402 parameters in 10 tensors (10 trainable), 605.6 kB",
            "opset ai.onnx 21",
        ):
            assert text in shown
        assert "2 BatchNormalization, 1 Dropout" in shown and "configures BatchNormalization input 3" in shown

    @pytest.mark.parametrize("name, folded", [("mobilenetv2-dyn18", True), ("mobilenetv2-legacy13", False)])
    def test_folded_normalization_is_suspected(self, name, folded):
        assert ("none of 10 convolutions is normalised" in command("info", REAL.parent / name / "model.onnx")) == folded

    def test_memory_grows_with_the_batch(self):
        small, large = (json.loads(command("info", DIGITS, "--json", "--dim", f"batch={n}"))["memory"] for n in (1, 10))
        assert large["results_and_their_gradients"] == 10 * small["results_and_their_gradients"]
        assert small["weights_gradients_and_adam"] == 4 * 605608 and large["dimensions_taken_as_1"] == []

    def test_real_file_as_json(self):
        found = json.loads(command("info", REAL / "model.onnx", "--json"))
        stored = onnx.load(REAL / "model.onnx")
        assert [v["name"] for v in found["inputs"]] == [v.name for v in stored.graph.input]
        assert found["parameters"]["count"] == len(found["parameters"]["weights"]) > 3

    def test_merged_and_split_weights_are_named(self, tmp_path):
        text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 4] x) => (float[N, 4] y) { a = MatMul(x, w) b = MatMul(a, w) y = MatMul(b, v) }'
        made = parse_model(text)
        w = np.random.default_rng(0).normal(0, 1, (4, 4)).astype("f4")
        made.graph.initializer.extend([numpy_helper.from_array(w, "w"), numpy_helper.from_array(w.T.copy(), "v")])
        onnx.save(made, tmp_path / "t.onnx")
        shown = command("info", tmp_path / "t.onnx")
        assert "w is read by 2 operators" in shown and "w and v are equal but transposed" in shown

    def test_no_such_file(self, tmp_path):
        assert command("info", tmp_path / "no.onnx", code=1).startswith("error: there is no file")
        (tmp_path / "bad.onnx").write_bytes(b"\x08\x01nothing")
        assert "error:" in command("info", tmp_path / "bad.onnx", code=1)


class TestCheck:
    @pytest.mark.parametrize("what", [[DIGITS], [REAL / "model.onnx", "--feeds", REAL / "feed.npz"]], ids=["digits", "real"])
    def test_right_gradients_agree(self, what):
        found = json.loads(command("check", *what, "--json"))
        assert found["differentiable"] and len(found["numeric"]) >= 4
        assert all(row["right"] is True and row["gradient"] != 0 for row in found["numeric"])
        assert "every gradient can be written" in command("check", *what, "--no-numeric")

    @pytest.mark.process
    def test_a_refused_operator_is_named_and_the_answer_is_no(self, tmp_path):
        text = '<ir_version: 8, opset_import: ["": 17, "acme": 1]> f (float[N] x) => (float[N] y) { y = acme.Spin(x) }'
        onnx.save(parse_model(text), tmp_path / "m.onnx")
        process = start("check", tmp_path / "m.onnx")
        out, _ = process.communicate()
        assert process.returncode == 1 and "acme:Spin" in out and "refused: 1" in out

    def test_wrong_arguments(self):
        assert "fits no parameter" in command("check", DIGITS, "--wrt", "tail.*", code=2)
        assert "--dim takes NAME=SIZE" in command("check", DIGITS, "--dim", "batch", code=2)


class TestGrad:
    def test_inner_tensor_and_input(self, files):
        command("grad", files / "m.onnx", "--of", "hidden", "--wrt", "x", "body.bias", "-o", files / "g.onnx")
        session = onnxruntime.InferenceSession(files / "g.onnx")
        x = data(5)["x"]
        hidden, gx, gb = session.run(None, {"x": x})
        weight = numpy_helper.to_array(next(i for i in model().graph.initializer if i.name == "body.weight"))
        np.testing.assert_allclose(gx, np.tile(weight.sum(0), (5, 1)), rtol=1e-5)
        np.testing.assert_allclose(gb, np.full(8, 5.0))
        assert hidden.shape == (5, 8)

    def test_of_an_inner_tensor_with_respect_to_an_inner_tensor(self, files):
        found = json.loads(command("grad", files / "m.onnx", "--of", "scores", "--wrt", "active", "-o", files / "g.onnx", "--json"))
        assert [v["name"] for v in found["outputs"]] == ["scores", "active@GRAD"]

    def test_cotangents_are_inputs(self, files):
        shown = command("grad", files / "m.onnx", "--wrt", "x", "--cotangent", "-o", files / "g.onnx")
        assert "scores@COTANGENT" in shown
        x, c = data(5)["x"], np.zeros((5, 3), "f4")
        found = onnxruntime.InferenceSession(files / "g.onnx").run(None, {"x": x, "scores@COTANGENT": c})
        np.testing.assert_array_equal(found[1], np.zeros((5, 4)))

    def test_real_file(self, tmp_path):
        command("grad", REAL / "model.onnx", "-o", tmp_path / "g.onnx")
        onnx.checker.check_model(tmp_path / "g.onnx")

    @pytest.mark.parametrize("behind", ["p = Softmax (z)  y = Identity (p)", "y = Softmax (z)"])
    def test_the_sum_of_probabilities_is_not_differentiated(self, files, behind):
        text = f"""<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] x) => (float[N, 3] y) <float[2, 3] w = {{1, 2, -1, 0.5, 0, 1}}>
                   {{ z = MatMul (x, w)  {behind} }}"""
        onnx.save(parse_model(text), files / "p.onnx")
        x, w = np.array([[0.5, -1.0]], np.float32), np.array([[1, 2, -1], [0.5, 0, 1]])
        p = np.exp(x @ w) / np.exp(x @ w).sum()

        def found(*more):
            shown = command("grad", files / "p.onnx", "--wrt", "x", "-o", files / "g.onnx", *more)
            session = onnxruntime.InferenceSession(files / "g.onnx")
            return shown, dict(zip([v.name for v in session.get_outputs()], session.run(None, {"x": x}), strict=True))

        shown, results = found()
        assert "note: y comes from Softmax, so its sum is constant" in shown and list(results) == ["y", "z", "x@GRAD"]
        np.testing.assert_allclose(results["x@GRAD"], w.sum(1)[None], rtol=1e-5)
        np.testing.assert_allclose(results["y"], p, rtol=1e-5)
        shown, results = found("--class", "2", "--of", "y")
        assert "note" not in shown
        np.testing.assert_allclose(results["x@GRAD"], (p[0, 2] * (np.eye(3)[2] - p)) @ w.T, rtol=1e-4)
        wrong = ["grad", files / "p.onnx", "-o", files / "g.onnx", "--class"]
        assert "y has the classes 0 to 2" in command(*wrong, "3", code=2)
        assert "Give one of them" in command(*wrong, "1", "--cotangent", code=2)
        assert "nothing called 'q'" in command(*wrong, "1", "--of", "q", "y", code=2)

    def test_unknown_names(self, files):
        assert "nothing called 'z'" in command("grad", files / "m.onnx", "--wrt", "z", "-o", files / "g.onnx", code=2)
        assert not (files / "g.onnx").exists()


class TestTrain:
    def test_train_and_export(self, files):
        shown = train(
            files, "--val", files / "val.npz", "--metric", "accuracy", "--epochs", "6", "--curves", "--out", files / "run"
        )
        assert "read as logits" in shown and "epoch 6/6" in shown and "val_accuracy" in shown
        with (files / "run" / "history.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert float(rows[-1]["val_loss"]) < float(rows[0]["val_loss"])
        assert (files / "run" / "curves.png").exists()
        (files / "m.onnx").unlink()
        command("export", files / "run", "--inference", files / "tuned.onnx", "--training-step", files / "step.onnx")
        scores = onnxruntime.InferenceSession(files / "tuned.onnx").run(None, {"x": data(60, seed=2)["x"]})[0]
        best = min(rows, key=lambda row: float(row["val_loss"]))
        assert (scores.argmax(1) == data(60, seed=2)["target"]).mean() == pytest.approx(float(best["val_accuracy"]))
        manifest = json.loads((files / "step.json").read_text())
        assert {entry["name"] for entry in manifest["feeds"]} == {"x", "y"}
        assert (
            onnxruntime.InferenceSession(files / "step.onnx").run(
                [manifest["fetches"][0]["name"]], {"x": data(8)["x"], "y": data(8)["target"]}
            )[0]
            > 0
        )

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            (("--device", "tpu"), "cuda:NUMBER or openvino, not 'tpu'"),
            (("--amp", "bf16"), "Give --device cuda:0 too"),
            (("--precision", "fast", "--device", "cuda:0"), "--precision fast is for --device cpu. Leave it out"),
            (("--precision", "bf16"), "--precision bf16 is for --device openvino. Leave it out"),
        ],
    )
    def test_devices_that_cannot_be_had_are_refused(self, files, options, reason):
        given = ("--data", files / "train.npz", "--target", "y", "--loss", "cross_entropy", "--out", files / "none")
        assert reason in command("train", files / "m.onnx", *given, *options, code=2)

    def test_options_beside_resume_are_those_of_the_run(self, files):
        """Also the values that options have where nobody names them"""
        train(files, "--epochs", "1", "--batch-size", "16", "--lora", "2", "--on", "*", "--out", files / "run")
        for more, message in (
            (["--batch-size", "32"], "leave out --batch-size, which has 16."),
            (["--accumulate", "2"], "leave out --accumulate, which has 1."),
            (["--on", "w"], "leave out --on, which has ['*']."),
            (["--precision", "fast"], "leave out --precision, which has f32."),
            (["--keep", "2"], "leave out --keep, which has 3."),
            (["--compare", "2"], "leave out --compare."),
        ):
            assert message in command("train", "--resume", files / "run", *more, code=2)
        same = ["--batch-size", "16", "--accumulate", "1", "--target", "y", "--data", files / "train.npz", "--on", "*"]
        assert "epoch 2/2" in command("train", "--resume", files / "run", "--more-epochs", "1", *same)

    @pytest.mark.process
    def test_resume_is_the_same_run(self, files):
        train(files, "--epochs", "4", "--out", files / "whole", "--ema", "0.9", "--schedule", "cosine")
        process = start("train", files / "m.onnx", "--data", files / "train.npz", "--target", "y", "--loss", "cross_entropy",
                        "--lr", "0.02", "--epochs", "4", "--out", files / "part", "--ema", "0.9", "--schedule", "cosine",
                        "--checkpoint-every", "2", "--threads", "1")  # fmt: skip
        assert any("epoch 1/4" in text for text in process.stdout)
        process.kill()
        process.communicate()
        command("train", "--resume", files / "part")
        for run in ("whole", "part"):
            command("export", files / run, "--checkpoint", "last", "--inference", files / f"{run}.onnx")
        assert (files / "whole.onnx").read_bytes() == (files / "part.onnx").read_bytes()
        assert (files / "whole" / "history.csv").read_text() == (files / "part" / "history.csv").read_text()

    @pytest.mark.process
    def test_a_finished_run_says_so_and_goes_on_if_asked(self, files):
        train(files, "--epochs", "2", "--out", files / "run")
        process = start("train", "--resume", files / "run")
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0 and err.startswith(
            "note: nothing is trained: the run has had 2 epochs, and total_epochs is 2"
        )
        assert "epoch 3/3" in command("train", "--resume", files / "run", "--more-epochs", "1")
        assert "epoch 4/4" in command("train", "--resume", files / "run", "--epochs", "4")
        assert "Give one of them" in command("train", "--resume", files / "run", "--epochs", "4", "--more-epochs", "1", code=2)
        assert "--more-epochs goes with --resume" in train(files, "--more-epochs", "1", "--out", files / "new", code=2)

    @pytest.mark.process
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)], ids=["ctrl-c", "terminated"])
    def test_a_signal_ends_cleanly_and_says_how_to_go_on(self, files, number, code):
        process = start("train", files / "m.onnx", "--data", files / "train.npz", "--target", "y", "--loss", "cross_entropy",
                        "--epochs", "100000", "--out", files / "run")  # fmt: skip
        assert any("epoch 2/" in text for text in process.stdout)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == code and "onnxgrad train --resume" in err and "Traceback" not in err
        assert (files / "run" / "last.safetensors").exists()

    def test_export_in_the_forms_of_a_provider(self, files):
        train(files, "--epochs", "1", "--out", files / "run")
        for name, more in (("plain", ()), ("lowered", ("--lowering", "cpu"))):
            command("export", files / "run", "--training-step", files / f"{name}.onnx", *more)
        plain, lowered = onnx.load(files / "plain.onnx"), onnx.load(files / "lowered.onnx")
        assert [v.name for v in plain.graph.output] == [v.name for v in lowered.graph.output]
        assert [node.op_type for node in plain.graph.node] != [node.op_type for node in lowered.graph.node]
        assert "invalid choice" in command("export", files / "run", "--training-step", "s.onnx", "--lowering", "gpu", code=2)
        assert "--training-step" in command("export", files / "run", "--inference", "s.onnx", "--lowering", "cpu", code=2)

    def test_export_in_two_parts_with_accumulation(self, files):
        train(files, "--epochs", "1", "--accumulate", "2", "--batch-norm", "train", "--out", files / "run")
        step = ("export", files / "run", "--training-step", files / "step.onnx", "--split")
        assert "batch_norm='sync'" in command(*step, code=2)
        command(*step, "--batch-norm", "sync")
        manifest = json.loads((files / "step.json").read_text())
        assert manifest["accumulate"] == 2 and len(manifest["gradients"]["stages"]) > 1
        assert {path.name for path in files.glob("step*")} == {*files_of(manifest), "step.json"}
        assert "--split" in command("export", files / "run", "--inference", "s.onnx", "--batch-norm", "sync", code=2)
        command("grad", files / "m.onnx", "--lowering", "cpu", "-o", files / "g.onnx")
        onnx.checker.check_model(onnx.load(files / "g.onnx"), full_check=True)

    def test_low_memory(self, files):
        for name, more in (("plain", ()), ("low", ("--memory", "low"))):
            train(files, "--epochs", "1", "--out", files / name, *more)
            command("train", "--resume", files / name, "--epochs", "2")
        losses = [(files / name / "history.csv").read_text().splitlines()[-1] for name in ("plain", "low")]
        assert losses[0] == losses[1]
        assert json.loads((files / "low" / "settings.json").read_text())["memory"] == "low"
        assert "invalid choice" in train(files, "--memory", "high", "--out", files / "other", code=2)

    def test_memory_budget(self, files):
        shown = train(files, "--memory-budget", "750kB", "--batch-size", "4096", "--epochs", "2", "--out", files / "run")
        assert "operators are recomputed" in shown and "kB without recomputation" in shown
        command("train", "--resume", files / "run", "--epochs", "3")
        err = train(files, "--memory-budget", "0.5kB", "--epochs", "1", "--out", files / "other", code=2)
        assert "smallest peak" in err and "Traceback" not in err
        assert "not a size" in train(files, "--memory-budget", "much", "--out", files / "other", code=2)

    def test_lora_with_a_new_head(self, files):
        what = ("--head", "3", "--lora", "2", "--on", "body.*", "--epochs", "3", "--out", files / "run")
        assert "parameters in 4 of" in train(files, *what)
        command("export", files / "run", "--inference", files / "t.onnx", "--adapters", files / "a.safetensors")
        names = {i.name for i in onnx.load(files / "t.onnx").graph.initializer}
        assert not any("lora" in name for name in names) and (files / "a.safetensors").exists()

    def test_normalization_put_behind_a_layer_resumes_and_is_folded_on_export(self, files):
        made = model()
        made.graph.node.remove(made.graph.node[1])
        made.graph.node[1].input[0] = "hidden"
        onnx.save(made, files / "m.onnx")
        train(files, "--batch-norm", "hidden", "--epochs", "2", "--out", files / "run")
        command("train", "--resume", files / "run", "--epochs", "3")
        command("export", files / "run", "--inference", files / "tuned.onnx")
        assert [node.op_type for node in onnx.load(files / "tuned.onnx").graph.node] == [n.op_type for n in made.graph.node]
        train(files, "--batch-norm", "hidden", "--epochs", "3", "--out", files / "whole")
        command("export", files / "whole", "--inference", files / "same.onnx")
        assert (files / "same.onnx").read_bytes() == (files / "tuned.onnx").read_bytes()

    def test_what_is_done_with_stored_statistics(self, files):
        made = model()
        for tensor in made.graph.initializer:
            if tensor.name == "body.mean":
                tensor.CopyFrom(numpy_helper.from_array(np.full(8, 0.3, np.float32), "body.mean"))
        onnx.save(made, files / "m.onnx")

        def means(run):
            command("export", files / run, "--checkpoint", "last", "--inference", files / "t.onnx")
            held = {i.name: numpy_helper.to_array(i) for i in onnx.load(files / "t.onnx").graph.initializer}
            return held["body.mean"]

        assert "note: BatchNormalization (1 operators) normalises by the statistics of the file" in train(
            files, "--epochs", "1", "--out", files / "small"
        )
        assert (means("small") == np.float32(0.3)).all()
        assert "updates the statistics" in train(files, "--epochs", "1", "--batch-norm", "train", "--out", files / "asked")
        assert (means("asked") != np.float32(0.3)).all()
        assert "takes no names" in train(files, "--batch-norm", "frozen", "hidden", "--out", files / "none", code=2)
        rows = data(10_000)
        np.savez(files / "train.npz", x=rows["x"], y=rows["target"])
        assert "updates the statistics" in train(files, "--epochs", "1", "--batch-size", "500", "--out", files / "large")
        assert "of the file" in train(files, "--epochs", "0", "--batch-size", "8", "--out", files / "narrow")
        # A run of a version that always trained them goes on doing so.
        settings = json.loads((files / "asked" / "settings.json").read_text())
        (files / "asked" / "settings.json").write_text(json.dumps({**settings, "batch_norm": None}))
        assert "updates the statistics" in command("train", "--resume", files / "asked", "--epochs", "2", "--accept-changed-data")

    def test_the_models_own_normalization_is_folded_if_asked(self, files):
        train(files, "--epochs", "1", "--out", files / "run")
        command("export", files / "run", "--inference", files / "tuned.onnx", "--fold")
        assert [node.op_type for node in onnx.load(files / "tuned.onnx").graph.node] == ["Gemm", "Relu", "Dropout", "Gemm"]

    def test_several_weighted_terms(self, files):
        made = model()
        made.graph.output.append(onnx.helper.make_tensor_value_info("hidden", 1, ["batch", 8]))
        onnx.save(made, files / "m.onnx")
        np.savez(files / "two.npz", x=data()["x"], y=data()["target"], h=np.zeros((40, 8), "f4"))
        shown = {}
        for weight in ("0", "0.5"):
            terms = ("--term", "cross_entropy", "scores", "y", "1", "--term", "mse", "hidden", "h", weight)
            what = (*terms, "--lr", "0", "--batch-size", "40", "--epochs", "1", "--json", "--out", files / f"run{weight}")
            shown[weight] = epochs_in(command("train", files / "m.onnx", "--data", files / "two.npz", *what))[0]["loss"]
        (hidden,) = onnxruntime.InferenceSession(files / "m.onnx").run(["hidden"], {"x": data()["x"]})
        assert shown["0.5"] - shown["0"] == pytest.approx(0.5 * (hidden**2).mean(), rel=1e-3)
        command("train", "--resume", files / "run0.5", "--epochs", "2")

    def test_the_layout_of_ctc(self, files):
        text = """<ir_version: 10, opset_import: ["": 21]> f (float[4, 4, 3] x) => (float[4, 4, 3] scores) <float[3] w = {1, 1, 1}>
                  { z = Mul (x, w)  scores = Transpose <perm = [1, 0, 2]> (z) }"""
        onnx.save(parse_model(text), files / "m.onnx")
        np.savez(files / "d.npz", x=np.ones((8, 4, 3), "f4"), y=np.tile([[1, 2]], (8, 1)))
        what = ["train", files / "m.onnx", "--data", files / "d.npz", "--target", "y", "--batch-size", "4", "--epochs", "1"]
        what += ["--out", files / "run"]
        assert "(--layout)" in command(*what, "--loss", "ctc", code=2)
        assert "--layout is for the losses ctc and cross_entropy" in command(*what, "--loss", "mse", "--layout", "TNC", code=2)
        assert "of shape [steps, batch, classes]" in command(*what, "--loss", "ctc", "--layout", "TNC")

    @pytest.mark.process
    def test_an_array_that_nothing_reads_is_named(self, files):
        with np.load(files / "train.npz") as given:
            np.savez(files / "train.npz", **given, weight=np.ones(200))
        what = ["--target", "y", "--loss", "cross_entropy", "--epochs", "1", "--out", files / "run"]
        _, err = start("train", files / "m.onnx", "--data", files / "train.npz", *what).communicate(timeout=120)
        assert err.startswith("note: nothing reads the data's 'weight'") and len(err.splitlines()) == 1

    @pytest.mark.process
    def test_what_looks_like_probabilities_is_pointed_out(self, files):
        text = """<ir_version: 10, opset_import: ["": 21]> f (float[N, 4] x) => (float[N, 3] y) <float[4, 3] w = {1,0,0, 0,1,0, 0,0,1, 0,0,0}>
                  { z = MatMul (x, w)  p = Softmax (z)  y = Relu (p) }"""
        onnx.save(parse_model(text), files / "m.onnx")
        what = ["--data", files / "train.npz", "--target", "y_", "--loss", "cross_entropy", "--epochs", "1", "--out", files / "run"]
        with np.load(files / "train.npz") as given:
            np.savez(files / "train.npz", x=given["x"], y_=given["y"])
        _, err = start("train", files / "m.onnx", *what).communicate(timeout=120)
        assert err.startswith("note: y is read as logits") and len(err.splitlines()) == 1

    def test_merged_weights_are_named_and_taken_apart(self, files):
        made = model()
        made.graph.node.insert(3, onnx.helper.make_node("Mul", ["active", "body.scale"], ["scaled"]))
        made.graph.node[4].input[0] = "scaled"
        onnx.save(made, files / "m.onnx")
        assert "note: body.scale is read by 2 operators" in train(files, "--epochs", "1", "--out", files / "a")
        assert "note: body.scale" not in train(files, "--epochs", "1", "--untie", "body.scale", "--out", files / "b")
        command("export", files / "b", "--inference", files / "t.onnx")
        weights = [i for i in onnx.load(files / "t.onnx").graph.initializer if i.name.startswith("body.scale")]
        assert len(weights) == 2 and (numpy_helper.to_array(weights[0]) != numpy_helper.to_array(weights[1])).any()

    def test_a_step_that_accumulates_is_one_file(self, files):
        train(files, "--accumulate", "3", "--epochs", "1", "--out", files / "run")
        command("export", files / "run", "--training-step", files / "step.onnx")
        manifest = json.loads((files / "step.json").read_text())
        assert {"micro_batch", "head.weight@ACCUMULATED"} <= {entry["input"] for entry in manifest["state"]}
        onnx.checker.check_model(onnx.load(files / "step.onnx"), full_check=True)

    def test_json_lines(self, files):
        rows = epochs_in(train(files, "--epochs", "2", "--out", files / "run", "--json"))
        assert [row["epoch"] for row in rows] == [1, 2]

    def test_digits(self, tmp_path):
        datasets = pytest.importorskip("sklearn.datasets")
        images, labels = datasets.load_digits(return_X_y=True)
        images = (images / 16).astype("f4").reshape(-1, 1, 8, 8)
        np.savez(tmp_path / "d.npz", image=images[:512], digit=labels[:512])
        command("train", DIGITS, "--data", tmp_path / "d.npz", "--target", "digit", "--loss", "cross_entropy", "--metric",
                "accuracy", "--lr", "3e-3", "--epochs", "3", "--out", tmp_path / "run")  # fmt: skip
        command("export", tmp_path / "run", "--inference", tmp_path / "t.onnx")
        logits = onnxruntime.InferenceSession(tmp_path / "t.onnx").run(None, {"image": images[512:]})[0]
        assert (logits.argmax(1) == labels[512:]).mean() > 0.8

    def test_real_file(self, tmp_path):
        with np.load(REAL / "feed.npz") as file:
            feed = dict(file)
        np.savez(tmp_path / "d.npz", **{("target" if name == "__target" else name): array for name, array in feed.items()})
        what = (
            "--data",
            tmp_path / "d.npz",
            "--loss",
            "cross_entropy",
            "--lr",
            "0.02",
            "--epochs",
            "20",
            "--out",
            tmp_path / "run",
        )
        rows = epochs_in(command("train", REAL / "model.onnx", *what, "--json"))
        assert rows[-1]["loss"] < 0.5 * rows[0]["loss"]

    def test_a_model_that_no_loss_fits(self, tmp_path):
        forest = REAL.parents[1] / "sklearn" / "sk-forest" / "model.onnx"
        np.savez(tmp_path / "d.npz", x=np.zeros(1))
        for loss, code in (("cross_entropy", 2), ("mse", 2)):
            said = command("train", forest, "--data", tmp_path / "d.npz", "--loss", loss, "--out", tmp_path / "run", code=code)
            assert said.startswith("error: ") and len(said.splitlines()) == 1

    @pytest.mark.parametrize(
        ("more", "message", "code"),
        [
            (["--target", "label"], "no column 'label'", 1),
            (["--train", "tail.*"], "fits no parameter", 2),
            (["--head", "2"], "holds the label 2; the output has classes 0 to 1", 1),
            (["--loss", "mse"], "column 'y' has shape", 1),
            (["--term", "mse", "scores", "y", "1"], "--term replaces --loss", 2),
            (["--tie", "body.weight", "head.weight"], "hold different numbers", 2),
            (["--untie", "nowhere"], "no weight 'nowhere'", 2),
            (["--dropout", "0.1"], "--dropout needs --dropout-after", 2),
            (["--of", "nowhere"], "no output 'nowhere'", 2),
            (["--loss", "hinge"], "invalid choice", 2),
            (["--val", "none.npz"], "there is no file", 1),
        ],
    )
    def test_bad_input_is_one_line(self, files, more, message, code):
        said = train(files, "--out", files / "run", *more, code=code)
        assert message in said and "Traceback" not in said
        assert code == 2 or len(said.splitlines()) == 1

    def test_folders(self, files):
        train(files, "--epochs", "1", "--out", files / "run")
        assert "holds a run already" in train(files, "--epochs", "1", "--out", files / "run", code=1)
        assert "there is no settings.json" in command("train", "--resume", files / "none", code=2)
        assert "leave out the model" in command("train", files / "m.onnx", "--resume", files / "run", code=2)
        assert "leave out --lr, which has 0.02." in command("train", "--resume", files / "run", "--lr", "0.1", code=2)
        nowhere = command("export", files / "run", "--inference", files / "no" / "x.onnx", code=1)
        assert nowhere == f"error: cannot use '{files}/no/x.onnx': No such file or directory.\n"
        (files / "text.npz").write_text("hello")
        said = train(files, "--data", files / "text.npz", "--out", files / "other", code=1)
        assert said.endswith("text.npz' is not an .npz file of plain arrays. Write it with numpy.savez.\n")
        missing = ("--data", files / "train.npz", "--loss", "mse", "--out", files / "other")
        assert command("train", files / "no.onnx", *missing, code=1).endswith("no.onnx'. Name an .onnx file.\n")
        assert "train needs --out" in train(files, code=2)
        assert "choose a file to write" in command("export", files / "run", code=2)
        assert "no checkpoint" in command("export", files / "run", "--checkpoint", "x", "--inference", "y.onnx", code=1)
        assert "no LoRA branches" in command("export", files / "run", "--adapters", files / "a.safetensors", code=2)
        damaged = files / "run" / "last.safetensors"
        damaged.unlink()
        damaged.write_bytes(b"nothing")
        assert "not a readable checkpoint" in command("train", "--resume", files / "run", code=1)


class TestQuantised:
    def test_integers_are_trained_and_written_again(self, tmp_path):
        path = quantised.static("perceptron", tmp_path, per_channel=True)
        np.savez(tmp_path / "d.npz", **quantised.data("perceptron"))
        options = ["--data", tmp_path / "d.npz", "--loss", "cross_entropy", "--lr", "0.005", "--epochs", 4, "--batch-size", 16]
        said = command("train", path, *options, "--out", tmp_path / "run")
        assert "quantised weights, biases and scales are trained" in said
        with (tmp_path / "run" / "history.csv").open() as file:
            losses = [float(row["loss"]) for row in csv.DictReader(file)]
        assert losses[-1] < 0.95 * losses[0]
        command("export", tmp_path / "run", "--inference", tmp_path / "a.onnx")
        command("export", tmp_path / "run", "--inference", tmp_path / "b.onnx", "--observe", tmp_path / "d.npz")
        files = [
            {i.name: numpy_helper.to_array(i) for i in onnx.load(p).graph.initializer}
            for p in (path, *sorted(tmp_path.glob("?.onnx")))
        ]
        for file in files[1:]:
            assert file.keys() == files[0].keys()
            assert not np.array_equal(file["w1_quantized"], files[0]["w1_quantized"]) and file["w1_quantized"].dtype == np.int8
        assert not np.array_equal(files[1]["m1_scale"], files[2]["m1_scale"])
        fixed = command("train", path, *options, "--quantized", "fixed", "--out", tmp_path / "fixed")
        assert " parameters in 5 of 5 tensors" in fixed
        assert "is for --inference" in command("export", tmp_path / "run", "--adapters", "a", "--observe", "d.npz", code=2)
        operators = quantised.static("perceptron", tmp_path, qdq=False)
        assert "--quantized integers" in command("train", operators, *options, "--out", tmp_path / "other", code=2)
