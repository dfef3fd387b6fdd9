"""Where passes rewrite: the operators of one place, cut out of the graph in which a pass met them.

``python -m tests.core.compile.occurrences`` goes through the cases that tests/data/pass_hits.json names, and those of ours, and writes tests/data/pass_occurrences.json: by provider and pass,
the cases that have places of every kind, a kind being the types of the operators that a place rewrites. ``test_by_hand.py`` cuts
these places out and changes them. Run it where a pass is added, or where a form is added to one. A minute.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, NodeProto, helper, numpy_helper

import onnxgrad as paddle
from onnxgrad.core.compile import Graph, door
from onnxgrad.core.graph.contract import Pass, Target
from onnxgrad.core.graph.manager import _groups, in_order_of_passes, run_passes
from onnxgrad.core.graph.order import order_for_memory
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.providers.registry import PROVIDERS
from onnxgrad.errors import OnnxGradError
from onnxgrad.internal import state
from onnxgrad.testing import evaluate
from tests.core.compile.corpus import BATCHES, EVERY, FILE as HITS, Made, _fed, cases, passes_of

FILE = Path(__file__).parents[2] / "data" / "pass_occurrences.json"
_KINDS = 8
"""Kinds of places that are written down for a pass: those with the fewest operators."""
_LARGE = ("model ", "net ")
"""Cases that are taken where no other has a place."""
_MANY = ("sample ", "model ", "net ", "float64 ", "bfloat16 ")
"""Cases of which only those that the table of hits names are looked through."""
_LARGEST = 120
"""Operators of a place at most."""


class Place(NamedTuple):
    """One place that a pass rewrites.

    Attributes:
        model: the operators around it, as a model of its own: what they read of others is an input. Origins and roles are in it.
        feed: what the inputs were.
        state: inputs that hold state, by the output that is the new value of each.
        kind: the types of the operators that are rewritten.
    """

    model: ModelProto
    feed: dict[str, np.ndarray]
    state: dict[str, str]
    kind: str


class _Reached(Exception):
    """The pass is next."""


# Passes ----------------------------------------------------------------------------------------------------------------


def distinct_passes() -> dict[str, tuple[str, Pass]]:
    """By name: a provider that has the pass, and the pass; a pass of several providers once."""
    found: dict[str, tuple[str, Pass]] = {}
    for provider in (EVERY, *PROVIDERS):
        for each in passes_of(provider):
            if any(other is each or other.forms == each.forms is not None for _, other in found.values()):
                continue
            found[each.name if each.name not in found else f"{each.name} of {provider}"] = provider, each
    return found


def target_of(provider: str, shapes: dict[str, tuple[int, ...]] | None, is_step: bool) -> Target:
    """What the corpus compiles for."""
    return Target(
        provider=None if provider == EVERY else provider,
        runs_on_cpu=provider in (EVERY, "cpu"),
        to_newest=True,
        fast=True,
        shapes=shapes or {},
        chunk=2**10 if is_step and provider == EVERY else 0,
    )


def run_alone(
    model: ModelProto, place: Place, provider: str, each: Pass, is_by_hand: bool = False, parameters: Sequence[str] = ()
) -> Graph:
    """A model after one pass.

    Args:
        is_by_hand: whether nothing says who wrote its operators.
        parameters: initializers that are weights, which are inputs of the graph.
    """
    program = paddle.from_onnx(model, parameters=list(parameters))
    if is_by_hand:
        for op in program.global_block().ops:
            op.origin = None
    graph = door._graph_of(program, program.outputs, bool(parameters), False, (), ())
    by_name = {v.name: v for v in (*graph.inputs, *(v for _, v in graph.outputs))}
    for held, new in place.state.items():
        if held in by_name and new in by_name:
            by_name[held].persistable = True
            graph.updates[by_name[held]] = by_name[new]
    shapes = {name: array.shape for name, array in place.feed.items()} if each.name == "fold_sizes" else None
    run_passes(graph, [each], target_of(provider, shapes, bool(place.state)))
    graph.operators = order_for_memory(graph.operators)
    return graph


# Capturing -------------------------------------------------------------------------------------------------------------


def graph_before(made: Made, provider: str, batch: str, name: str) -> Graph | None:
    """The graph of a case as a pass meets it; None where it is refused before."""
    shapes = {key: value.shape for key, value in made.feed.items()} if batch == "known" else None
    target = target_of(provider, shapes, made.is_step)
    try:
        graph = door._graph_of(made.program, made.outputs, made.is_step, made.is_step, (), ())
        for group in _groups(in_order_of_passes(door._passes_for(target))):
            if any(each.name == name for each in group):
                return graph
            run_passes(graph, group, target)
    except OnnxGradError:
        return None
    return None


def places_of(case: Callable[[], Made], provider: str, batch: str, each: Pass) -> Iterator[Place]:
    """The places of a case that a pass rewrites, each cut out, one of a kind."""
    with state.isolated():
        made = case()
        graph = graph_before(made, provider, batch, each.name)
        if graph is None:
            return
        target = target_of(
            provider, {key: value.shape for key, value in made.feed.items()} if batch == "known" else None, made.is_step
        )
        if not each.when(graph, target):
            return
        fed, before = _fed(graph, made.feed), write_model(graph)
        # Weights are inputs: their numbers are none of the graph's.
        for tensor in [t for t in before.graph.initializer if graph.program.find(t.name).persistable]:
            fed[tensor.name] = numpy_helper.to_array(tensor)
            before.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
            before.graph.initializer.remove(tensor)
        types = {v.name: v.type for v in graph.program.list_vars() if isinstance(v.type, TensorType)}
        updates = {v.name: new.name for v, new in graph.updates.items()}
        run_passes(graph, [each], target)
        if not graph.rewrites or graph.rewrites[-1].name != each.name:
            return
        after = {_key(node) for node in write_model(graph).graph.node}
    gone = [node for node in before.graph.node if _key(node) not in after]
    kinds = set()
    cutter = _Cutter(before, fed, types, updates)
    for group in _connected(gone):
        kind = _kind(group)
        if kind in kinds:
            continue
        kinds.add(kind)
        place = cutter.place(group, kind, provider, each)
        if place is not None:
            yield place


def _key(node: NodeProto) -> bytes:
    bare = NodeProto()
    bare.CopyFrom(node)
    bare.name = ""
    del bare.metadata_props[:]
    return bare.SerializeToString(deterministic=True)


def _kind(nodes: Sequence[NodeProto]) -> str:
    types = [node.op_type for node in nodes]
    return ", ".join(sorted(set(types)))


def _connected(nodes: Sequence[NodeProto]) -> list[list[NodeProto]]:
    """Nodes that read each other, together"""
    groups: list[tuple[set[str], list[NodeProto]]] = []
    for node in nodes:
        joined = [group for group in groups if any(name in group[0] for name in node.input if name)]
        merged = (set(node.output).union(*(group[0] for group in joined)), [n for group in joined for n in group[1]] + [node])
        groups = [group for group in groups if group not in joined] + [merged]
    return [group for _, group in groups]


class _Cutter:
    """Cuts operators out of a graph."""

    def __init__(
        self, model: ModelProto, feed: dict[str, np.ndarray], types: dict[str, TensorType], updates: dict[str, str]
    ) -> None:
        self.model, self.feed, self.types, self.updates = model, feed, types, updates
        self.constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self.returned = {v.name for v in model.graph.output}
        self.numbers: dict[str, np.ndarray] = {}
        self.makers = {name: i for i, node in enumerate(model.graph.node) for name in node.output if name}
        self.readers: dict[str, list[int]] = {}
        for i, node in enumerate(model.graph.node):
            for name in read_by(node):
                self.readers.setdefault(name, []).append(i)

    def place(self, group: Sequence[NodeProto], kind: str, provider: str, each: Pass) -> Place | None:
        """The smallest part of the graph around some operators in which the pass still rewrites; None where there is none."""
        nodes = list(self.model.graph.node)
        wanted = {id(node) for node in group}
        held = {i for i, node in enumerate(nodes) if id(node) in wanted}
        while True:
            try:
                place = self._cut(sorted(held), kind)
            except Exception:
                return None  # neither onnxruntime nor onnx runs all of the graph
            if place is not None and self._rewrites(place, provider, each):
                return place
            around = set(held)
            for i in held:
                for name in read_by(nodes[i]):
                    around.update([self.makers[name]] if name in self.makers else [])
                    around.update(self.readers.get(name, ()) if len(self.readers.get(name, ())) < 8 else ())
                for name in nodes[i].output:
                    around.update(self.readers.get(name, ()))
            if around == held or len(held) > _LARGEST:
                return None
            held = around

    def _rewrites(self, place: Place, provider: str, each: Pass) -> bool:
        with state.isolated():
            try:
                return bool(run_alone(place.model, place, provider, each).rewrites)
            except OnnxGradError:
                return False

    def _cut(self, held: list[int], kind: str) -> Place | None:
        nodes = [self.model.graph.node[i] for i in held]
        made = {name for node in nodes for name in node.output if name}
        read = dict.fromkeys(name for node in nodes for name in read_by(node))
        inputs = [name for name in read if name not in made and name not in self.constants]
        inside = set(held)
        outputs = [
            name
            for node in nodes
            for name in node.output
            if name and (name in self.returned or not set(self.readers.get(name, [])) <= inside)
        ]
        if any(name not in self.types for name in (*inputs, *outputs)) or not outputs:
            return None
        model = ModelProto()
        model.CopyFrom(self.model)
        for field in ("node", "initializer", "input", "output", "value_info", "sparse_initializer"):
            model.graph.ClearField(field)
        model.graph.node.extend(nodes)
        model.graph.initializer.extend(self.constants[name] for name in read if name in self.constants)
        model.graph.input.extend(map(self._info, inputs))
        model.graph.output.extend(map(self._info, outputs))
        updates = {v: new for v, new in self.updates.items() if v in inputs and new in outputs}
        return Place(model, {name: self._number(name) for name in inputs}, updates, kind)

    def _info(self, name: str) -> onnx.ValueInfoProto:
        kind = self.types[name]
        dims = None if kind.dims is None else [d if isinstance(d, int) else None if d is None else str(d) for d in kind.dims]
        return helper.make_tensor_value_info(name, kind.dtype.number, dims)

    def _number(self, name: str) -> np.ndarray:
        if not self.numbers:
            whole = ModelProto()
            whole.CopyFrom(self.model)
            del whole.graph.output[:]
            names = [name for name in self.makers if name in self.types]
            whole.graph.output.extend(map(self._info, names))
            self.numbers = {**dict(zip(names, run(whole, self.feed), strict=True)), **self.feed}
        return self.numbers[name]


def read_by(node: NodeProto) -> list[str]:
    """What a node reads, in its bodies too."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            own = {t.name for t in attribute.g.initializer} | {v.name for v in attribute.g.input}
            for inner in attribute.g.node:
                names += [name for name in read_by(inner) if name not in own]
                own |= set(inner.output)
            names += [v.name for v in attribute.g.output if v.name not in own]
    return names


