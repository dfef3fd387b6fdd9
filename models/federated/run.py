"""Train the digits on five nodes of this machine by Flower: a superlink, supernodes and `flwr run`, all on 127.0.0.1.

Usage: python models/federated/run.py [--out out/federated] [--rounds 10] [--epochs 2] [--proximal 0 0.1] [--secure] [--node]

Writes history.json of each run and accuracy.png into the output folder. Nothing is fetched.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from digits_federated.task import CLIENTS, all_digits, rows_of, trainer  # noqa: E402

MODEL = HERE.parent / "digits" / "digits.onnx"
NODE_WORKER = HERE.parent / "web" / "federated_worker.js"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Federation:
    """A superlink and its supernodes, until the end of the block."""

    def __init__(self, out: Path, javascript: bool, secure: bool) -> None:
        self.out, self.javascript = out, javascript
        scripts = str(Path(sys.executable).parent)
        packages = os.pathsep.join(filter(None, [str(HERE.parents[1]), os.environ.get("PYTHONPATH")]))
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
            "PYTHONPATH": packages,
            "FLWR_HOME": str(out / "flower"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "DIGITS_SECURE": str(int(secure)),
        }
        self.stack = ExitStack()
        self.port = free_port()

    def __enter__(self) -> Federation:
        with self.stack:
            self._start(
                "superlink", ["flower-superlink", "--insecure", "--port", self.port, "--disable-runtime-dependency-installation"]
            )
            self._wait()
            for number in range(CLIENTS):
                about = f"partition-id={number}"
                if self.javascript and number == CLIENTS - 1:
                    about += f' node="{shutil.which("node")}" worker="{NODE_WORKER}"'
                where = ["--superlink", f"127.0.0.1:{self.port}", "--port", free_port()]
                self._start(f"supernode{number}", ["flower-supernode", "--insecure", *where, "--node-config", about])
            self.stack = self.stack.pop_all()
        home = self.out / "flower"
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "local"\n[superlink.local]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def _start(self, name: str, command: list) -> None:
        log = self.stack.enter_context((self.out / f"{name}.log").open("w"))
        started = subprocess.Popen(
            [str(part) for part in command], stdout=log, stderr=log, env=self.environment, cwd=self.out, start_new_session=True
        )
        self.stack.callback(stop, started)

    def _wait(self) -> None:
        for _ in range(600):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise SystemExit(f"the superlink did not start: see {self.out / 'superlink.log'}")

    def run(self, name: str, settings: dict) -> list[dict]:
        """The rows of a run, when it is over."""
        history = self.out / f"{name}.json"
        history.unlink(missing_ok=True)
        text = " ".join(f"{key}={json.dumps(value)}" for key, value in {**settings, "history": str(history)}.items())
        log = self.out / f"{name}.log"
        with log.open("w") as file:
            command = ["flwr", "run", str(HERE), "local", "--stream", "--run-config", text]
            started = subprocess.Popen(
                command, stdout=file, stderr=file, env=self.environment, cwd=self.out, start_new_session=True
            )
            try:
                while not history.exists():
                    if started.poll() is not None and not history.exists():
                        raise SystemExit(f"the run ended without a result: see {log}")
                    time.sleep(0.5)
            finally:
                stop(started)  # the stream of the log goes on for a while
        return json.loads(history.read_text())


def stop(started: subprocess.Popen) -> None:
    """End a process and those that it started."""
    for signal in (15, 9):
        try:
            os.killpg(started.pid, signal)
            started.wait(timeout=10)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def together(rounds: int, epochs: int, learning_rate: float) -> list[dict]:
    """What one process reaches that has all images, in as many epochs."""
    data, held_out = all_digits()
    one = trainer(MODEL, learning_rate)
    rows = [{"round": 0, **one.evaluate(held_out)}]
    for number in range(1, rounds + 1):
        one.fit(data, epochs=epochs, batch_size=32, verbose=False)
        rows.append({"round": number, **one.evaluate(held_out)})
    return rows


def plot(histories: dict[str, list[dict]], path: Path) -> None:
    """Accuracy on held-out images after each round, and who has which images."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for name, rows in histories.items():
        left.plot([row["round"] for row in rows], [100 * row["accuracy"] for row in rows], marker="o", markersize=3, label=name)
    left.set(title="accuracy on images that no client has", xlabel="round", ylabel="%", ylim=(0, 100))
    left.legend(loc="lower right")
    labels = all_digits()[0]["target"]
    counts = np.array([np.bincount(labels[rows], minlength=10) for rows in rows_of(labels)])
    below = np.zeros(CLIENTS)
    for digit in range(10):
        right.bar(range(1, CLIENTS + 1), counts[:, digit], bottom=below, label=str(digit), color=pyplot.cm.tab10(digit))
        below += counts[:, digit]
    right.set(title="images of each client", xlabel="client")
    right.legend(title="digit", fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/federated"))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=2, help="of each client in a round")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--proximal", type=float, nargs="+", default=[0.0], help="mu of FedProx, one run for each; 0 for FedAvg")
    parser.add_argument("--secure", action="store_true", help="aggregate by SecAgg+")
    parser.add_argument("--node", action="store_true", help="the last client trains in Node.js")
    options = parser.parse_args()
    out = options.out.resolve()
    (out / "flower").mkdir(parents=True, exist_ok=True)
    common = {"model": str(MODEL), "rounds": options.rounds, "epochs": options.epochs, "learning-rate": options.learning_rate}
    if options.node:
        from onnxgrad.federated import save_step

        one = trainer(MODEL, options.learning_rate)
        save_step(one.program, out / "node" / "step", [one.loss])
        common["node-step"] = str(out / "node" / "step.json")
    histories = {}
    with Federation(out, options.node, options.secure) as federation:
        for mu in options.proximal:
            name = f"FedProx, mu {mu:g}" if mu else "FedAvg, SecAgg+" if options.secure else "FedAvg"
            file = f"history_{mu:g}" + ("_secure" if options.secure else "")
            started = time.time()
            histories[name] = federation.run(file, {**common, "proximal": mu, "secure": options.secure})
            shown = " ".join(f"{100 * row['accuracy']:.1f}" for row in histories[name])
            print(f"{name}: {shown} % ({time.time() - started:.0f} s)", flush=True)
    histories["one process with all images"] = together(options.rounds, options.epochs, options.learning_rate)
    last = histories["one process with all images"][-1]["accuracy"]
    print(f"one process with all images: {100 * last:.1f} %")
    plot(histories, out / "accuracy.png")


if __name__ == "__main__":
    main()
