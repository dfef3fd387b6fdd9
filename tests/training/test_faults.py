"""What happens around a run: its data changes, somebody else wants its folder, the folder cannot be written."""

import errno
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnxgrad.cli.main import main
from onnxgrad.errors import TrainingError
from onnxgrad.internal.tensor_file import read_metadata
from onnxgrad.training import Trainer
from onnxgrad.training.run import lock
from onnxgrad.training.run.folder import RunFolder
from onnxgrad.training.run.position import position_of
from tests.training.small import assert_equal, data, model, weights

ROOT = Path(__file__).parents[2]


def trainer(**options):
    return Trainer(model(), **{"loss": "cross_entropy", "learning_rate": 0.02, **options})


def save(path, count=40, seed=1):
    np.savez(path, **data(count, seed))
    return path


class TestChangedData:
    @pytest.fixture
    def run(self, tmp_path):
        """A run of one epoch on files."""
        given = {"data": save(tmp_path / "train.npz"), "validation": save(tmp_path / "val.npz", 9, 3), "batch_size": 8}
        trainer().fit(**given, epochs=1, out=tmp_path / "run")
        return given, tmp_path / "run"

    def test_the_same_files_go_on(self, run):
        given, out = run
        assert len(trainer().fit(**given, total_epochs=2, out=out, resume=True)) == 2

    def test_a_copy_elsewhere_is_the_same_file(self, run, tmp_path):
        given, out = run
        os.rename(given["data"], tmp_path / "moved.npz")
        moved = {**given, "data": str(tmp_path / "moved.npz")}
        assert len(trainer().fit(**moved, total_epochs=2, out=out, resume=True)) == 2

    @pytest.mark.parametrize(("which", "name"), [("data", "train.npz"), ("validation", "val.npz")])
    @pytest.mark.parametrize("count", [None, 50], ids=["content", "size"])
    def test_another_content_is_refused_and_changes_nothing(self, which, name, count, run):
        given, out = run
        save(given[which], count or (40 if which == "data" else 9), seed=7)
        t = trainer()
        before = {key: value.copy() for key, value in weights(t).items()}
        with pytest.raises(TrainingError, match=rf"the file '{name}' \({which}\) has changed since the run: .* continue with"):
            t.fit(**given, total_epochs=2, out=out, resume=True)
        assert_equal(weights(t), before)
        assert t.epoch == 0

    def test_one_flag_accepts_it_once_and_for_all(self, run):
        given, out = run
        save(given["data"], 40, seed=7)
        assert len(trainer().fit(**given, total_epochs=2, out=out, resume=True, accept_changed_data=True)) == 2
        assert len(trainer().fit(**given, total_epochs=3, out=out, resume=True)) == 3

    def test_what_is_recorded(self, run):
        given, out = run
        files = position_of(read_metadata(out / "last.safetensors"), out).files
        assert files["data"]["name"] == "train.npz" and files["data"]["size"] == given["data"].stat().st_size
        assert len(files["validation"]["sha256"]) == 64

    def test_arrays_are_not_recorded(self, tmp_path):
        trainer().fit(data(), 1, out=tmp_path)
        assert position_of(read_metadata(tmp_path / "last.safetensors"), tmp_path).files == {}

    def test_the_command(self, tmp_path, capsys):
        onnx.save(model(), tmp_path / "m.onnx")
        run = str(tmp_path / "run")
        what = ["--data", str(save(tmp_path / "train.npz")), "--loss", "cross_entropy", "--epochs", "1", "--out", run]
        assert main(["train", str(tmp_path / "m.onnx"), *what]) == 0
        save(tmp_path / "train.npz", 40, seed=7)
        capsys.readouterr()
        assert main(["train", "--resume", run, "--more-epochs", "1"]) == 1
        said = capsys.readouterr().err
        assert said.startswith("error: the file 'train.npz' (data) has changed since the run") and "--accept-changed-data" in said
        assert main(["train", "--resume", run, "--more-epochs", "1", "--accept-changed-data"]) == 0
        assert main(["train", str(tmp_path / "m.onnx"), *what, "--accept-changed-data"]) == 2


