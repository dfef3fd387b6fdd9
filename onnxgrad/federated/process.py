"""ProcessWorker: a participant whose steps run in another program, such as Node.js, that knows the files of a step only.

Tests: tests/models/test_federated.py.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

import numpy as np

from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ExecutionError, OnnxGradError, TrainingError
from onnxgrad.federated.worker import Array, Columns, Exported, Source, Worker
from onnxgrad.internal.arguments import checked

__all__ = ["ProcessWorker"]


class ProcessWorker:
    """A Worker whose training runs in a program that reads questions from its input and writes answers to its output.

    A message is one line of JSON, then the bytes of its arrays, one after another, little-endian, row by row. The line has
    ``arrays``, a list of ``name``, ``dtype``, ``shape`` and ``bytes``. A question has ``options`` too, those of ``fit``, and its
    arrays are the weights and statistics of all, then the columns of data, which have ``"data": true``. The program begins with the
    optimizer's first state, trains, and answers with the new weights and statistics and ``loss``; or with ``error``, a text.

    Args:
        command: the program and its arguments; it ends when its input does.
        step: manifest of the files that the program reads; this side takes names and evaluation from them.
        evaluation: as for ``Worker``.
        folder: where the program runs.
        timeout: seconds that it may take for a call of ``fit``; None for as long as it takes.

    Example:
        >>> worker = ProcessWorker(["node", "federated_worker.js", "out"], "out/step.json")  # doctest: +SKIP
    """

    @checked
    def __init__(
        self,
        command: Sequence[str],
        step: Source,
        *,
        evaluation: Exported | None = None,
        folder: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self.command, self.folder, self.timeout = [str(part) for part in command], folder, timeout
        self._here = Worker(step, evaluation=evaluation)
        self.names = self._here.names
        self.get, self.set, self.evaluate = self._here.get, self._here.set, self._here.evaluate
        self.is_private = self._here.is_private

    def local_state(self) -> dict[str, Array]:
        """Refused: the program keeps no state between calls.

        Raises:
            OnnxGradError: always.
        """
        raise OnnxGradError("a ProcessWorker resets its optimizer in each call of fit. Use optimizer='reset'.")

    def set_local_state(self, state: Mapping[str, Array] | None) -> None:
        """Nothing, for None; else as ``local_state``.

        Args:
            state: None, or what ``local_state`` would give.
        """
        if state:
            self.local_state()

    def fit(self, data: Columns, **options: float | str | None) -> dict[str, float]:
        """Train in the program from the present weights; arguments and result are as for ``Worker.fit``.

        Args:
            data: arrays by column.
            options: the arguments of ``Worker.fit`` by name.

        Raises:
            ExecutionError: if the program cannot be started, ends without an answer, or does not answer within ``timeout``.
            TrainingError: if it answers with an error.
        """
        columns, count = self._here.columns(data)
        arrays = [(name, value, False) for name, value in zip(self.names, self.get(), strict=True)]
        arrays += [(name, value, True) for name, value in columns.items()]
        late = threading.Event()
        try:
            with subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.folder) as process:
                assert process.stdin is not None and process.stdout is not None
                timer = threading.Timer(self.timeout or 0.0, _end, (process, late))
                timer.daemon = True
                if self.timeout is not None:
                    timer.start()
                try:
                    with suppress(BrokenPipeError):  # it ended; there is no answer
                        _write(process.stdin, arrays, options)
                    answer, values = _read(process.stdout)
                finally:
                    timer.cancel()
        except OSError as error:
            raise ExecutionError(f"{self.command[0]!r} could not be run: {error}. Check that it is installed.") from error
        if late.is_set():
            raise ExecutionError(f"{self.command[0]!r} has not answered within {self.timeout:g} seconds. Give a longer timeout.")
        if "error" in answer:
            raise TrainingError(f"{self.command[0]!r} failed: {answer['error']}")
        if answer.get("loss") is None:
            raise ExecutionError(f"{self.command[0]!r} ended without an answer (code {process.returncode}). Its errors are above.")
        self.set([values[name] for name in self.names])
        return {"examples": count, "loss": float(answer["loss"])}


def _end(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    process.kill()


def _write(stream: IO[bytes], arrays: list[tuple[str, Array, bool]], options: Mapping[str, Any]) -> None:
    entries = [{"name": name, "dtype": a.dtype.name, "shape": a.shape, "bytes": a.nbytes, "data": data} for name, a, data in arrays]
    stream.write(json.dumps({"options": dict(options), "arrays": entries}).encode() + b"\n")
    for _, array, _ in arrays:
        stream.write(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    stream.close()


def _read(stream: IO[bytes]) -> tuple[dict[str, Any], dict[str, Array]]:
    line = stream.readline()
    answer: dict[str, Any] = json.loads(line) if line.strip() else {}
    arrays = {}
    for entry in answer.get("arrays", []):
        content = stream.read(entry["bytes"])
        if len(content) < entry["bytes"]:
            return {}, {}  # it was ended in the middle
        arrays[entry["name"]] = np.frombuffer(content, dtype_of(entry["dtype"]).numpy).reshape(entry["shape"])
    return answer, arrays