# Running ---------------------------------------------------------------------------------------------------------------


def run(model: ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a model as it is written, by onnxruntime, or by onnx where that has no kernel."""
    try:
        return run_by_onnxruntime(model, feed)
    except Exception:
        return evaluate(model, feed)


def run_by_onnxruntime(model: ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a model as it is written."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    read = {entry.name for entry in session.get_inputs()}
    # Copies: onnxruntime writes the new statistics of a BatchNormalization over those that are fed.
    return [np.asarray(y) for y in session.run(None, {name: array.copy() for name, array in feed.items() if name in read})]


# The table -------------------------------------------------------------------------------------------------------------


def count() -> dict[str, dict[str, str]]:
    """By pass: kinds of places, and the case and batch with the smallest one."""
    from tests.core.compile.by_hand import tried

    made = cases()
    hits = json.loads(HITS.read_text())
    table: dict[str, dict[str, str]] = {}
    for key, (provider, each) in distinct_passes().items():
        titles = [*hits[provider].get(each.name, {"cases": ()})["cases"]]
        titles += [f"{name}, {batch} batch" for name in made if not name.startswith(_MANY) for batch in BATCHES]
        sized: dict[str, tuple[int, str]] = {}
        for title in sorted(dict.fromkeys(titles), key=lambda title: title.startswith(_LARGE)):
            if title.startswith(_LARGE) and sized:
                break
            name, _, batch = title.rpartition(", ")
            for place in places_of(made[name], provider, batch.removesuffix(" batch"), each):
                if not tried(place, provider, each, 1).counts["compared"]:
                    continue  # neither onnxruntime nor onnx runs it as it is
                size = len(place.model.graph.node)
                if place.kind not in sized or size < sized[place.kind][0]:
                    sized[place.kind] = size, title
        smallest = sorted(sized.items(), key=lambda item: item[1])[:_KINDS]
        table[key] = {kind: where for kind, (_, where) in smallest}
        print(key, len(sized), flush=True)
    return table


if __name__ == "__main__":
    FILE.write_text(json.dumps(count(), indent=1) + "\n")