HOLDING = """
import sys
from onnxgrad.training.run.folder import RunFolder
with RunFolder(sys.argv[1]):
    print("holds", flush=True)
    sys.stdin.read()
"""


def holding(folder):
    """A process that holds a folder until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout.readline() == "holds\n"
    return process


class TestTwoProcesses:
    @pytest.mark.process
    @pytest.mark.parametrize("system", [True, False], ids=["with locks", "without"])
    def test_the_second_is_told_who_holds_the_folder(self, system, tmp_path, monkeypatch):
        if not system:
            monkeypatch.setattr(lock, "_lock_by_system", lambda file: None)
        process = holding(tmp_path)
        try:
            said = rf"another process trains in .* already \(process {process.pid}\)\. Choose another folder, or wait for it"
            with pytest.raises(TrainingError, match=said), RunFolder(tmp_path):
                pass
        finally:
            process.communicate("")
        with RunFolder(tmp_path):
            pass

    @pytest.mark.process
    @pytest.mark.parametrize("system", [True, False], ids=["with locks", "without"])
    def test_a_process_that_was_killed_holds_nothing(self, system, tmp_path, monkeypatch):
        process = holding(tmp_path)
        process.kill()
        process.communicate()
        assert (tmp_path / "run.lock").read_text().startswith(str(process.pid))
        if not system:
            monkeypatch.setattr(lock, "_lock_by_system", lambda file: None)
        with RunFolder(tmp_path):
            assert (tmp_path / "run.lock").read_text().startswith(f"{os.getpid()} ")
        assert (tmp_path / "run.lock").read_text() == ""

    def test_one_of_another_machine_is_not_guessed_at(self, tmp_path, monkeypatch):
        monkeypatch.setattr(lock, "_lock_by_system", lambda file: None)
        (tmp_path / "run.lock").write_text("123 elsewhere")
        with pytest.raises(TrainingError, match=r"process 123 on elsewhere may train .* or remove '.*run\.lock' if it has ended"):
            RunFolder(tmp_path).__enter__()

    @pytest.mark.skipif(sys.platform == "win32", reason="there is no flock")
    @pytest.mark.parametrize(("number", "found"), [(errno.EWOULDBLOCK, False), (errno.ENOLCK, None), (errno.EOPNOTSUPP, None)])
    def test_no_locks_is_not_taken_for_a_lock(self, number, found, tmp_path, monkeypatch):
        import fcntl

        def refusing(*_):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "flock", refusing)
        with (tmp_path / "f").open("a+") as file:
            assert lock._lock_by_system(file) is found

    @pytest.mark.parametrize("text", ["", "x", "99999999999999999999 " + platform.node(), "-1 " + platform.node(), "\0\0"])
    def test_nonsense_in_the_file_locks_nobody_out(self, text, tmp_path):
        (tmp_path / "run.lock").write_text(text)
        with RunFolder(tmp_path):
            pass

    @pytest.mark.process
    def test_settings_of_a_run_are_those_of_the_process_that_trains(self, tmp_path, capsys):
        """A second command that comes a moment later writes nothing into the folder."""
        onnx.save(model(), tmp_path / "m.onnx")
        what = ["--data", str(save(tmp_path / "train.npz")), "--loss", "cross_entropy", "--out", str(tmp_path / "run")]
        process = holding(tmp_path / "run")
        try:
            assert main(["train", str(tmp_path / "m.onnx"), *what, "--lr", "0.5"]) == 1
            assert "another process trains in" in capsys.readouterr().err
            assert {path.name for path in (tmp_path / "run").iterdir()} == {"run.lock"}
        finally:
            process.communicate("")


AS_USER = """
import os, sys, tempfile
from onnxgrad.training import Trainer
from onnxgrad.errors import TrainingError
from tests.training.small import data, model
t = Trainer(model(), loss="cross_entropy", learning_rate=0.02, metrics=["accuracy"])
with tempfile.TemporaryDirectory() as other:  # all modules are loaded before another user may not read them
    Trainer(model(), loss="cross_entropy").fit(data(), 1, out=other)
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    t.fit(data(), 2, out=sys.argv[1], resume=len(sys.argv) > 2, verbose=False)
except TrainingError as error:
    print(error)
