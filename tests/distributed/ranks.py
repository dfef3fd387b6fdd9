"""What the tests start by mpiexec: a script of several ranks, which prints JSON."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = "ONNXGRAD_TEST_ANSWERS"
_BESIDE = Path(sys.executable).with_name("mpiexec")
MPIEXEC = str(_BESIDE) if _BESIDE.exists() else shutil.which("mpiexec")


def has_mpi():
    try:
        from mpi4py import MPI  # noqa: F401  # a test process is one rank
    except (ImportError, RuntimeError):
        return False
    return MPIEXEC is not None


needs_mpi = pytest.mark.skipif("not __import__('tests.distributed.ranks', fromlist=['x']).has_mpi()", reason="needs onnxgrad[mpi]")


def run(count, *command, timeout=120, environment=None):
    """Run a command on some ranks; (exit code, output, errors). One that hangs is ended after ``timeout`` seconds."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    ranks = [MPIEXEC, "-n", str(count), sys.executable, *map(str, command)]
    found = subprocess.run(
        ranks,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **(environment or {})},
    )
    return found.returncode, found.stdout, found.stderr


_WAITING = "from tests.waiting import sleep_between_runs\nsleep_between_runs()\n"


def answers(count, script):
    """What each rank answers, in the order of ranks."""
    with tempfile.TemporaryDirectory() as folder:
        code, _, errors = run(count, "-m", "mpi4py", "-c", _WAITING + script, environment={FOLDER: folder})
        assert code == 0, errors
        found = [json.loads(path.read_text()) for path in Path(folder).iterdir()]
    return sorted(found, key=lambda line: line["rank"])


def launched(count, script, folder, variables=("RANK", "WORLD_SIZE"), **others):
    """What each rank answers, in the order of ranks, as if a launcher with these variables had started it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared = {variables[1]: str(count), **(address if not others else {}), **others, FOLDER: str(folder)}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", _WAITING + script], env={**os.environ, **shared, variables[0]: str(rank), "PYTHONPATH": path}
        )
        for rank in range(count)
    ]
    try:
        assert [one.wait(timeout=120) for one in ranks] == [0] * count
    finally:
        for one in ranks:
            one.kill()
            one.wait()
    return [json.loads((folder / str(rank)).read_text()) for rank in range(count)]


def answer(found):
    """Say something, in a rank. Lines of several ranks may be mixed on their way through mpiexec."""
    Path(os.environ[FOLDER], str(found["rank"])).write_text(json.dumps(found))


_TRANSPORT = """
import ml_dtypes, numpy as np
from onnxgrad import distributed
from tests.distributed.ranks import answer
t = distributed.init(KIND, watched=False)
found = {"rank": t.rank}
for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int64, np.uint8):
    for op in ("sum", "max", "min"):
        b = np.array([t.rank, 1, 3 - t.rank], dtype)
        t.all_reduce_(b, op)
        found[f"{op} {np.dtype(dtype)}"] = b.astype(float).tolist()
    for name in ("reduce_scatter_", "all_gather_", "all_to_all_"):
        b = np.arange(6).astype(dtype) + np.array(10 * t.rank, dtype)
        getattr(t, name)(b)
        kept = b[2 * t.rank : 2 * t.rank + 2] if name == "reduce_scatter_" else b
        found[f"{name} {np.dtype(dtype)}"] = kept.astype(float).tolist()
b = np.full(2, t.rank, ml_dtypes.bfloat16)
t.broadcast_(b, 2)
found["root"] = b.astype(float).tolist()
t.barrier()
answer(found)
"""


def transport(kind=None):
    """A script that says what a transport makes of each element type and operation"""
    return _TRANSPORT.replace("KIND", repr(kind))


def check_transport(found):
    """Whether what one of three ranks said is right"""
    expected = {"sum": [3, 3, 6], "max": [2, 1, 3], "min": [0, 1, 1], "root": [2, 2]}
    rank = found.pop("rank")
    expected["reduce_scatter_"] = [30 + 6 * rank, 33 + 6 * rank]
    expected["all_gather_"] = [0, 1, 12, 13, 24, 25]
    expected["all_to_all_"] = [10 * other + 2 * rank + number for other in range(3) for number in range(2)]
    assert len(found) == 37
    for name, value in found.items():
        assert value == expected[name.split()[0]], name
