"""The process that watches over ranks. It outlives them, so that it can still say which one ended the others.

Every rank tells it, over a socket, how many exchanges it has begun and whether it waits in one. A socket ends with its process,
whatever ended that. When all have to end, the monitor says why, tells the ranks, and kills those on its machine that do not obey.

It is run as a script, without this package: it uses the standard library alone. It reads a key from its standard input and writes
its port to its standard output.

Tests: tests/distributed/test_programs.py, tests/distributed/test_mpi.py.
"""

from __future__ import annotations

import hmac
import os
import selectors
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

__all__ = ["BEAT", "BYE", "CLOSED", "END", "FAILED", "HELLO", "MESSAGE", "RankStatus", "failure_reason"]

BEAT = 0.5
"""Seconds between two messages of a rank."""
HELLO = struct.Struct("!16sIQ?")
"""Key, rank, process number, and whether it runs on the machine of the monitor."""
MESSAGE = struct.Struct("!cQ?I")
"""Kind, exchanges that have begun, whether the rank waits, and the bytes of a text that follows."""
ALIVE, CLOSED, FAILED = b"a", b"l", b"f"
END, BYE = b"e", b"b"
"""What the monitor says: that all have to end, or that all have left."""
_GRACE = 3.0
_COMES_WITHIN = 60.0


@dataclass
class RankStatus:
    """The status of a rank; times are by ``time.monotonic``.

    Attributes:
        entered: exchanges that it has begun.
        since: when it began to wait in the present one, or to leave; None while it computes.
        heard: when it was last heard of.
        left: whether it has ended as a program does.
        gone: what became of it, if it ended otherwise.
        process: its number, if it runs on the machine of the monitor.
    """

    entered: int = 0
    since: float | None = None
    heard: float = field(default_factory=time.monotonic)
    left: bool = False
    gone: str | None = None
    process: int | None = None


def failure_reason(ranks: list[RankStatus], now: float, timeout: float, lost_after: float) -> str | None:
    """Why all ranks have to end, if they have.

    Args:
        ranks: by number.
        now: seconds.
        timeout: seconds that a rank may wait for another.
        lost_after: seconds without a message after which a rank is lost.
    """
    count = len(ranks)
    for rank, one in enumerate(ranks):
        if one.gone is not None:
            return f"rank {rank} of {count} {one.gone}"
    for rank, one in enumerate(ranks):
        if not one.left and now - one.heard > lost_after:
            return f"rank {rank} of {count} has not been heard of for {now - one.heard:.0f} seconds"
    furthest, waits = max(((one.entered, rank) for rank, one in enumerate(ranks) if one.since is not None), default=(0, 0))
    for rank, one in enumerate(ranks):
        if one.left and one.entered < furthest:
            return f"rank {rank} of {count} has ended after {one.entered} exchanges; rank {waits} waits for it in number {furthest}"
    oldest, first = min(((one.since, rank) for rank, one in enumerate(ranks) if one.since is not None), default=(now, 0))
    if now - oldest <= timeout:
        return None
    at = "at its end" if ranks[first].left else f"in exchange {ranks[first].entered}"
    waited = f"rank {first} has waited for more than {timeout:.0f} seconds {at}"
    here = (ranks[first].left, ranks[first].entered)
    behind = [rank for rank, one in enumerate(ranks) if one.since is None or (one.left, one.entered) < here]
    return f"rank {behind[0]} of {count} hangs: {waited}" if behind else f"no rank of {count} continues: {waited}"


