"""A watch over ranks: whoever dies, raises, leaves early, hangs or is cut off ends all, with a message that says which rank it was.

MPI is not asked for it, since its calls may hang once a rank is gone: ``monitor`` is a process beside the ranks of each machine.

Tests: tests/distributed/test_monitor.py, tests/distributed/test_mpi.py.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.distributed import monitor
from onnxgrad.distributed.monitor import BYE, CLOSED, CUT, END, FAILED, HELLO, LOST, Place, Plan
from onnxgrad.distributed.transport import Operation, Transport, hosts
from onnxgrad.errors import ArgumentError, TrainingError

__all__ = ["Watch", "WatchedTransport"]

_ANSWER = 10.0
_TEXT = 4096


class _Machine(NamedTuple):
    """A machine: its ranks, and its name in messages."""

    ranks: list[int]
    name: str


class Watch:
    """The watch of one rank.

    Args:
        transport: between the ranks, which all make a watch at the same time.
        abort: ends all ranks; called in a thread of the watch, with an exit code.
        timeout: seconds that a rank may wait for another.
        lost_after: seconds without a message after which a rank is lost, or takes itself for lost and ends with code 75.

    Raises:
        TrainingError: on all ranks, if a monitor cannot be started, or reached.
    """

    def __init__(self, transport: Transport, abort: Callable[[int], Any], timeout: float = 600, lost_after: float = 60) -> None:
        self.rank, self.world_size = transport.rank, transport.world_size
        self._abort, self._timeout, self._lost_after = abort, timeout, lost_after
        self._name = f"rank {self.rank} of {self.world_size}"
        self._entered, self._since, self._left = 0, None, False
        self._lock, self._over = threading.Lock(), threading.Event()
        self._socket = self._connected(transport)
        # Before the barrier: the others may come late to it.
        for function in (self._beat, self._listen):
            threading.Thread(target=function, daemon=True, name="onnxgrad-watch").start()
        transport.barrier()
        atexit.register(self.leave)
        self._excepthook, sys.excepthook = sys.excepthook, self._report

    _since: float | None

    def _connected(self, transport: Transport) -> socket.socket:
        """Start a monitor on each machine, by its first rank, and connect with the one here."""
        machines = _machines(hosts(transport))
        own = next(machine for machine in machines if self.rank in machine.ranks)
        shared = np.zeros(_TEXT, np.uint8)
        children = [(rank, f"rank {rank} of {self.world_size}", 1) for rank in own.ranks]
        plan = Plan(
            "", children, self.world_size, self._timeout, self._lost_after, monitor.beat_of(self._lost_after, len(machines))
        )
        port, error = 0, "see its message"
        if self.rank == 0:
            key = secrets.token_hex(16)
            others = [(machine.ranks[0], machine.name, len(machine.ranks)) for machine in machines[1:]]
            answer = _started(plan._replace(key=key, children=[*children, *others], is_open=bool(others)))
            port, error = answer["port"], answer.get("error", error)
            known = {"key": key, "port": port, "addresses": answer.get("addresses", [])}
            while len(text := json.dumps(known).encode()) > _TEXT:
                known["addresses"].pop()
            shared[: len(text)] = np.frombuffer(text, np.uint8)
        transport.broadcast_(shared)
        first = json.loads(bytes(shared).rstrip(b"\0"))
        if self.rank == own.ranks[0] != 0:
            place = {"number": self.rank, "name": own.name, "first": first["addresses"], "port": first["port"]}
            answer = _started(plan._replace(key=first["key"], **place))
            port, error = answer["port"], answer.get("error", error)
        ports = np.zeros(self.world_size, np.int64)
        ports[self.rank] = port
        transport.all_reduce_(ports)
        for machine in machines:
            if not ports[machine.ranks[0]]:
                reason = f"rank {machine.ranks[0]} does not reach the watch of rank 0 ({error})"
                raise TrainingError(f"{reason}. Open the ports between the machines, or call init(watched=False).")
        try:
            return monitor.reach(
                ["127.0.0.1"], int(ports[own.ranks[0]]), HELLO.pack(bytes.fromhex(first["key"]), self.rank, os.getpid())
            )
        except OSError as problem:
            reason = f"{self._name} does not reach the watch of its machine ({problem})"
            raise TrainingError(f"{reason}. Allow connections with 127.0.0.1, or call init(watched=False).") from problem

    @contextmanager
    def waiting(self, counts: bool = True) -> Iterator[None]:
        """While this rank is in an exchange.

        Args:
            counts: whether all ranks take part, so that it has a number.
        """
        self.enter(counts)
        try:
            yield
        finally:
            self.exit()

    def enter(self, counts: bool = True) -> None:
        """An exchange begins; see ``waiting``."""
        self._entered += counts
        self._since = time.monotonic()

    def exit(self) -> None:
        """An exchange is over."""
        self._since = None

    def leave(self) -> None:
        """This rank ends as a program does; returns when all do."""
        if self._left or self._over.is_set():
            return
        sys.excepthook = self._excepthook
        self._since, self._left = time.monotonic(), True
        self._say(CLOSED)
        self._over.wait()  # the listener ends this process where nobody answers

    def _report(self, exception_type: Any, error: Any, trace: Any) -> None:
        """In place of ``sys.excepthook``: this rank ends by an exception."""
        self._excepthook(exception_type, error, trace)
        self.fail(f"{exception_type.__name__}: {error}")

    def fail(self, reason: str) -> None:
        """This rank ends by an error, and with it all others."""
        self._say(FAILED, f"{self._name} has raised {' '.join(reason.split())[:500].rstrip('.')}")
        if not self._over.wait(_ANSWER):
            self._end()

    def _say(self, message_type: bytes, text: str = "") -> None:
        with self._lock, suppress(OSError):
            since = self._since  # another thread may set it
            place = Place(since is not None, self._left, self._entered, self.rank)
            self._socket.sendall(monitor.message_of(message_type, monitor.status_of(place, since or 0.0), time.monotonic(), text))

    def _beat(self) -> None:
        while not self._over.wait(monitor.beat_of(self._lost_after)):
            self._say(monitor.ALIVE)

    def _listen(self) -> None:
        """Hear what the monitor says, and end where it says nothing. The main thread may be in a call of MPI that never returns."""
        heard = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            while True:
                # What has come is read first: this process may have been stopped for a while.
                if not selector.select(max(0.0, heard + self._lost_after - time.monotonic())):
                    self._quit(f"has heard nothing of its watch for {time.monotonic() - heard:.0f} seconds")
                try:
                    words = self._socket.recv(2**10)
                except OSError:
                    words = b""
                heard = time.monotonic()
                if BYE in words:
                    with suppress(OSError):
                        self._socket.shutdown(socket.SHUT_RDWR)
                    self._over.set()
                    return
                if END in words:
                    self._end()
                    return
                if CUT in words:
                    self._quit(None)  # the monitor has said why
                if not words:
                    self._quit("has lost its watch, which was killed")

    def _end(self) -> None:
        self._over.set()
        self._abort(1)

    def _quit(self, course: str | None) -> None:
        """End this process alone: nobody can be told. MPI is not asked, whose calls may wait for the others."""
        text = "" if course is None else f"\nonnxgrad: {self._name} {course}. It ends.\n"
        # Who reads it may be cut off too, and must not hold up the end.
        writing = threading.Thread(target=_write, args=(text,), daemon=True)
        writing.start()
        writing.join(1.0)
        os._exit(LOST)


def _write(text: str) -> None:
    """Write a text, and what was printed before"""
    with suppress(OSError):
        os.write(2, text.encode())
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _machines(names: np.ndarray[Any, Any]) -> list[_Machine]:
    """The machines, in the order of their first ranks"""
    ranks_of: dict[bytes, list[int]] = {}
    for rank, name in enumerate(names):
        ranks_of.setdefault(bytes(name), []).append(rank)
    machines = []
    for key, ranks in ranks_of.items():
        first, last = ranks[0], ranks[-1]
        shown = f"rank {first}" if first == last else f"ranks {first} to {last}"
        if len(ranks) != last - first + 1:
            shown = f"rank {first} and {len(ranks) - 1} others"
        name = key.rstrip(b"\0")[16:].decode(errors="replace")
        machines.append(_Machine(ranks, f"machine {name} ({shown} of {len(names)})"))
    return machines


def _started(plan: Plan) -> dict[str, Any]:
    """Start the monitor of this machine; gives where it listens: port 0, which nobody reaches, where it does not."""
    command = [sys.executable, "-I", "-S", str(monitor.__file__)]
    pipe = subprocess.PIPE
    # In a session of its own, or it would be ended with the ranks.
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
    assert process.stdin is not None and process.stdout is not None
    with process.stdin, process.stdout:
        process.stdin.write(json.dumps(plan._asdict()).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
    process.returncode = 0  # it outlives this process, which therefore does not wait for it
    return json.loads(line) if line else {"port": 0, "error": "its process has ended; see its message"}


class WatchedTransport:
    """A transport whose exchanges a watch knows of."""

    def __init__(self, transport: Transport, watch: Watch) -> None:
        self.rank, self.world_size = transport.rank, transport.world_size
        self.transport, self.watch = transport, watch
        self.any_thread: bool = getattr(transport, "any_thread", True)

    def all_reduce_(self, buffer: np.ndarray[Any, Any], op: Operation = "sum") -> None:
        with self.watch.waiting():
            self.transport.all_reduce_(buffer, op)

    def reduce_scatter_(self, buffer: np.ndarray[Any, Any]) -> None:
        self.watch.enter()
        self.transport.reduce_scatter_(buffer)
        self.watch.exit()

    def all_gather_(self, buffer: np.ndarray[Any, Any]) -> None:
        self.watch.enter()
        self.transport.all_gather_(buffer)
        self.watch.exit()

    def all_to_all_(self, buffer: np.ndarray[Any, Any]) -> None:
        self.watch.enter()
        self.transport.all_to_all_(buffer)
        self.watch.exit()

    def broadcast_(self, buffer: np.ndarray[Any, Any], root: int = 0) -> None:
        with self.watch.waiting():
            self.transport.broadcast_(buffer, root)

    def barrier(self) -> None:
        with self.watch.waiting():
            self.transport.barrier()

    def send(self, buffer: np.ndarray[Any, Any], to: int) -> None:
        """As the transport does, if it can"""
        with self.watch.waiting(counts=False):
            self._points.send(buffer, to)

    def receive_(self, buffer: np.ndarray[Any, Any], source: int) -> None:
        """Not counted, as ranks receive in different numbers"""
        with self.watch.waiting(counts=False):
            self._points.receive_(buffer, source)

    @property
    def _points(self) -> Any:
        if not hasattr(self.transport, "send"):
            raise ArgumentError("this transport cannot send from one rank to another, as a pipeline must. Use MPI.")
        return self.transport
