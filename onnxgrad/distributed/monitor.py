"""The processes that watch over ranks, one on each machine. They outlive ranks, so they can still say which one ended the others.

Each rank tells the monitor of its machine, over a local socket, how many exchanges it has begun and how long it waits in one. That
monitor tells the first machine's the same of all its ranks together, so the first one hears machines, not ranks. Every message is
answered: who hears nothing for ``lost_after`` seconds is cut off, and ends. A message costs the same whatever the number of ranks;
what becomes due without one lies in a queue by time. When all have to end, the first monitor says why; each tells its ranks, and
kills those that do not obey.

It is run as a script, without this package: it uses the standard library alone. It reads a ``Plan`` as JSON from its standard input
and writes to its standard output where it listens.

Tests: tests/distributed/test_monitor.py, tests/distributed/test_mpi.py.
"""

from __future__ import annotations

import heapq
import hmac
import json
import math
import os
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

__all__ = [
    "ALIVE",
    "BEAT",
    "BYE",
    "CLOSED",
    "CUT",
    "END",
    "FAILED",
    "HEARD",
    "LOST",
    "Monitor",
    "Place",
    "Plan",
    "Status",
    "addresses",
    "beat_of",
    "failure_reason",
    "merged",
    "message_of",
    "reach",
    "status_of",
]

BEAT = 0.5
"""Seconds between two messages of a rank, and of a machine where there are at most 256."""
LOST = 75
"""Exit code of a rank that is cut off, which no other end has: the ``EX_TEMPFAIL`` of sysexits.h, "try again later"."""
HELLO = struct.Struct("!16sIQ")
"""Key, number of the child, and process number; 0 of a machine."""
_PLACE = "??QI"
MESSAGE = struct.Struct(f"!cI{_PLACE}d{_PLACE}QIQII")
"""Kind, a ``Status``, and the bytes of a text that follows."""
ALIVE, CLOSED, FAILED = b"a", b"l", b"f"
END, BYE, CUT, HEARD = b"e", b"b", b"c", b"h"
"""What a monitor says: that all have to end, that all have left, that this machine is cut off, or that it has heard."""
_GRACE = {BYE: 3.0, CUT: 3.0, END: 1.0}
"""Seconds that ranks have to end by themselves. MPI's abort, which they call at END, may wait for a machine that is cut off."""
_COMES_WITHIN = 60.0
_REACHED_WITHIN = 5.0
_MACHINES = 256
_SIOCGIFADDR = 0x8915


class Place(NamedTuple):
    """The place of a rank in its program; the rank that is furthest behind has the least.

    Attributes:
        waits: whether it waits for others; False while it computes.
        left: whether it has ended as a program does, which counts as waiting.
        entered: exchanges that it has begun.
        rank: its number.
    """

    waits: bool
    left: bool
    entered: int
    rank: int


class Status(NamedTuple):
    """What is known of one rank, or of several together.

    Attributes:
        ended: how many have left.
        slowest: the place of the rank that is furthest behind.
        since: when the rank began to wait that has waited longest, by ``time.monotonic``; infinity if none waits.
        oldest: the place of that rank.
        furthest: the exchange that a rank waits in, and its number: of the one that is furthest.
        earliest: exchanges of a rank that has left, and its number: of the one that has fewest.
    """

    ended: int
    slowest: Place
    since: float
    oldest: Place
    furthest: tuple[int, int]
    earliest: tuple[int, int]


_NEVER = (2**63, 0)


def status_of(place: Place, since: float) -> Status:
    """The status of one rank.

    Args:
        place: of the rank.
        since: when it began to wait; not read while it computes.
    """
    mark = (place.entered, place.rank)
    earliest = mark if place.left else _NEVER
    return Status(int(place.left), place, since if place.waits else math.inf, place, mark if place.waits else (0, 0), earliest)


