"""Checkpoints of which each rank writes its ranges: read by any number of ranks, and by one process; old or new, never between."""

from pathlib import Path

import numpy as np
import pytest

from onnxgrad.core.ir.variable import Parameter
from onnxgrad.core.step import cut
from onnxgrad.distributed import Strategy, buckets
from onnxgrad.errors import ModelError, TrainingError
from onnxgrad.internal import tensor_file
from onnxgrad.internal.tensor_file import ShardedTensor, read_tensors, shard_files
from onnxgrad.training.run import checkpoint
from tests.distributed.test_trainer import assert_close, on_ranks, trainer
from tests.training.small import assert_equal, data, weights


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(cut, "SMALL", 4)
    monkeypatch.setattr(buckets, "ALIGNMENT", 4)


BATCHES = [{k: v[a : a + 6] for k, v in data().items()} for a in range(0, 36, 6)]


def steps(first, last, source, target, **options):
    """Some steps on the ranks that there are, from a checkpoint to another"""

    def work(transport=None):
        t = trainer(distributed=Strategy(sharding=1) if transport else False, optimizer="adam", **options)
        if source:
            t.load(source)
        size, rank = (1, 0) if transport is None else (transport.world_size, transport.rank)
        for batch in BATCHES[first:last]:
            t.step({k: np.array_split(v, size)[rank] for k, v in batch.items()})
        if target:
            t.save(target)
        if transport is not None:
            t.ranks.step.gather(everywhere=True)
        return weights(t)

    return work


@pytest.mark.parametrize("accumulate", [1, 2])
def test_ranges_that_two_ranks_write_are_read_by_three_and_by_one(tmp_path, monkeypatch, accumulate):
    """Each of three reads no more elements than it holds; the files of another number of ranks name others"""
    read = []
    whole_range = ShardedTensor.range

    def noted(self, start, stop, terms=None):
        read.append((self.name, stop - start))
        return whole_range(self, start, stop, terms)

    monkeypatch.setattr(ShardedTensor, "range", noted)
    alone = steps(0, 6, None, None, accumulate=accumulate)()
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    saved = on_ranks(2, steps(0, 2, None, first, accumulate=accumulate))[0]
    assert len(shard_files(first)) == 2 and len(list(tmp_path.glob("*.shard"))) == 2
    held = {name: array for name, array in read_tensors(first).arrays.items() if isinstance(array, ShardedTensor)}
    assert held and all("moment" in name for name in held)
    for name, array in held.items():
        np.testing.assert_array_equal(np.asarray(array), saved[name])
    read.clear()
    on_ranks(3, steps(2, 4, first, second, accumulate=accumulate))
    moments = {name: array for name, array in held.items() if array.shape}
    taken = {name: sum(size for other, size in read if other == name) for name in moments}
    checked = {name: int(np.prod(array.shape)) for name, array in moments.items()}  # whether numbers are finite, on each rank
    assert taken == {name: (3 + 1) * size for name, size in checked.items()}
    assert_close(steps(4, 6, second, None, accumulate=accumulate)(), alone, rtol=1e-3, atol=3e-5)


TERMS = {"optimizer": "adam", "accumulate": 2}


def own_terms(t):
    """What this rank adds to sums over ranks, by the names that a file has for them"""
    sums = t.ranks.step.sums
    rests = {f"rest of {name}": rest.copy() for name, rest in sums.rests().items()}
    return {**rests, **{v.name: v.get_value() for v in sums.sums}}


def added(*terms):
    return {name: sum(term[name] for term in terms) for name in terms[0]}


@pytest.mark.parametrize("sharding", [0, 1])
def test_each_rank_writes_what_compression_has_kept_and_its_sums_and_any_number_reads_them(tmp_path, monkeypatch, sharding):
    """Within an update. Of two ranks the third has nothing, of three the first of two has two; the sums stay the same"""
    read = []
    original = ShardedTensor.range
    monkeypatch.setattr(ShardedTensor, "range", lambda *a: (read.append((a[0].name, *a[3:])), original(*a))[1])

    def work(source, target, count):
        def run(transport):
            t = trainer(distributed=Strategy(sharding=sharding, compress="top-k", top_k=0.3), **TERMS)
            if source:
                t.load(tmp_path / source)
            for batch in BATCHES[:count]:
                t.step({k: np.array_split(v, transport.world_size)[transport.rank] for k, v in batch.items()})
            t.save(tmp_path / target)
            return own_terms(t)

        return run

    first, second = on_ranks(2, work(None, "two", 3))
    assert {name.startswith("rest of ") for name in first} == {True, False}
    assert all(first[name].any() and (first[name] != second[name]).any() for name in first if name.startswith("rest of "))
    assert any(first[v].any() for v in first if not v.startswith("rest of "))
    for name, own in zip(sorted(shard_files(tmp_path / "two")), (first, second), strict=True):
        there = read_tensors(tmp_path / name).arrays
        assert_equal({v: there[v].reshape(own[v].shape) for v in own}, own)
    whole = read_tensors(tmp_path / "two").arrays
    assert_equal({v: np.asarray(whole[v]) for v in first}, added(first, second))
    read.clear()
    three = on_ranks(3, work("two", "three", 0))
    for mine, wanted in zip(three, (first, second, {v: np.zeros_like(x) for v, x in first.items()}), strict=True):
        assert_equal(mine, wanted)
    rest = next(name for name in first if name.startswith("rest of "))
    taken = [list(terms) for name, *of in read for terms in of if name == rest]
    assert sorted(taken) == [[], [0], [1]]  # no rank reads the residuals of another
    back = on_ranks(2, work("three", "back", 0))
    for mine, wanted in zip(back, (added(three[0], three[2]), three[1]), strict=True):
        assert_equal(mine, wanted)
    one = trainer(**TERMS)
    one.load(tmp_path / "three")
    sums = {v.name for v in one.program.plan.accumulation.sums}
    assert_equal({v: x for v, x in weights(one).items() if v in sums}, {v: x for v, x in added(*three).items() if v in sums})
    # As one rank wrote them for all.
    arrays, metadata = read_tensors(tmp_path / "two").arrays, tensor_file.read_metadata(tmp_path / "two")
    arrays = {v: np.asarray(x) for v, x in arrays.items()}
    arrays |= {f"rank {rank} of {v}": x for rank, own in enumerate((first, second)) for v, x in own.items()}
    tensor_file.write_tensors(tmp_path / "old", arrays, {name: text for name, text in metadata.items() if name != "shards"})
    for mine, wanted in zip(on_ranks(2, work("old", "new", 0)), (first, second), strict=True):
        assert_equal(mine, wanted)


