"""What the tests start by mpiexec: a script of several ranks, which prints JSON."""

import json
import os
import shutil
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


def answers(count, script):
    """What each rank answers, in the order of ranks."""
    with tempfile.TemporaryDirectory() as folder:
        code, _, errors = run(count, "-m", "mpi4py", "-c", script, environment={FOLDER: folder})
        assert code == 0, errors
        found = [json.loads(path.read_text()) for path in Path(folder).iterdir()]
    return sorted(found, key=lambda line: line["rank"])


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
    del found["rank"]
    assert len(found) == 19
    for name, value in found.items():
        assert value == expected[name.split()[0]], name


# Machines that are namespaces of this one ------------------------------------------------------------------------------

_MAKE_BRIDGE = (
    "ip link set lo up && ip link add bridge0 type bridge && ip link set bridge0 up && ip addr add 10.9.0.100/24 dev bridge0"
)
_LAUNCH = """#!/bin/sh
while case "$1" in -*) true;; *) false;; esac; do shift; done
host=$1; shift
exec nsenter --target $(cat {folder}/$host) --net --uts -- /bin/sh -c "$*"
"""


def why_no_machines():
    """Why namespaces cannot stand for machines here; None where they can"""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    missing = [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]
    if missing:
        return f"there is no {missing[0]}"
    tried = subprocess.run(
        [
            "unshare",
            "--user",
            "--map-root-user",
            "--net",
            "--uts",
            "sh",
            "-c",
            f"{_MAKE_BRIDGE} && ip link add va type veth peer name vb",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"no network namespace can be made: {tried.stderr.strip()[:200]}" if tried.returncode else None


class Machines:
    """Namespaces with a network and a name of their own, which nobody resolves; mpiexec starts ranks there.

    Args:
        folder: for files of this.
        count: of the machines; their addresses are 10.9.0.1, 10.9.0.2, ...
    """

    def __init__(self, folder, count=2):
        self.folder, self.holders = Path(folder), []
        self.outer = self._hold(["unshare", "--user", "--map-root-user", "--net", "--uts"])
        self._in(self.outer, _MAKE_BRIDGE)
        for number in range(1, count + 1):
            inner = ["nsenter", *self._target(self.outer), "unshare", "--net", "--uts"]
            holder = self._hold(inner)
            self.holders.append(holder)
            (self.folder / f"10.9.0.{number}").write_text(str(holder.pid))
            self._in(self.outer, f"ip link add v{number} type veth peer name w{number} && ip link set v{number} master bridge0 up")
            self._in(self.outer, f"ip link set w{number} netns {holder.pid}")
            up = f"ip link set lo up && ip addr add 10.9.0.{number}/24 dev w{number} && ip link set w{number} up"
            self._in(holder, f"{up} && hostname unresolved-{number}")
        launcher = self.folder / "launch"
        launcher.write_text(_LAUNCH.format(folder=self.folder))
        launcher.chmod(0o755)

    @staticmethod
    def _hold(command):
        """A process that keeps a namespace, once it is there"""
        holder = subprocess.Popen([*command, "sh", "-c", "echo there; exec sleep 600"], stdout=subprocess.PIPE, text=True)
        assert holder.stdout.readline() == "there\n"
        holder.stdout.close()
        return holder

    @staticmethod
    def _target(holder):
        return [f"--target={holder.pid}", "--user", "--preserve-credentials", "--net", "--uts"]

    def _in(self, holder, script):
        subprocess.run(["nsenter", *self._target(holder), "sh", "-c", script], check=True, capture_output=True, text=True)

    def cut(self, number):
        """Let nothing pass between a machine and the others; neither hears that the link is gone"""
        self._in(self.outer, f"ip link set v{number} nomaster")

    def start(self, ranks, script, **environment):
        """Start so many ranks on each machine."""
        hosts = ",".join(f"10.9.0.{number}:{ranks}" for number in range(1, len(self.holders) + 1))
        count = str(ranks * len(self.holders))
        mpiexec = [MPIEXEC, "-launcher", "rsh", "-launcher-exec", str(self.folder / "launch"), "-iface", "bridge0"]
        command = [*mpiexec, "-hosts", hosts, "-n", count, sys.executable, "-m", "mpi4py", "-c", script]
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        return subprocess.Popen(
            ["nsenter", *self._target(self.outer), *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": path, FOLDER: str(self.folder), **environment},
        )

    def close(self):
        for holder in [*self.holders, self.outer]:
            holder.kill()
            holder.wait()
