"""Try by numbers whether a program keeps examples apart, and compare that with what ``examples_of`` says of it."""

from collections import Counter
from itertools import combinations

import numpy as np

from onnxgrad.core.ir.examples import examples_of


def compare(program, outputs, run, feeds, choices=None):
    """Of each way to choose an axis of examples: what is said of each output, with an error where numbers say otherwise.

    Yields (axes by input name, number of the output, one of "separate", "total", "apart" (does not depend on examples), "mixed",
    "unknown", whether numbers show it to be separate).
    """
    inputs = {v.name: v for v in program.inputs}
    before = run(feeds)
    if before is None:
        return
    rng = np.random.default_rng(3)
    for axes in choices if choices is not None else ways(feeds):
        count = next(feeds[name].shape[axis] for name, axis in axes.items())
        examples = examples_of(program, {inputs[name]: axis for name, axis in axes.items()})
        changed = [run(other) for other in perturbed(feeds, axes, count, rng)]
        if any(ys is None for ys in changed):
            continue
        order = np.roll(np.arange(count), 1)
        moved = run({name: np.take(x, order, axes[name]) if name in axes else x for name, x in feeds.items()})
        if moved is None:
            continue
        for k, v in enumerate(outputs):
            if not all(isinstance(ys[k], np.ndarray) and ys[k].size for ys in (before, moved, *changed)):
                continue
            ys = [ys[k] for ys in changed]
            said = what_is_said(examples, v)
            found = separate_axes(before[k], ys, moved[k], order, count)
            where = f"{axes} -> output {k}"
            if said == "separate":
                assert examples.axis(v) in found, f"{where}: said to be separate along axis {examples.axis(v)}, seen along {found}"
            elif said == "apart":
                assert all(same(y, before[k]) for y in ys), f"{where}: said not to depend on examples"
                found = set()
            elif said == "total":
                assert same(moved[k], before[k]), f"{where}: said to be a total, but depends on the order"
                if all(
                    feeds[name].dtype.kind == "f" for name in axes
                ):  # labels and weights of rows decide what a mean is divided by
                    assert same(ys[2] - ys[1], ys[0] - before[k]), f"{where}: said to be a total, but is not the sum of its parts"
                found = set()
            yield axes, k, said, bool(found)


def what_is_said(examples, v):
    if examples.unknown(v) is not None:
        return "unknown"
    if examples.mixed_by(v) is not None or examples.statistics_by(v) is not None:
        return "mixed"
    if not examples.depends(v):
        return "apart"
    return "total" if examples.total_by(v) is not None else "separate"


def ways(feeds):
    """Each axis of each input, each pair of them in two inputs, and each axis of all inputs that have it in one size"""
    places = [(name, axis) for name, x in feeds.items() for axis in range(np.ndim(x)) if x.shape[axis] > 1]
    chosen = {frozenset([place]) for place in places}
    size = {(name, axis): feeds[name].shape[axis] for name, axis in places}
    chosen |= {frozenset(pair) for pair in combinations(places, 2) if pair[0][0] != pair[1][0] and size[pair[0]] == size[pair[1]]}
    for axis in (0, 1, -1, -2):
        group = [(name, axis % x.ndim) for name, x in feeds.items() if -x.ndim <= axis < x.ndim and x.shape[axis] > 1]
        if group and len({size[place] for place in group}) == 1:
            chosen.add(frozenset(group))
    return [dict(sorted(places)) for places in sorted(chosen, key=sorted)]


def perturbed(feeds, axes, count, rng):
    """Feeds with other values of the first example, of the last, and of both"""
    other = {name: shuffled(feeds[name], rng) for name in axes}
    for rows in ([0], [count - 1], [0, count - 1]):
        feed = dict(feeds)
        for name, axis in axes.items():
            feed[name] = feeds[name].copy()
            at = (slice(None),) * axis + (rows,)
            feed[name][at] = other[name][at]
        yield feed


def shuffled(x, rng):
    """Values that are in the domain of whoever reads x"""
    if x.dtype.kind != "f":
        return rng.permutation(x.reshape(-1)).reshape(x.shape)
    return (rng.permutation(x.reshape(-1)) * rng.uniform(0.9, 0.999, x.size)).astype(x.dtype).reshape(x.shape)


def separate_axes(before, changed, moved, order, count):
    """The axes of an output along which only the perturbed examples change, and which follow their order"""
    found = set()
    for axis in range(before.ndim):
        size = before.shape[axis]
        if size % count or not size:
            continue
        rows = np.arange(size).reshape(count, -1)
        fits = moved.shape == before.shape and same(moved, np.take(before, rows[order].reshape(-1), axis))
        for y, touched in zip(changed, ([0], [count - 1], [0, count - 1]), strict=True):
            kept = np.delete(rows, touched, 0).reshape(-1)
            fits = fits and y.shape == before.shape and same(np.take(y, kept, axis), np.take(before, kept, axis))
        if fits:
            found.add(axis)
    return found


def same(x, y):
    if x.shape != y.shape:
        return False
    if x.dtype.kind not in "fc":
        return bool(np.all(x == y))
    scale = max(1.0, float(np.nanmax(np.abs(y), initial=0.0))) if np.isfinite(y).all() else 1.0
    return bool(np.allclose(x, y, rtol=0, atol=(1e-9 if x.dtype == np.float64 else 1e-4) * scale, equal_nan=True))


def counted(results):
    """How often each is said, and how often numbers show separate examples where that is not said"""
    counts = Counter()
    for _, _, said, separate in results:
        counts[said] += 1
        counts["missed"] += separate and said in ("mixed", "unknown")
    return counts
