"""A watch over ranks: whoever dies, raises, leaves early or hangs ends them all, with a message that says which rank it was.

MPI is not asked for it, since its calls may hang once a rank is gone: ``monitor`` is a process beside the ranks.

Tests: tests/distributed/test_mpi.py.
"""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from onnxgrad.distributed import monitor
from onnxgrad.distributed.monitor import BEAT, BYE, CLOSED, FAILED, HELLO, MESSAGE
from onnxgrad.distributed.transport import Operation, Transport, hosts
from onnxgrad.errors import ArgumentError, TrainingError

__all__ = ["Watch", "WatchedTransport"]

_ANSWER = 10.0


class Watch:
    """The watch of one rank.

    Args:
        transport: between the ranks, which all make a watch at the same time.
        abort: ends all ranks; called in a thread of the watch, with an exit code.
        timeout: seconds that a rank may wait for another.
        lost_after: seconds without a message after which a rank is lost.

    Raises:
        TrainingError: if the monitor cannot be started, or reached.
    """

    def __init__(self, transport: Transport, abort: Callable[[int], Any], timeout: float = 600, lost_after: float = 60) -> None:
        self.rank, self.world_size = transport.rank, transport.world_size
        self._abort, self._limits = abort, (timeout, lost_after)
        self._entered, self._waits, self._left = 0, False, False
        self._lock, self._over = threading.Lock(), threading.Event()
        self._socket = self._connected(transport)
        transport.barrier()
        for function in (self._beat, self._listen):
            threading.Thread(target=function, daemon=True, name="onnxgrad-watch").start()
        atexit.register(self.leave)
        self._excepthook, sys.excepthook = sys.excepthook, self._report

    def _connected(self, transport: Transport) -> socket.socket:
        names = hosts(transport)
        is_one_machine = bool((names == names[0]).all())
        key = np.frombuffer(secrets.token_bytes(16), np.uint8).copy()
        port = np.zeros(1, np.int64)
        if self.rank == 0:
            port[0] = self._started("127.0.0.1" if is_one_machine else "", key.tobytes())
        transport.broadcast_(key)
        transport.broadcast_(port)
        first = "127.0.0.1" if is_one_machine else bytes(names[0]).rstrip(b"\0").decode()
        try:
            connection = socket.create_connection((first, int(port[0])), timeout=30)
        except OSError as error:
            advice = "Open the ports between the machines, or call init(watched=False)"
            raise TrainingError(f"rank {self.rank} does not reach the watch of rank 0 ({error}). {advice}.") from error
        connection.settimeout(None)
        connection.sendall(HELLO.pack(key.tobytes(), self.rank, os.getpid(), bool((names[0] == names[self.rank]).all())))
        return connection

    def _started(self, address: str, key: bytes) -> int:
        """Start the monitor; gives its port, or 0, which nobody reaches."""
        limits = [str(limit) for limit in self._limits]
        command = [sys.executable, "-I", "-S", str(monitor.__file__), address, str(self.world_size), *limits]
        pipe = subprocess.PIPE
        # In a session of its own, or it would be ended with the ranks.
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
        assert process.stdin is not None and process.stdout is not None
        with process.stdin, process.stdout:
            process.stdin.write(key)
            process.stdin.flush()
            line = process.stdout.readline()
        process.returncode = 0  # it outlives this process, which therefore does not wait for it
        return int(line or 0)

    def enter(self) -> None:
        """An exchange begins."""
        self._entered += 1
        self._waits = True

    def exit(self) -> None:
        """An exchange is over."""
        self._waits = False

    def leave(self) -> None:
        """This rank ends as a program does; returns when all do."""
        if self._left or self._over.is_set():
            return
        sys.excepthook = self._excepthook
        self._waits = self._left = True
        self._say(CLOSED)
        self._over.wait()

    def _report(self, exception_type: Any, error: Any, trace: Any) -> None:
        """In place of ``sys.excepthook``: this rank ends by an exception."""
        self._excepthook(exception_type, error, trace)
        self.fail(f"{exception_type.__name__}: {error}")

    def fail(self, reason: str) -> None:
        """This rank ends by an error, and with it all others."""
        self._say(FAILED, " ".join(reason.split())[:500].encode())
        if not self._over.wait(_ANSWER):
            self._end()

    def _say(self, message_type: bytes, text: bytes = b"") -> None:
        with self._lock, suppress(OSError):
            self._socket.sendall(MESSAGE.pack(message_type, self._entered, self._waits, len(text)) + text)

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            self._say(monitor.ALIVE)

    def _listen(self) -> None:
        """Wait for what the monitor says. If it is gone, nobody watches, and training goes on."""
        try:
            message = self._socket.recv(1)
        except OSError:
            message = b""
        if message in (b"", BYE):
            self._over.set()
            return
        self._end()

    def _end(self) -> None:
        self._over.set()
        self._abort(1)
        os._exit(1)


class WatchedTransport:
    """A transport whose exchanges a watch knows of."""

    def __init__(self, transport: Transport, watch: Watch) -> None:
        self.rank, self.world_size = transport.rank, transport.world_size
        self.transport, self.watch = transport, watch
        self.any_thread: bool = getattr(transport, "any_thread", True)

    def all_reduce_(self, buffer: np.ndarray[Any, Any], op: Operation = "sum") -> None:
        self.watch.enter()
        self.transport.all_reduce_(buffer, op)
        self.watch.exit()

    def broadcast_(self, buffer: np.ndarray[Any, Any], root: int = 0) -> None:
        self.watch.enter()
        self.transport.broadcast_(buffer, root)
        self.watch.exit()

    def barrier(self) -> None:
        self.watch.enter()
        self.transport.barrier()
        self.watch.exit()

    def send(self, buffer: np.ndarray[Any, Any], to: int) -> None:
        """As the transport does, if it can"""
        self._points.send(buffer, to)

    def receive_(self, buffer: np.ndarray[Any, Any], source: int) -> None:
        """Not counted, as ranks receive in different numbers: who dies or raises ends all here too, who hangs does not"""
        self._points.receive_(buffer, source)

    @property
    def _points(self) -> Any:
        if not hasattr(self.transport, "send"):
            raise ArgumentError("this transport cannot send from one rank to another, as a pipeline must. Use MPI.")
        return self.transport
