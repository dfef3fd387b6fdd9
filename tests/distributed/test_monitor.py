"""What a monitor says of ranks and machines that end, hang or are cut off; and what a rank does that hears nothing."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from onnxgrad.distributed import Alone, monitor, run_local, watch
from onnxgrad.distributed.groups import _WatchedGroup
from onnxgrad.distributed.monitor import ALIVE, BYE, CLOSED, CUT, END, FAILED, HEARD, HELLO, LOST, Place, Plan
from onnxgrad.distributed.watch import Watch, WatchedTransport
from onnxgrad.errors import TrainingError
from tests.distributed.ranks import ROOT

KEY = bytes(range(16))


# What is known of ranks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ([(3, None), (4, 99.5)], None),
        ([(3, 99.0, "left"), (4, 99.5)], "rank 0 of 2 has ended after 3 exchanges; rank 1 waits for it in number 4"),
        ([(3, None), (4, 80.0)], "rank 0 of 2 hangs: rank 1 has waited for more than 10 seconds in exchange 4"),
        ([(4, 80.0), (4, 81.0)], "no rank of 2 continues: rank 0 has waited for more than 10 seconds in exchange 4"),
        ([(3, 80.0, "left"), (3, None)], "rank 1 of 2 hangs: rank 0 has waited for more than 10 seconds at its end"),
        ([(3, 99.0, "left"), (3, 99.0, "left")], None),
        ([(5, 80.0), (5, 82.0), (4, 99.9), (6, None)], "rank 3 of 4 hangs: rank 0 has waited"),
        ([(5, 80.0), (5, 82.0), (4, 99.9), (6, 99.9)], "rank 2 of 4 hangs: rank 0 has waited"),
    ],
)
def test_the_watch_names_the_rank(ranks, said):
    """By what is known of each, or of machines of two ranks"""
    statuses = [
        monitor.status_of(Place(since is not None, bool(left), entered, rank), since or 0.0)
        for rank, (entered, since, *left) in enumerate(ranks)
    ]
    for step in (1, 2):
        known = monitor.merged([monitor.merged(statuses[first : first + step]) for first in range(0, len(statuses), step)])
        reason = monitor.failure_reason(known, len(ranks), 100.0, 10.0)
        assert reason is None if said is None else (reason or "").startswith(said)
    assert known.ended == sum(len(rank) == 3 for rank in ranks)


# Monitors, to which the tests speak as ranks ---------------------------------------------------------------------------


class Job:
    """The first machine has rank 0, another one ranks 1 and 2; the test is all of them."""

    def __init__(self, tmp_path, timeout=30.0, lost_after=30.0):
        self.errors = tmp_path / "errors"
        children = [(0, "rank 0 of 3", 1), (1, "machine b (ranks 1 to 2 of 3)", 2)]
        plan = Plan(KEY.hex(), children, 3, timeout, lost_after, 0.05, is_open=True)
        self.first, answer = self.start(plan)
        children = [(rank, f"rank {rank} of 3", 1) for rank in (1, 2)]
        below = plan._replace(children=children, number=1, name=children[0][1].replace("rank 1", "machine b"), is_open=False)
        self.second, near = self.start(below._replace(first=["127.0.0.1"], port=answer["port"]))
        self.ranks = [
            monitor.reach(["127.0.0.1"], port, HELLO.pack(KEY, rank, 0))
            for rank, port in enumerate([answer["port"], near["port"], near["port"]])
        ]

    def start(self, plan):
        with self.errors.open("a") as errors:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", monitor.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        process.stdin.write(json.dumps(plan._asdict()).encode() + b"\n")
        process.stdin.close()
        return process, json.loads(process.stdout.readline())

    def say(self, rank, kind, entered=1, waited=None, text=""):
        now = time.monotonic()
        place = Place(waited is not None, kind == CLOSED, entered, rank)
        self.ranks[rank].sendall(monitor.message_of(kind, monitor.status_of(place, now - (waited or 0.0)), now, text))

    def words(self, *ranks, beats=True, within=10.0):
        """The word that each of these ranks is told before long, while they go on beating"""
        words = {}
        for rank in ranks:
            self.ranks[rank].settimeout(0.05)
        limit = time.monotonic() + within
        while len(words) < len(ranks) and time.monotonic() < limit:
            for rank in ranks:
                if rank in words:
                    continue
                try:
                    said = self.ranks[rank].recv(1000).replace(HEARD, b"")
                except TimeoutError:
                    said = b""
                if said:
                    words[rank] = said
                    self.ranks[rank].close()
                elif beats:
                    self.say(rank, ALIVE)
        return [words.get(rank) for rank in ranks]

    def said(self):
        """What the monitors have written"""
        return self.errors.read_text().split("\nonnxgrad: ")[1:]


@pytest.fixture
def job(tmp_path):
    jobs = []

    def start(**limits):
        jobs.append(Job(tmp_path, **limits))
        return jobs[-1]

    yield start
    for one in jobs:
        for process in (one.first, one.second):
            process.kill()
            process.wait()
            process.stdout.close()
        for rank in one.ranks:
            rank.close()


@pytest.mark.process
class TestMonitor:
    def test_all_leave_together(self, job):
        one = job()
        for rank in range(3):
            one.say(rank, CLOSED, 7, 0.0)
        assert one.words(0, 1, 2, beats=False) == [BYE] * 3
        assert [one.first.wait(5), one.second.wait(5), one.said()] == [0, 0, []]

    @pytest.mark.parametrize("how", ["dies", "raises", "leaves", "hangs"])
    def test_a_rank_of_another_machine_ends_all_by_name(self, job, how):
        one = job(timeout=0.3 if how == "hangs" else 30.0)
        if how == "dies":
            one.ranks[2].close()
        if how == "raises":
            one.say(2, FAILED, text="rank 2 of 3 has raised KeyError: 'lost'")
        if how == "leaves":
            one.say(2, CLOSED, 1, 0.0)
        if how in ("leaves", "hangs"):
            one.say(0, ALIVE, 2, 0.1)
        expected = {
            "dies": "rank 2 of 3 has died: it was killed, or ended without saying so. All ranks end.\n",
            "raises": "rank 2 of 3 has raised KeyError: 'lost'. All ranks end.\n",
            "leaves": "rank 2 of 3 has ended after 1 exchanges; rank 0 waits for it in number 2. All ranks end.\n",
            "hangs": "rank 1 of 3 hangs: rank 0 has waited for more than 0 seconds in exchange 2. All ranks end.\n",
        }
        assert one.words(0, 1, beats=False) == [END, END]
        assert one.said() == [expected[how]]

    def test_a_rank_that_is_stopped_is_lost(self, job):
        one = job(lost_after=0.6)
        assert one.words(0, 2) == [END, END]
        assert one.said() == ["rank 1 of 3 has not been heard of for 1 seconds. All ranks end.\n"]

    @pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
    def test_a_machine_that_is_lost_ends_the_others(self, job, how):
        one = job(lost_after=0.6)
        one.say(1, ALIVE)
        time.sleep(0.2)
        one.second.send_signal(how)
        assert one.words(0) == [END]
        (said,) = one.said()
        course = "has not been heard of for 1 seconds" if how == signal.SIGSTOP else "has died"
        assert said.startswith(f"machine b (ranks 1 to 2 of 3) {course}")

    @pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
    def test_a_machine_that_is_cut_off_ends_its_ranks(self, job, how):
        one = job(lost_after=0.6)
        one.first.send_signal(how)
        assert one.words(1, 2) == [CUT, CUT]
        (said,) = one.said()
        course = "has heard nothing of the machine of rank 0" if how == signal.SIGSTOP else "has lost the monitor of rank 0"
        assert said.startswith(f"machine b of 3 {course}") and said.endswith("Its ranks end.\n")

    def test_who_does_not_know_the_key_is_sent_away_and_the_next_address_is_tried(self, tmp_path):
        plan = Plan(KEY.hex(), [(0, "rank 0 of 1", 1)], 1, 30.0, 30.0, 0.5, is_open=True)
        process, answer = Job.start(type("Files", (), {"errors": tmp_path / "errors"}), plan)
        try:
            with pytest.raises(OSError, match=r"127\.0\.0\.1: somebody else listens there"):
                monitor.reach(["127.0.0.1"], answer["port"], HELLO.pack(bytes(16), 0, 0))
            # 127.0.0.9 is of a listener that was there before, as where two machines have one private address.
            with socket.socket() as other:
                other.bind(("127.0.0.9", 0))
                with pytest.raises(OSError, match="refused"):
                    monitor.reach(["127.0.0.9"], other.getsockname()[1], b"")
            name = "does-not-resolve.invalid"
            connection = monitor.reach([name, "127.0.0.1"], answer["port"], HELLO.pack(KEY, 0, 0))
            assert connection.getpeername()[0].endswith("127.0.0.1")
            connection.close()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def test_messages_cost_the_same_whatever_the_number_of_ranks(monkeypatch):
    """Statuses that are looked at for a message: of one child, and where one is due"""
    looks = []
    monkeypatch.setattr(monitor, "merged", lambda statuses: looks.append(len(statuses)) or statuses[0])
    children = [(rank, f"rank {rank}", 1) for rank in range(1000)]
    watch = monitor.Monitor(Plan("", children, 1000, 600.0, 60.0, 0.5))
    for beat in range(3):
        for rank in range(1000):
            watch.hear(watch.children[rank], ALIVE, monitor.status_of(Place(True, False, beat, rank), 0.0), "", float(beat))
    assert looks == [] and watch.due == []


def test_many_machines_beat_less_often():
    assert monitor.beat_of(60.0) == monitor.beat_of(60.0, 256) == monitor.BEAT
    assert monitor.beat_of(60.0, 4096) == 8.0
    assert monitor.beat_of(12.0, 4096) == 3.0


def test_addresses_are_numbers_before_the_name():
    *numbers, name = monitor.addresses()
    assert name == socket.gethostname() and "127.0.0.1" not in numbers
    for number in numbers:
        socket.getaddrinfo(number, None, flags=socket.AI_NUMERICHOST)


# Ranks that make a watch -----------------------------------------------------------------------------------------------


def test_all_ranks_say_which_one_does_not_reach_the_first(monkeypatch):
    """Three threads on two machines; the second does not reach the first"""
    monkeypatch.setattr(watch, "hosts", lambda transport: np.array([[*b"0123456789abcdef", name] for name in b"aba"], np.uint8))
    plans = []

    def started(plan):
        plans.append(plan)
        return {"port": 1, "addresses": ["192.0.2.7", "a"]} if plan.first is None else {"port": 0, "error": "refused"}

    monkeypatch.setattr(watch, "_started", started)

    def one(transport):
        with pytest.raises(TrainingError) as error:
            Watch(transport, print)
        return str(error.value)

    first, second, third = run_local(3, one)
    assert "rank 1 does not reach the watch of rank 0 (refused). Open the ports" in second
    assert first == third and "rank 1 does not reach the watch of rank 0 (see its message)" in first
    of_first, of_second = sorted(plans, key=lambda plan: plan.number)
    assert of_first.children == [(0, "rank 0 of 3", 1), (2, "rank 2 of 3", 1), (1, "machine b (rank 1 of 3)", 1)]
    assert of_second.children == [(1, "rank 1 of 3", 1)] and of_second.name == "machine b (rank 1 of 3)"
    assert (of_second.first, of_second.port, of_second.key) == (["192.0.2.7", "a"], 1, of_first.key)
    assert of_first.is_open and not of_second.is_open


# A rank that waits -----------------------------------------------------------------------------------------------------


def test_a_rank_waits_in_what_is_not_counted_too():
    """In messages between two ranks, and in exchanges of groups; also those that fail end"""
    one = Watch.__new__(Watch)
    one._entered, one._since, seen = 0, None, []

    class Engine(Alone):
        def all_reduce_(self, buffer, op="sum"):
            seen.append((one._entered, one._since is not None))

        def receive_(self, buffer, source):
            self.all_reduce_(buffer)
            raise OSError("the network is down")

        send = receive_

    buffer = np.zeros(2)
    transport, group = WatchedTransport(Engine(), one), _WatchedGroup(Engine(), one)
    transport.all_reduce_(buffer)
    group.all_reduce_(buffer)
    for call in (transport.send, transport.receive_, group.receive_):
        with pytest.raises(OSError, match="down"):
            call(buffer, 0)
        assert one._since is None
    assert seen == [(1, True)] * 5


# A rank that hears nothing ---------------------------------------------------------------------------------------------

_RANK = """
import ctypes, os, signal, subprocess, sys
from onnxgrad.distributed import Alone
from onnxgrad.distributed.watch import Watch
started, popen = [], subprocess.Popen
subprocess.Popen = lambda *args, **more: (started.append(popen(*args, **more)), started[-1])[1]
watch = Watch(Alone(), os._exit, lost_after=1.0)
print(started[0].pid, end="")
os.kill(started[0].pid, getattr(signal, sys.argv[1]))
with watch.waiting():
    ctypes.CDLL(None).pause()  # a call that never returns, and sees no signal
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="stops a process")
@pytest.mark.parametrize(
    ("how", "said"),
    [("SIGSTOP", "has heard nothing of its watch for 1 seconds"), ("SIGKILL", "has lost its watch, which was killed")],
)
def test_a_rank_whose_monitor_answers_no_more_ends_by_itself(how, said, tmp_path):
    """Inside a call that blocks; what it has printed is written"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with open(tmp_path / "out", "w+") as out, open(tmp_path / "err", "w+") as err:  # a pipe would stay open with the monitor
        code = subprocess.call([sys.executable, "-c", _RANK, how], stdout=out, stderr=err, timeout=60, cwd=ROOT, env=environment)
    with contextlib.suppress(ProcessLookupError):
        os.kill(int((tmp_path / "out").read_text()), signal.SIGKILL)
    assert code == LOST
    assert (tmp_path / "err").read_text().strip() == f"onnxgrad: rank 0 of 1 {said}. It ends."
