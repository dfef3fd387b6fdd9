"""Ranks that compute and send messages, simulated one message at a time: what the arithmetic of ``distributed.costs`` is held against."""

from collections import defaultdict, deque

import numpy as np


def simulated(programs, link):
    """Seconds until the last rank has ended, and the bytes that each has sent.

    A program is a generator of ``("compute", seconds)``, ``("send", to, bytes)``, which waits for nobody, and ``("receive", source)``.
    The messages of a rank leave one after another; each takes the link's latency and its bytes.
    """
    now, sent, leaves = [0.0] * len(programs), [0.0] * len(programs), defaultdict(float)
    mail, waits = defaultdict(deque), {}
    ready = deque(enumerate(programs))
    while ready:
        rank, program = ready.popleft()
        for what, *values in program:
            if what == "compute":
                now[rank] += values[0]
            elif what == "send":
                to, size = values
                leaves[rank] = max(now[rank], leaves[rank]) + link.seconds(size)
                mail[rank, to].append(leaves[rank])
                sent[rank] += size
                if waits.get(to, (None,))[0] == rank:
                    now[to] = max(now[to], mail[rank, to].popleft())
                    ready.append((to, waits.pop(to)[1]))
            elif mail[values[0], rank]:
                now[rank] = max(now[rank], mail[values[0], rank].popleft())
            else:
                waits[rank] = (values[0], program)
                break
    assert not waits
    return max(now), sent


def ring_half(rank, ranks, size):
    """A reduce-scatter, or an all-gather"""
    for _ in range(ranks - 1):
        yield "send", (rank + 1) % ranks, size / ranks
        yield "receive", (rank - 1) % ranks


def ring(rank, ranks, size):
    yield from ring_half(rank, ranks, size)
    yield from ring_half(rank, ranks, size)


def tree(rank, ranks, size):
    """Sums go to rank 0, and from there to all; pairs at distances of 1, 2, 4 and so on"""
    distances = [1 << n for n in range((ranks - 1).bit_length())]
    for distance in distances:
        if rank % (2 * distance):
            yield "send", rank - distance, size
            break
        if rank + distance < ranks:
            yield "receive", rank + distance
    if rank:
        yield "receive", rank - (rank & -rank)
    for distance in reversed(distances):
        if rank % (2 * distance) == 0 and rank + distance < ranks:
            yield "send", rank + distance, size


def ring_of_many(ranks, size, link, begin):
    """Seconds of a ring of many ranks that begin at different times, step by step, all ranks of a step at once"""
    now = np.array(begin, float)
    for _ in range(2 * (ranks - 1)):
        now = np.maximum(now, np.roll(now + link.seconds(size / ranks), 1))
    return now.max()


def stage(number, stages, micro_batches, forward, backward, size):
    """A stage of a pipeline: one forward, one backward"""
    ahead = min(stages - 1 - number, micro_batches)
    order = ["forward"] * ahead + ["forward", "backward"] * (micro_batches - ahead) + ["backward"] * ahead
    for phase in order:
        before, after = (number - 1, number + 1) if phase == "forward" else (number + 1, number - 1)
        if 0 <= before < stages:
            yield "receive", before
        yield "compute", forward if phase == "forward" else backward
        if 0 <= after < stages:
            yield "send", after, size