class _Monitor:
    def __init__(self, key: bytes, count: int, timeout: float, lost_after: float) -> None:
        self.key, self.timeout, self.lost_after = key, timeout, lost_after
        self.ranks = [RankStatus() for _ in range(count)]
        # The order of its events is that in which they happened, so the first socket that ends is that of the cause.
        self.selector = selectors.DefaultSelector()
        self.unread: dict[socket.socket, bytes] = {}
        self.rank_of: dict[socket.socket, int] = {}

    def serve(self, server: socket.socket) -> None:
        """Until all ranks have left, or have to end."""
        self.selector.register(server, selectors.EVENT_READ)
        begun = time.monotonic()
        reason = None
        while reason is None:
            for key, _ in self.selector.select(BEAT / 2):
                if key.fileobj is server:
                    connection, _ = server.accept()
                    self.unread[connection] = b""
                    self.selector.register(connection, selectors.EVENT_READ)
                elif isinstance(key.fileobj, socket.socket):
                    self.read(key.fileobj)
                reason = reason or self.judge()
            reason = reason or self.judge()
            missing = set(range(len(self.ranks))) - set(self.rank_of.values())
            if missing and time.monotonic() - begun > _COMES_WITHIN:
                reason = f"rank {min(missing)} of {len(self.ranks)} has not come within {_COMES_WITHIN:.0f} seconds"
            if all(one.left for one in self.ranks):
                self.say(BYE)
                return
        os.write(2, f"\nonnxgrad: {reason}. All ranks end.\n".encode())  # a rank may be in the middle of a line
        # An mpiexec that is told to abort drops what it has not read.
        time.sleep(BEAT)
        self.end()

    def judge(self) -> str | None:
        if len(self.rank_of) < len(self.ranks):
            return next((f"rank {i} of {len(self.ranks)} {one.gone}" for i, one in enumerate(self.ranks) if one.gone), None)
        return failure_reason(self.ranks, time.monotonic(), self.timeout, self.lost_after)

    def read(self, connection: socket.socket) -> None:
        """Read a message of a rank."""
        try:
            more = connection.recv(2**16)
        except OSError:
            more = b""
        if not more:
            self.selector.unregister(connection)
            one = self.ranks[self.rank_of[connection]] if connection in self.rank_of else RankStatus(left=True)
            if not one.left and one.gone is None:
                one.gone = "has died: it was killed, or ended without saying so"
            one.process = None
            return
        text = self.unread[connection] + more
        if connection not in self.rank_of and len(text) >= HELLO.size:
            key, rank, process, is_here = HELLO.unpack(text[: HELLO.size])
            text = text[HELLO.size :]
            if not hmac.compare_digest(key, self.key) or rank >= len(self.ranks):
                self.selector.unregister(connection)
                connection.close()
                return
            self.rank_of[connection] = rank
            now = time.monotonic()
            for one in self.ranks:
                one.heard = now
            self.ranks[rank].process = process if is_here else None
        while connection in self.rank_of and len(text) >= MESSAGE.size:
            message_type, entered, waits, size = MESSAGE.unpack(text[: MESSAGE.size])
            if len(text) < MESSAGE.size + size:
                break
            message, text = text[MESSAGE.size : MESSAGE.size + size], text[MESSAGE.size + size :]
            self.hear(self.ranks[self.rank_of[connection]], message_type, entered, waits, message.decode(errors="replace"))
        self.unread[connection] = text

    @staticmethod
    def hear(one: RankStatus, message_type: bytes, entered: int, waits: bool, message: str) -> None:
        now = one.heard = time.monotonic()
        if not waits:
            one.since = None
        elif one.since is None or one.entered != entered or (message_type == CLOSED and not one.left):
            one.since = now
        one.entered = entered
        if message_type == FAILED:
            one.gone = f"has raised {message.rstrip('.')}"
        one.left = one.left or message_type == CLOSED

    def say(self, what: bytes) -> None:
        for connection in self.rank_of:
            with suppress(OSError):
                connection.settimeout(1)
                connection.sendall(what)

    def end(self) -> None:
        """Tell the ranks to end, and see to it that they do."""
        self.say(END)
        limit = time.monotonic() + _GRACE
        while time.monotonic() < limit and any(one.process for one in self.ranks):
            for key, _ in self.selector.select(BEAT / 5):
                if isinstance(key.fileobj, socket.socket) and key.fileobj in self.rank_of:
                    self.read(key.fileobj)
        for one in self.ranks:
            if one.process is not None:
                with suppress(OSError):
                    os.kill(one.process, getattr(signal, "SIGKILL", signal.SIGTERM))


def _main(address: str, count: str, timeout: str, lost_after: str) -> None:
    key = sys.stdin.buffer.read(16)
    server = socket.create_server((address, 0), backlog=int(count))
    sys.stdout.write(f"{server.getsockname()[1]}\n")
    sys.stdout.close()
    _Monitor(key, int(count), float(timeout), float(lost_after)).serve(server)


if __name__ == "__main__":
    _main(*sys.argv[1:])