def merged(statuses: Sequence[Status]) -> Status:
    """The status of several ranks, or groups of them, together; at least one."""
    oldest = min(statuses, key=lambda one: one.since)
    return Status(
        sum(one.ended for one in statuses),
        min(one.slowest for one in statuses),
        oldest.since,
        oldest.oldest,
        max(one.furthest for one in statuses),
        min(one.earliest for one in statuses),
    )


def failure_reason(status: Status, count: int, now: float, timeout: float) -> str | None:
    """Why all ranks have to end, if they have.

    Args:
        status: of all ranks.
        count: of ranks.
        now: seconds, by ``time.monotonic``.
        timeout: seconds that a rank may wait for another.
    """
    early = _left_early(status.earliest, status.furthest, count)
    if early is not None or now - status.since <= timeout:
        return early
    first, slowest = status.oldest, status.slowest
    at = "at its end" if first.left else f"in exchange {first.entered}"
    waited = f"rank {first.rank} has waited for more than {timeout:.0f} seconds {at}"
    is_behind = not slowest.waits or (slowest.left, slowest.entered) < (first.left, first.entered)
    return f"rank {slowest.rank} of {count} hangs: {waited}" if is_behind else f"no rank of {count} continues: {waited}"


def _left_early(earliest: tuple[int, int], furthest: tuple[int, int], count: int) -> str | None:
    (fewest, left), (most, waiting) = earliest, furthest
    if fewest >= most:
        return None
    return f"rank {left} of {count} has ended after {fewest} exchanges; rank {waiting} waits for it in number {most}"


def message_of(kind: bytes, status: Status, now: float, text: str = "") -> bytes:
    """The bytes that tell a monitor a status; times travel as seconds that have passed.

    Args:
        kind: ALIVE, CLOSED of a rank that has left, or FAILED.
        status: of one rank, or of a machine.
        now: by ``time.monotonic``.
        text: with FAILED, why all have to end.
    """
    said = text.encode()[:600]
    waited = now - status.since
    numbers = (*status.slowest, waited, *status.oldest, *status.furthest, *status.earliest)
    return MESSAGE.pack(kind, status.ended, *numbers, len(said)) + said


def beat_of(lost_after: float, machines: int = 1) -> float:
    """Seconds between two messages: more where more than 256 machines send them, so the first one hears 512 a second at most."""
    return min(BEAT * max(1.0, machines / _MACHINES), lost_after / 4)


class Plan(NamedTuple):
    """What a monitor is told.

    Attributes:
        key: 32 hexadecimal digits, which all of a job know.
        children: of each rank of this machine, and on the first machine of each other one, its number, its name, and its ranks.
        ranks: how many the job has.
        timeout: seconds that a rank may wait for another.
        lost_after: seconds without a message after which a child, or the first machine, is lost.
        beat: seconds between two messages to the first machine.
        number: of this machine: that of its first rank.
        name: of this machine, in messages.
        first: addresses of the first machine; None there.
        port: of the first machine.
        is_open: whether other machines reach this one.
    """

    key: str
    children: list[tuple[int, str, int]]
    ranks: int
    timeout: float
    lost_after: float
    beat: float
    number: int = 0
    name: str = ""
    first: list[str] | None = None
    port: int = 0
    is_open: bool = False


def addresses() -> list[str]:
    """The addresses of this machine that others may reach, the likeliest first, and its name, which may not resolve there."""
    known: list[str] = []
    for family, away in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        # Nothing is sent: the system says by which of its addresses it would.
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((away, 9))
            known.append(probe.getsockname()[0])
    with suppress(OSError):
        for _, name in socket.if_nameindex():
            known += _address_of(name)
    with suppress(OSError), open("/proc/net/if_inet6") as file:
        known += [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line.split()[0])) for line in file]
    host = socket.gethostname()
    with suppress(OSError):
        known += [str(one[4][0]) for one in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    reached = [one for one in known if not one.startswith(("127.", "fe80:", "0.0.0.0")) and one != "::1"]
    return list(dict.fromkeys([*reached, host]))


def _address_of(interface: str) -> list[str]:
    """The IPv4 address of an interface, as Linux gives it"""
    try:
        from fcntl import ioctl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            return [socket.inet_ntoa(ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))[20:24])]
    except (ImportError, OSError):
        return []


