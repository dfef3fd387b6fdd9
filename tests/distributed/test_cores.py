"""How ranks of one machine share its cores."""

import threading

import numpy as np

from onnxgrad.distributed import cores, run_local
from onnxgrad.distributed.cores import _hash, _mask, cores_of_rank, cores_of_ranks


def table(*ranks):
    """(machine, process group, cores) of each rank"""
    return np.stack([np.concatenate([_hash(machine), _hash(group), _mask(set(bound))]) for machine, group, bound in ranks])


def shares(ranks, quota=None):
    rows = table(*ranks)
    return [cores_of_ranks(rows, rank, quota) for rank in range(len(ranks))]


def test_ranks_share_the_cores_that_they_have_in_common():
    assert shares([("a", "g", range(8))] * 4) == [2, 2, 2, 2]
    assert shares([("a", "g", range(8))] * 3) == [2, 2, 2]
    assert shares([("a", "g", range(2))] * 4) == [1, 1, 1, 1]
    # On two machines, of which one has one rank alone.
    assert shares([("a", "g", range(8)), ("a", "g", range(8)), ("b", "g", range(6))]) == [4, 4, 6]


def test_ranks_that_a_scheduler_has_bound_keep_their_cores():
    """Each has cores of its own already: they are not divided once more"""
    assert shares([("a", "g", range(4)), ("a", "g", range(4, 8)), ("a", "g", range(8, 9))]) == [4, 4, 1]
    assert shares([("a", "g", range(4)), ("a", "g", range(2, 6))]) == [3, 3]


def test_ranks_of_one_container_share_its_quota():
    assert shares([("a", "g", range(64))] * 4, quota=8.0) == [2, 2, 2, 2]
    assert shares([("a", "g", range(64)), ("a", "other", range(64))], quota=8.0) == [8, 8]
    assert shares([("a", "g", range(64))] * 4, quota=1.5) == [1, 1, 1, 1]


def test_ranks_tell_each_other_what_they_may_use(monkeypatch):
    monkeypatch.setattr(cores, "bound_cores", lambda: set(range(6)))
    monkeypatch.setattr(cores, "core_quota", lambda: None)
    assert run_local(3, cores_of_rank) == [2, 2, 2]


def test_all_ranks_have_as_many_threads(monkeypatch):
    """Threads may add up in another order, and ranks are equal to the bit"""
    bound = {"onnxgrad-0": range(4), "onnxgrad-1": range(4, 6)}
    monkeypatch.setattr(cores, "bound_cores", lambda: set(bound[threading.current_thread().name]))
    monkeypatch.setattr(cores, "core_quota", lambda: None)

    def share(transport):
        threading.current_thread().name = f"onnxgrad-{transport.rank}"
        return cores_of_rank(transport)

    assert run_local(2, share) == [2, 2]