"""


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no users")
class TestReadOnlyFolder:
    @pytest.fixture
    def folder(self):
        """One that everybody may enter."""
        with tempfile.TemporaryDirectory() as name:
            os.chmod(name, 0o755)
            yield Path(name)

    def run_as_user(self, folder, *more):
        done = subprocess.run(
            [sys.executable, "-B", "-c", AS_USER, str(folder), *more],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @pytest.mark.process
    def test_a_new_run(self, folder):
        os.chmod(folder, 0o555)
        said = self.run_as_user(folder / "run")
        assert said.startswith(f"cannot use the folder {str(folder / 'run')!r}: Permission denied. Choose a folder")

    @pytest.mark.process
    def test_a_run_of_somebody_else(self, folder):
        trainer().fit(data(), 1, out=folder)
        for path in folder.iterdir():
            os.chmod(path, 0o444)
        os.chmod(folder, 0o555)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        said = self.run_as_user(folder, "resume")
        assert said.startswith(f"cannot use the folder {str(folder)!r}: Permission denied. Choose a folder that you may write to.")
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before

    @pytest.mark.process
    def test_a_folder_that_becomes_read_only(self, folder):
        """The lock can be had, the checkpoint not be written."""
        trainer().fit(data(), 1, out=folder)
        os.chmod(folder / "run.lock", 0o666)
        os.chmod(folder, 0o555)
        said = self.run_as_user(folder, "resume")
        assert said.startswith("cannot use ") and "Permission denied" in said and said.count("\n") == 1

    @pytest.mark.parametrize("call", ["replace", "link", "unlink"])
    def test_every_operation_is_typed(self, call, tmp_path, monkeypatch):
        def refused(*args, **kwargs):
            raise PermissionError(errno.EACCES, "Permission denied")

        with monkeypatch.context() as patch, pytest.raises(TrainingError, match=r"cannot use '.*': Permission denied\. "):
            patch.setattr(os, call, refused)
            if call == "link":
                patch.setattr(os, "replace", refused)
            trainer().fit(data(), 5, batch_size=20, out=tmp_path, keep=1, verbose=False)


MANY_STEPS = """
import gc, json, os, sys, threading, warnings
import numpy as np
from onnxgrad.training import Trainer
from tests.training.small import model

def memory():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

steps = int(sys.argv[1])
t = Trainer(model(), loss="cross_entropy", learning_rate=0.002)
rng = np.random.default_rng(0)
seen = []
for step in range(steps):
    count = int(rng.integers(1, 65))
    x = rng.normal(0, 1, (count, 4)).astype(np.float32)
    t.step({"x": x, "target": (x[:, 0] > 0).astype(np.int64)})
    if step % (steps // 20) == steps // 20 - 1:
        gc.collect()
        seen.append([memory(), len(os.listdir("/proc/self/fd")), threading.active_count(), len(gc.get_objects())])
print(json.dumps(seen))
"""


@pytest.mark.process
@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_many_steps_with_changing_batches_take_no_more(steps=4000):
    done = subprocess.run(
        [sys.executable, "-c", MANY_STEPS, str(steps)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    seen = np.array(json.loads(done.stdout))
    half = len(seen) // 2
    memory, handles, threads, objects = seen.T
    assert memory[half:].max() <= memory[:half].max() * 1.02
    assert len(set(handles)) == len(set(threads)) == 1
    assert objects[-1] <= objects[half] + 200