def reach(hosts: Sequence[str], port: int, hello: bytes) -> socket.socket:
    """Connect with a monitor, by the first address at which one answers that knows the key.

    Args:
        hosts: addresses and names.
        port: that it listens at.
        hello: what it is told first.

    Raises:
        OSError: if it answers at none.
    """
    errors = []
    for host in hosts:
        try:
            connection = socket.create_connection((host, port), timeout=_REACHED_WITHIN)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(hello)
            # Another machine may have the same private address.
            if connection.recv(1) == HEARD:
                connection.settimeout(None)
                return connection
            connection.close()
            errors.append(f"{host}: somebody else listens there")
        except OSError as error:
            errors.append(f"{host}: {error}")
    raise OSError(f"port {port} of " + "; ".join(errors))


class _Child:
    """A rank of this machine, or another machine."""

    def __init__(self, number: int, name: str, ranks: int) -> None:
        self.name, self.ranks = name, ranks
        self.connection: socket.socket | None = None
        self.status = status_of(Place(False, False, 0, number), 0.0)
        self.heard = 0.0
        self.process = 0
        self.is_gone = False

    @property
    def has_left(self) -> bool:
        return self.status.ended == self.ranks


class Monitor:
    """The monitor of a machine.

    Args:
        plan: what to watch.
        above: connection with the first machine's monitor; None there.
    """

    def __init__(self, plan: Plan, above: socket.socket | None = None) -> None:
        self.plan, self.above = plan, above
        self.children = {number: _Child(number, name, ranks) for number, name, ranks in plan.children}
        self.selector = selectors.DefaultSelector()
        self.unread: dict[socket.socket, bytes] = {}
        self.child_of: dict[socket.socket, _Child] = {}
        self.ended, self.furthest, self.earliest = 0, (0, 0), _NEVER
        self.word: bytes | None = None
        self.unsent = b""
        self.missing = set(self.children)
        self.begun = self.heard = self.told = time.monotonic()
        # A child is looked at when its entry is due, and then gets the next one: it has one at any time, from when it has come.
        self.due: list[tuple[float, int]] = []
        self.timeout = plan.timeout if above is None else math.inf

    def serve(self, server: socket.socket) -> None:
        """Until all ranks have left, or have to end."""
        self.selector.register(server, selectors.EVENT_READ)
        if self.above is not None:
            self.above.setblocking(False)
            self.selector.register(self.above, selectors.EVENT_READ)
        while self.word is None:
            # Their order is that in which they happened, so the first socket that ends is that of the cause.
            for key, _ in self.selector.select(self.patience()):
                if key.fileobj is server:
                    connection, _ = server.accept()
                    connection.setblocking(False)
                    self.unread[connection] = b""
                    self.selector.register(connection, selectors.EVENT_READ)
                elif key.fileobj is self.above:
                    self.hear_above()
                elif isinstance(key.fileobj, socket.socket):
                    self.read(key.fileobj)
                if self.word is not None:
                    break
            # What had come was read first: this process may have been stopped for a while.
            self.look(time.monotonic())
            if self.above is None and self.ended == self.plan.ranks:
                self.word = self.word or BYE
        self.finish(self.word)

    def patience(self) -> float:
        """Seconds until something is due without a message."""
        due = [self.due[0][0]] if self.due else []
        if self.missing:
            due.append(self.begun + _COMES_WITHIN)
        if self.above is not None:
            due += [self.told + self.plan.beat, self.heard + self.plan.lost_after]
        return max(0.0, min(due) - time.monotonic()) if due else BEAT

    def look(self, now: float) -> None:
        """See to what is due."""
        while self.due and self.due[0][0] <= now and self.word is None:
            _, number = heapq.heappop(self.due)
            child = self.children[number]
            if child.is_gone:
                continue
            lost = math.inf if child.has_left else child.heard + self.plan.lost_after
            next_due = min(lost, child.status.since + self.timeout)
            if next_due > now:
                # It may begin to wait right after.
                heapq.heappush(self.due, (min(next_due, now + min(self.plan.lost_after, self.timeout)), number))
            elif lost <= now:
                self.lose(child, f"has not been heard of for {now - child.heard:.0f} seconds")
            elif reason := failure_reason(self.known(), self.plan.ranks, now, self.timeout):
                self.fail(reason)
            else:  # by rounding, it waits a moment less
                heapq.heappush(self.due, (now + BEAT / 10, number))
        if self.missing and now - self.begun > _COMES_WITHIN:
            number = min(self.missing)
            self.missing.clear()
            self.fail(f"{self.children[number].name} has not come within {_COMES_WITHIN:.0f} seconds")
        if self.above is None or self.word is not None:
            return
        if now - self.heard >= self.plan.lost_after:
            self.be_cut(f"has heard nothing of the machine of rank 0 for {now - self.heard:.0f} seconds")
        elif now - self.told >= self.plan.beat:
            self.told = now
            self.tell(ALIVE)

    def known(self) -> Status:
        """The status of all children together."""
        return merged([one.status for one in self.children.values()])

    # What children say -----------------------------------------------------------------------------------------------

    def read(self, connection: socket.socket) -> None:
        """Read what a child, or who wants to be one, has sent."""
        try:
            more = connection.recv(2**16)
        except BlockingIOError:
            return
        except OSError:
            more = b""
        if not more:
            self.close(connection)
            return
        text = self.unread[connection] + more
        if connection not in self.child_of and len(text) >= HELLO.size:
            key, number, process = HELLO.unpack(text[: HELLO.size])
            child = self.children.get(number)
            if child is None or child.connection is not None or not hmac.compare_digest(key, bytes.fromhex(self.plan.key)):
                self.close(connection)
                return
            text = text[HELLO.size :]
            child.connection, child.process, child.heard = connection, process, time.monotonic()
            self.missing.discard(number)
            self.child_of[connection] = child
            heapq.heappush(self.due, (child.heard + min(self.plan.lost_after, self.timeout), number))
            self.answer(connection)
        while connection in self.child_of and len(text) >= MESSAGE.size:
            kind, ended, *numbers, size = MESSAGE.unpack_from(text)
            if len(text) < MESSAGE.size + size:
                break
            said, text = text[MESSAGE.size : MESSAGE.size + size].decode(errors="replace"), text[MESSAGE.size + size :]
            now = time.monotonic()
            slowest, waited, oldest = Place(*numbers[:4]), numbers[4], Place(*numbers[5:9])
            furthest, earliest = (numbers[9], numbers[10]), (numbers[11], numbers[12])
            self.hear(self.child_of[connection], kind, Status(ended, slowest, now - waited, oldest, furthest, earliest), said, now)
        self.unread[connection] = text

    def hear(self, child: _Child, kind: bytes, status: Status, text: str, now: float) -> None:
        """A message of a child."""
        self.ended += status.ended - child.status.ended
        child.status, child.heard = status, now
        # What a rank has waited in is still known where it goes on: one that left before does not come there.
        self.furthest, self.earliest = max(self.furthest, status.furthest), min(self.earliest, status.earliest)
        if kind == FAILED:
            child.is_gone = True
            self.fail(text)
        elif self.above is None and (early := _left_early(self.earliest, self.furthest, self.plan.ranks)):
            self.fail(early)
        if child.connection is not None:
            self.answer(child.connection)

    def close(self, connection: socket.socket) -> None:
        """Somebody has ended."""
        self.selector.unregister(connection)
        connection.close()
        del self.unread[connection]
        child = self.child_of.pop(connection, None)
        if child is None:
            return
        child.process = 0
        if not child.has_left and not child.is_gone:
            self.lose(child, "has died: it was killed, or ended without saying so")
        child.is_gone = True

    def lose(self, child: _Child, course: str) -> None:
        child.is_gone = True
        self.fail(f"{child.name} {course}")

    def answer(self, connection: socket.socket) -> None:
        """Who does not read is answered no more."""
        with suppress(OSError):
            connection.send(HEARD)

    # What this one says ----------------------------------------------------------------------------------------------

    def fail(self, reason: str) -> None:
        """All have to end, says the first machine; another one tells it."""
        if self.word is not None:
            return
        if self.above is not None:
            self.tell(FAILED, reason)
            return
        self.word = END
        self.print(f"{reason}. All ranks end.")

    def be_cut(self, course: str) -> None:
        """The ranks of this machine end."""
        self.word = CUT
        self.print(f"{self.plan.name} {course}. Its ranks end.")

    def print(self, text: str) -> None:
        with suppress(OSError):  # who reads it may have ended
            os.write(2, f"\nonnxgrad: {text}\n".encode())  # a rank may be in the middle of a line
        # An mpiexec that is told to abort drops what it has not read.
        time.sleep(BEAT)

    def tell(self, kind: bytes, text: str = "") -> None:
        """Tell the first machine what is known here."""
        assert self.above is not None
        if kind == FAILED or not self.unsent:
            self.unsent += message_of(kind, self.known(), time.monotonic(), text)
        with suppress(OSError):
            self.unsent = self.unsent[self.above.send(self.unsent) :]

    def hear_above(self) -> None:
        """What the first machine says."""
        assert self.above is not None
        try:
            words = self.above.recv(2**10)
        except BlockingIOError:
            return
        except OSError:
            words = b""
        self.heard = time.monotonic()
        if END in words or BYE in words:
            self.word = END if END in words else BYE
        elif not words:
            self.be_cut("has lost the monitor of rank 0, which was killed, or its machine has ended")

    def finish(self, word: bytes) -> None:
        """Tell all, and see to it that the ranks of this machine end, where it is not by themselves."""
        for connection in self.child_of:
            with suppress(OSError):
                connection.send(word)
        limit = time.monotonic() + _GRACE[word]
        # A word may be lost where the socket that it went through is closed before all that came was read.
        while time.monotonic() < limit and self.child_of:
            for key, _ in self.selector.select(BEAT / 5):
                if isinstance(key.fileobj, socket.socket) and key.fileobj in self.child_of:
                    self.read(key.fileobj)
        for one in self.children.values():
            if one.process and word != BYE:
                with suppress(OSError):
                    os.kill(one.process, getattr(signal, "SIGKILL", signal.SIGTERM))


def _listening(plan: Plan) -> socket.socket:
    backlog = len(plan.children) + 16
    if plan.is_open and socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
    return socket.create_server(("" if plan.is_open else "127.0.0.1", 0), backlog=backlog)


def _allow_files() -> None:
    """As many open sockets as the system allows: often 1,024 unless one asks."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _main() -> None:
    known: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    plan = Plan(**known)
    _allow_files()
    above = None
    answer: dict[str, Any] = {}
    try:
        if plan.first is not None:
            above = reach(plan.first, plan.port, HELLO.pack(bytes.fromhex(plan.key), plan.number, 0))
        server = _listening(plan)
        answer = {"port": server.getsockname()[1], "addresses": addresses() if plan.is_open else []}
    except OSError as error:
        answer = {"port": 0, "error": str(error)}
    sys.stdout.write(f"{json.dumps(answer)}\n")
    sys.stdout.close()
    if answer["port"]:
        Monitor(plan, above).serve(server)


if __name__ == "__main__":
    _main()