def test_nothing_is_written_apart_where_each_rank_has_the_same(tmp_path):
    """At the end of an update all sums are 0"""
    strategy = Strategy()

    def work(transport):
        t = trainer(distributed=strategy, **TERMS)
        for number, batch in enumerate(BATCHES[:3], 1):
            t.step({k: np.array_split(v, 2)[transport.rank] for k, v in batch.items()})
            t.save(tmp_path / f"{number}.safetensors")

    on_ranks(2, work)
    assert [len(shard_files(tmp_path / f"{number}.safetensors")) for number in (1, 2, 3)] == [2, 0, 2]


def test_a_write_that_is_interrupted_leaves_the_old_checkpoint_whole(tmp_path, monkeypatch):
    """By the disk of one rank before, and by an end of the first before the file that names the others is there"""
    path = tmp_path / "run.safetensors"
    on_ranks(2, steps(0, 1, None, path))
    before = {name: np.array(array) for name, array in read_tensors(path).arrays.items()}
    write = checkpoint.write_ranges

    def full(target, rows, starts):
        if "-1-of-2" in str(target):
            raise TrainingError("the disk is full")
        write(target, rows, starts)

    def ended(*_):
        raise KeyboardInterrupt

    for name, function, error in (("write_ranges", full, TrainingError), ("write_tensors", ended, KeyboardInterrupt)):
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, name, function)
            with pytest.raises(error):
                on_ranks(2, steps(1, 2, path, path))
        assert_equal({name: np.array(array) for name, array in read_tensors(path).arrays.items()}, before)
    on_ranks(2, steps(1, 2, path, path))
    assert sorted(file.name for file in tmp_path.glob("*.shard")) == sorted(shard_files(path))


def test_a_range_that_is_missing_or_damaged_is_named(tmp_path):
    path = tmp_path / "run.safetensors"
    on_ranks(2, steps(0, 1, None, path))
    name = shard_files(path)[1]
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ModelError, match="does not fit its checksum"):
        steps(1, 2, path, None)()
    (tmp_path / name).unlink()
    with pytest.raises(ModelError, match=f"has a part in '{name}', which is not beside it. Copy all files"):
        read_tensors(path)


def test_weights_are_whole_in_the_file_that_names_the_others(tmp_path):
    path = tmp_path / "run.safetensors"
    on_ranks(2, steps(0, 1, None, path))
    t = trainer(optimizer="adam")
    arrays = read_tensors(path).arrays
    assert all(isinstance(arrays[p.name], np.ndarray) for p in t.program.parameters if isinstance(p, Parameter))
    assert tensor_file.read_metadata(path)["shards"] and Path(path).exists()


def test_a_rank_that_has_its_range_alone_writes_no_checkpoint_of_all(tmp_path):
    """Nor does it go on with the ranges of another number of ranks"""

    def work(transport):
        t = trainer(distributed=Strategy(sharding=1), optimizer="adam")
        t.step(BATCHES[0])
        with pytest.raises(TrainingError, match=r"has its range of .*moment.* alone\. Let all ranks call save_checkpoint\(tog"):
            checkpoint.save_checkpoint(t.program, tmp_path / f"{transport.rank}.safetensors")
        shared, scope = t.ranks.step.exchange.shared, t.program.active_scope()
        v = next(v for v in shared.shared_out() if shared.is_own_part(v, scope))
        scope.put(v.name, np.zeros(1 + np.prod(v.shape), np.float32))
        with pytest.raises(TrainingError, match=r"another range of .*moment.* than it is to update\. Gather all state before"):
            shared.is_own_part(v, scope)

    on_ranks(2, work)
    assert not list(tmp_path.iterdir())
