"""Every file is written whole: a disk that is full, or a folder that cannot be written, leaves what was there and nothing else."""

import os
import pickle
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from onnx import TensorProto, parser

import onnxgrad as og
from onnxgrad import fluid, static
from onnxgrad.errors import FileError, MissingFile, ModelError, OnnxGradError, TrainingError
from onnxgrad.internal.files import is_file, make_folder, read_whole, write_whole, writing
from onnxgrad.training.report.curves import plot_history
from onnxgrad.training.run.checkpoint import save_checkpoint
from onnxgrad.utils import draw_program

resource = pytest.importorskip("resource", reason="a full disk is simulated by a limit of Unix systems")


@pytest.fixture
def full_disk():
    """No file may grow beyond 2000 bytes: what the next write gets is an OSError, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def model():
    x = static.data("x", [None, 30])
    loss = og.mean(static.nn.fc(x, 40))
    og.optimizer.SGD(0.1).minimize(loss)
    og.Executor().run(static.default_startup_program())
    return static.default_main_program(), x, loss


WRITERS = {
    "save_onnx": (lambda program, x, loss, path: og.save_onnx(program, path, [loss]), "m.onnx"),
    "save_training_step": (lambda program, x, loss, path: og.save_training_step(program, path, [loss]), "m.onnx"),
    "save_split_training_step": (lambda program, x, loss, path: og.save_split_training_step(program, path, [loss]), "m.onnx"),
    "static.save": (lambda program, x, loss, path: static.save(program, str(path)), "m"),
    "save_inference_model": (lambda program, x, loss, path: static.save_inference_model(str(path), [x], [loss]), "m"),
    "save_to_file": (lambda program, x, loss, path: static.save_to_file(str(path), bytes(5000)), "m.bin"),
    "fluid.io.save_vars": (lambda program, x, loss, path: fluid.io.save_persistables(None, str(path), program), "folder"),
    "draw_program": (lambda program, x, loss, path: draw_program(program, path), "m.dot"),
    "save_checkpoint": (lambda program, x, loss, path: save_checkpoint(program, path), "m.safetensors"),
    "plot_history": (lambda program, x, loss, path: plot_history([{"epoch": 1, "loss": 1.0}], path), "m.png"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_nothing_behind(name, tmp_path, full_disk):
    write, file = WRITERS[name]
    program, x, loss = model()
    with pytest.raises((FileError, TrainingError), match=r"cannot use '.*': File too large") as caught:
        write(program, x, loss, tmp_path / file)
    assert str(tmp_path) in str(caught.value) and "partial" not in str(caught.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_full_disk_leaves_the_old_file(tmp_path, full_disk):
    program, _, loss = model()
    (tmp_path / "m.onnx").write_bytes(b"old")
    with pytest.raises(OSError, match="File too large"):
        og.save_onnx(program, tmp_path / "m.onnx", [loss])
    assert (tmp_path / "m.onnx").read_bytes() == b"old"


def test_external_weights_on_a_full_disk(tmp_path, full_disk):
    found = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[N, 20] x) => (float[N, 20] y) { y = MatMul(x, w) }'
    )
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[20, 20], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.bin")
    found.graph.initializer.append(weight)
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    (tmp_path / "from" / "w.bin").write_bytes(bytes(1600))
    (tmp_path / "from" / "m.onnx").write_bytes(found.SerializeToString())
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    program = og.from_onnx(tmp_path / "from" / "m.onnx")
    with pytest.raises(FileError, match=r"m\.onnx\.data': File too large"):
        og.save_onnx(program, tmp_path / "to" / "m.onnx")
    assert not list((tmp_path / "to").iterdir())


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / "file").write_text("")
    program, _, loss = model()
    (value,) = og.Executor(cache=tmp_path / "file" / "cache").run(program, {"x": np.ones((2, 30), np.float32)}, [loss])
    assert np.isfinite(value)


class TestHelper:
    def test_an_exception_in_the_block_leaves_nothing(self, tmp_path):
        with pytest.raises(KeyboardInterrupt), writing(tmp_path / "a") as file:
            file.write(b"half")
            raise KeyboardInterrupt
        assert not list(tmp_path.iterdir())

    def test_the_reason_and_its_number_are_kept(self, tmp_path):
        with pytest.raises(FileError, match=r"no/a': No such file or directory") as caught:
            write_whole(tmp_path / "no" / "a", b"")
        assert caught.value.errno == 2 and isinstance(caught.value.__cause__, FileNotFoundError)
        (tmp_path / "file").write_text("")
        with pytest.raises(FileError, match="cannot use"):
            make_folder(tmp_path / "file" / "folder")

    @pytest.mark.parametrize("name", ["none", "a\0b", "n" * 3000])
    def test_what_is_not_there(self, name, tmp_path):
        assert not is_file(tmp_path / name)
        with pytest.raises(OnnxGradError):
            read_whole(tmp_path / name)
        with pytest.raises(OnnxGradError):
            og.from_onnx(tmp_path / name)

    def test_a_missing_file_is_a_file_not_found(self, tmp_path):
        with pytest.raises(FileNotFoundError) as caught:
            static.load_from_file(str(tmp_path / "none"))
        assert isinstance(caught.value, MissingFile)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_file_that_may_not_be_read(self, tmp_path):
        (tmp_path / "m.onnx").write_bytes(b"")
        (tmp_path / "m.onnx").chmod(0)
        with pytest.raises(FileError, match="Permission denied"):
            og.from_onnx(tmp_path / "m.onnx")


class TestDamagedState:
    # numpy 1.26 fails to clean up after an array whose flags are damaged, and says so where nobody can catch it.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    @pytest.mark.parametrize("seed", range(30))
    def test_a_damaged_pickle_is_refused_with_a_type_of_ours(self, seed, tmp_path):
        draw = np.random.default_rng(seed)
        program, _, _ = model()
        static.save(program, str(tmp_path / "m"))
        data = bytearray((tmp_path / "m.pdparams").read_bytes())
        for at in draw.integers(0, min(len(data), 400), 4):
            data[at] = draw.integers(256)
        (tmp_path / "m.pdparams").write_bytes(data)
        with suppress(OnnxGradError):  # some damage is in the numbers alone
            static.load(program, str(tmp_path / "m"))

    def test_code_in_a_pickle_does_not_run(self, tmp_path):
        class Code:
            def __reduce__(self):
                return (os.mkdir, (str(tmp_path / "made"),))

        (tmp_path / "m.pdparams").write_bytes(pickle.dumps({"w": Code()}))
        with pytest.raises(ModelError, match=r"posix\.mkdir; only arrays, numbers"):
            static.load_program_state(str(tmp_path / "m"))
        assert not (tmp_path / "made").exists()

    @pytest.mark.parametrize("content", [b"", b"nothing", b"PK\3\4 and then nothing", b"\x93NUMPY"])
    def test_a_damaged_npz(self, content, tmp_path):
        (tmp_path / "__all__.npz").write_bytes(content)
        with pytest.raises(ModelError, match=r"not an \.npz file"):
            fluid.io.load_persistables(None, str(tmp_path), model()[0])


LIMITED = """
import resource, sys
import numpy as np
import onnxgrad as og
from onnxgrad import fluid, static
from onnxgrad.core.state.values import value_of
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.training.run.checkpoint import load_checkpoint, save_checkpoint
path = sys.argv[2]
program = static.Program()
for i in range(6):
    p = program.global_block().create_parameter(f"w{i}", [2**13, 2**10], "float32")
    program.active_scope().put(p.name, Buffer(value_of(np.full(p.shape, i, np.float32))))
save_checkpoint(program, path + ".again")
held = int(open("/proc/self/statm").read().split()[5]) * resource.getpagesize()
# One of six tensors of 32 MB, and less than a second one for everything else.
resource.setrlimit(resource.RLIMIT_DATA, (held + 2**25 + 2**24 + 2**23, -1))
{
    "static.save": lambda: static.save(program, path),
    "fluid.io.save_vars": lambda: fluid.io.save_persistables(None, path, program),
    "save_onnx": lambda: og.save_onnx(program, path, list(program.all_parameters())),
    "save_checkpoint": lambda: save_checkpoint(program, path),
    "load_checkpoint": lambda: load_checkpoint(program, path + ".again"),
}[sys.argv[1]]()
"""


@pytest.mark.process
@pytest.mark.one_in(5)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit on anonymous memory is Linux's")
@pytest.mark.parametrize("way", ["static.save", "fluid.io.save_vars", "save_onnx", "save_checkpoint", "load_checkpoint"])
def test_saving_and_resuming_take_memory_for_one_tensor(way, tmp_path):
    subprocess.run([sys.executable, "-c", LIMITED, way, str(tmp_path / "m")], check=True)
    for file in tmp_path.glob("**/*"):
        file.unlink() if file.is_file() else None
