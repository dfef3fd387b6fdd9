"""Machines that are network namespaces of this one, on which mpiexec starts ranks that train; and how they end."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.distributed.ranks import MPIEXEC, ROOT

TRAINING = """
import hashlib, os, sys, time
from pathlib import Path
import numpy as np
from onnxgrad import distributed
from onnxgrad.training import Callback, Trainer
from tests.training.small import data, model, weights
folder, epochs, pause = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
transport = distributed.init(timeout=8, lost_after=3)
(folder / f"process.{transport.rank}").write_text(str(os.getpid()))

class Slow(Callback):
    def on_step(self, trainer, row):
        time.sleep(pause)
        (folder / "written").write_text(str(trainer.step_number))
        (folder / "written").replace(folder / "step")

t = Trainer(model(), loss="cross_entropy", learning_rate=0.02, batch_norm="frozen", distributed=True)
resumes = (folder / "run" / "last.safetensors").exists()
t.fit(data(), total_epochs=epochs, batch_size=9, out=folder / "run", resume=resumes, checkpoint_every=5, verbose=False, callbacks=[Slow()])
values = b"".join(np.asarray(v).tobytes() for _, v in sorted(weights(t).items()))
(folder / f"weights.{transport.rank}").write_text(hashlib.sha256(values).hexdigest())
"""
EVERY = 5
"""Steps between two checkpoints."""
LOST_AFTER = 3.0
_MAKE_BRIDGE = (
    "ip link set lo up && ip link add bridge0 type bridge && ip link set bridge0 up && ip addr add 10.9.0.100/24 dev bridge0"
)
_OUTER = ["unshare", "--user", "--map-root-user", "--net", "--uts", "--mount"]
_LAUNCH = """#!/bin/sh
while case "$1" in -*) true;; *) false;; esac; do shift; done
host=$1; shift
exec nsenter --target $(cat {folder}/$host) --net --uts -- /bin/sh -c "$*"
"""
_RANK = """#!/bin/sh
"{python}" -m mpi4py "{folder}/training.py" "{folder}" "$@" 2> "{folder}/errors.$PMI_RANK"
code=$?
echo $code > "{folder}/code.$PMI_RANK"
exit $code
"""


def why_not():
    """Why namespaces cannot stand for machines here; None where they can"""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    missing = [name for name in ("unshare", "nsenter", "ip", "mount") if shutil.which(name) is None]
    if missing:
        return f"there is no {missing[0]}"
    script = f"{_MAKE_BRIDGE} && ip link add v1 type veth peer name w1"
    tried = subprocess.run([*_OUTER, "sh", "-c", script], capture_output=True, text=True, check=False)
    return f"no network namespace can be made: {tried.stderr.strip()[:200]}" if tried.returncode else None


class Machines:
    """Namespaces with a network and a name of their own, which does not resolve.

    Args:
        folder: for files of this.
        count: of the machines; their addresses are 10.9.0.1, 10.9.0.2, ...
        ranks: of each.
    """

    def __init__(self, folder, count=2, ranks=2):
        self.folder, self.count, self.ranks, self.holders = Path(folder), count, count * ranks, []
        self.hosts = ",".join(f"10.9.0.{number}:{ranks}" for number in range(1, count + 1))
        self.outer = self._hold(_OUTER)
        self.inside(self.outer, _MAKE_BRIDGE)
        for number in range(1, count + 1):
            holder = self._hold(["nsenter", *self._target(self.outer), "unshare", "--net", "--uts"])
            self.holders.append(holder)
            (self.folder / f"10.9.0.{number}").write_text(str(holder.pid))
            self.inside(
                self.outer, f"ip link add v{number} type veth peer name w{number} && ip link set v{number} master bridge0 up"
            )
            self.inside(self.outer, f"ip link set w{number} netns {holder.pid}")
            up = f"ip link set lo up && ip addr add 10.9.0.{number}/24 dev w{number} && ip link set w{number} up"
            self.inside(holder, f"{up} && hostname unresolved-{number}")
        for name, text in (("launch", _LAUNCH), ("rank", _RANK), ("training.py", TRAINING)):
            path = self.folder / name
            path.write_text(text if name == "training.py" else text.format(folder=self.folder, python=sys.executable))
            path.chmod(0o755)

    @staticmethod
    def _hold(command):
        """A process that keeps a namespace, once it is there"""
        holder = subprocess.Popen([*command, "sh", "-c", "echo there; exec sleep 3600"], stdout=subprocess.PIPE, text=True)
        assert holder.stdout.readline() == "there\n"
        holder.stdout.close()
        return holder

    def _target(self, holder):
        return [f"--target={holder.pid}", "--user", "--preserve-credentials", "--net", "--uts", "--mount"]

    def inside(self, holder, script):
        """Run a script of the shell in the namespaces of a holder."""
        subprocess.run(["nsenter", *self._target(holder), "sh", "-c", script], check=True, capture_output=True, text=True)

    # Ranks -----------------------------------------------------------------------------------------------------------

    def start(self, epochs=10**6, pause=0.02):
        """Start the ranks; returns mpiexec."""
        for path in [*self.folder.glob("process.*"), *self.folder.glob("code.*"), self.folder / "step"]:
            path.unlink(missing_ok=True)
        mpiexec = [MPIEXEC, "-launcher", "rsh", "-launcher-exec", str(self.folder / "launch"), "-iface", "bridge0"]
        command = [*mpiexec, "-hosts", self.hosts, "-n", str(self.ranks), str(self.folder / "rank"), str(epochs), str(pause)]
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        # Not pipes, which a monitor that is stopped would hold open.
        with open(self.folder / "mpiexec", "w") as said:
            return subprocess.Popen(
                ["nsenter", *self._target(self.outer), *command],
                stdout=said,
                stderr=said,
                cwd=ROOT,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": path},
            )

    def wait_for_step(self, number, within=60):
        limit = time.monotonic() + within
        while self.step() < number:
            assert time.monotonic() < limit, (self.folder / "mpiexec").read_text() + self.said()
            time.sleep(0.05)

    def step(self):
        with contextlib.suppress(OSError, ValueError):
            return int((self.folder / "step").read_text())
        return 0

    def process(self, rank):
        return int((self.folder / f"process.{rank}").read_text())

    def monitor(self, machine):
        """The process number of the monitor of a machine"""
        return next(number for number in self.processes(machine) if "monitor.py" in _command(number))

    def processes(self, machine):
        """All that run on a machine"""
        network = os.readlink(f"/proc/{self.holders[machine - 1].pid}/ns/net")
        numbers = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(path / "ns" / "net") == network and int(path.name) != self.holders[machine - 1].pid:
                    numbers.append(int(path.name))
        return numbers

    def living(self):
        """The ranks that have not ended"""
        return [rank for rank in range(self.ranks) if _is_alive(self.process(rank))]

    def wait_for_end(self, within, but=()):
        """Seconds until all ranks have ended, but these"""
        begun = time.monotonic()
        while set(self.living()) - set(but) and time.monotonic() - begun < within:
            time.sleep(0.05)
        return time.monotonic() - begun

    def codes(self):
        """The exit codes of ranks that were not killed"""
        time.sleep(0.3)
        return {int(path.suffix[1:]): int(path.read_text() or -1) for path in self.folder.glob("code.*")}

    def said(self):
        """What monitors and ranks have written"""
        texts = [path.read_text(errors="replace") for path in [*sorted(self.folder.glob("errors.*")), self.folder / "mpiexec"]]
        return "\n".join(line for text in texts for line in text.splitlines() if line.startswith("onnxgrad: "))

    # What happens to them --------------------------------------------------------------------------------------------

    def cut(self, machine):
        """Let nothing pass between a machine and the others; neither sees that the link is gone."""
        self.inside(self.outer, f"ip link set v{machine} nomaster")

    def mend(self, machine):
        self.inside(self.outer, f"ip link set v{machine} master bridge0")

    def kill(self, machine):
        """Kill all that runs on a machine."""
        for number in self.processes(machine):
            send(number, signal.SIGKILL)

    def freeze(self, machine):
        """Let a machine be as if it was off: nothing runs there, and nobody is told."""
        self.cut(machine)
        for number in self.processes(machine):
            send(number, signal.SIGSTOP)

    def small_disk(self, size="2m"):
        """Keep the run on a disk that is small."""
        (self.folder / "run").mkdir(exist_ok=True)
        self.inside(self.outer, f"mount -t tmpfs -o size={size} none '{self.folder}/run'")

    def fill_disk(self):
        self.inside(self.outer, f"dd if=/dev/zero of='{self.folder}/run/filler' bs=4k 2>/dev/null || true")

    def free_disk(self):
        self.inside(self.outer, f"rm '{self.folder}/run/filler'")

    def stop(self, mpiexec):
        """End what is left of a job."""
        for machine in range(1, self.count + 1):
            self.kill(machine)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(mpiexec.pid, signal.SIGKILL)
        mpiexec.wait()

    def close(self):
        for holder in [*self.holders, self.outer]:
            holder.kill()
            holder.wait()


def send(process, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def _command(process):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text()
    return ""


def _is_alive(process):
    """Whether it runs, and is none that ended and was not waited for"""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
