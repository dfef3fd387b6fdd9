"""What building a step costs as programs grow: how often operators are looked at, by each pass and stage, never by time."""

from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest

import onnxgrad
from onnxgrad import from_onnx, optimizer, static, to_onnx
from onnxgrad.core.compile import compile
from onnxgrad.core.graph import manager
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.mixed_precision import to_mixed_precision
from onnxgrad.core.passes.modes import take_parts
from onnxgrad.core.providers.registry import PROVIDERS
from onnxgrad.internal.drawing import draw_nodes
from onnxgrad.nn import functional as F
from onnxgrad.training import find_ties

MOST_OF_A_PASS = 100
"""Visits to each operator by one pass, at most: a layout looks at the operands of each operand to see whether it holds images."""
MOST = 300
"""Visits to each operator by all of a stage: compiling runs some thirty passes."""


class Visits:
    """Counts reads of operators and variables, and comparisons of operators with each other, by stage."""

    def __init__(self, monkeypatch):
        monkeypatch.setenv("ONNXGRAD_VERIFY", "0")  # checks between passes look at every operator, too
        self.total = 0
        self.by_stage = Counter()
        for owner, fields in ((Operator, ("type", "inputs", "outputs", "attrs")), (Variable, ("op", "type", "_name"))):
            for name in fields:
                monkeypatch.setattr(owner, name, self._counted(owner.__dict__[name]))
        monkeypatch.setattr(Operator, "__eq__", lambda one, other: self._equal(one, other))
        monkeypatch.setattr(Operator, "__hash__", object.__hash__)
        for name, name_of in (("_run", lambda _, one, *rest: one.name), ("_walk", lambda _, several: several[0].name)):
            monkeypatch.setattr(manager, name, self._staged(getattr(manager, name), name_of))

    def _counted(self, slot):
        def read(owner):
            self.total += 1
            return slot.__get__(owner)

        return property(read, slot.__set__)

    def _equal(self, one, other):
        self.total += 1
        return one is other

    def _staged(self, function, name_of):
        def counted(*args):
            with self.stage(f"pass {name_of(*args)}"):
                return function(*args)

        return counted

    @contextmanager
    def stage(self, name):
        before = self.total
        yield
        self.by_stage[name] += self.total - before


def weight(block, name, *shape):
    value = np.random.default_rng(len(name)).normal(0.0, 0.05, shape).astype(np.float32)
    return block.create_parameter(name, shape, "float32", value=TensorValue.of(value))


def chain(size):
    """Elementwise operators that share 20 weights, over an unknown batch."""
    x = static.data("x", [None, 16])
    op, h = x.block.build, x
    weights = [weight(x.block, f"w{i}", 16) for i in range(20)]
    for i in range(size // 3):
        h = (op.Mul(h, weights[i % 20]), op.Add(h, weights[i % 20]), op.Tanh(h), op.Sub(h, x))[i % 4]
    return op.ReduceMean(op.Mul(h, h), keepdims=0)


def transformer(size):
    """Layers of attention and of two products, each with a residual sum and a normalisation."""
    x = static.data("x", [None, 8, 16])
    op, block = x.block.build, x.block

    def linear(h, name, wide, out):
        return op.Add(op.MatMul(h, weight(block, f"{name}.w", wide, out)), weight(block, f"{name}.b", out))

    def heads(h):
        return op.Transpose(op.Reshape(h, [0, 0, 2, 8]), perm=[0, 2, 1, 3])

    h = x
    for i in range(max(1, size // 170)):
        q, k, v = (heads(linear(h, f"{i}.{name}", 16, 16)) for name in "qkv")
        scores = op.Softmax(op.Mul(op.MatMul(q, op.Transpose(k, perm=[0, 1, 3, 2])), 8**-0.5))
        mixed = op.Reshape(op.Transpose(op.MatMul(scores, v), perm=[0, 2, 1, 3]), [0, 0, 16])
        h = op.LayerNormalization(op.Add(h, linear(mixed, f"{i}.o", 16, 16)), weight(block, f"{i}.g", 16))
        inner = op.Relu(linear(h, f"{i}.f", 16, 32))
        h = op.LayerNormalization(op.Add(h, linear(inner, f"{i}.e", 32, 16)), weight(block, f"{i}.h", 16))
    return op.ReduceMean(op.Mul(h, h), keepdims=0)


def branches(size):
    """One tensor that all read, and one sum that reads all."""
    x = static.data("x", [None, 8])
    op = x.block.build
    h = op.MatMul(x, weight(x.block, "w", 8, 8))
    h = op.Sum(*(op.Tanh(op.Mul(h, float(i + 1))) for i in range(size // 6)))
    return op.ReduceMean(op.Mul(h, h), keepdims=0)


def losses(size):
    """A loss of labels after each layer, and the sum of all."""
    x, y = static.data("x", [8, 8]), static.data("y", [8], "int64")
    op, h, total = x.block.build, x, []
    for i in range(size // 27):
        h = op.Tanh(op.MatMul(h, weight(x.block, f"w{i}", 8, 8)))
        total.append(op.SoftmaxCrossEntropyLoss(h, y))
    return op.Sum(*total)


def convolutions(size):
    """Convolutions of images of a known size, each with a pool."""
    x = static.data("x", [4, 4, 8, 8])
    op, h = x.block.build, x
    for i in range(size // 45):
        h = op.Relu(op.Conv(h, weight(x.block, f"k{i}", 4, 4, 3, 3), pads=[1] * 4))
        h = op.MaxPool(h, kernel_shape=[3, 3], pads=[1] * 4)
    return op.ReduceMean(op.Mul(h, h), keepdims=0)


def dropouts(size):
    """Layers with a Dropout each, and a BatchNormalization after every fourth."""
    h = static.data("x", [8, 16])
    for i in range(size // 12):
        h = static.nn.fc(h, 16)
        h = F.dropout(static.nn.batch_norm(h) if i % 4 == 0 else h, 0.1)
    return h.block.build.ReduceMean(h, keepdims=0)


def conditions(size):
    """Ifs with a Dropout each, in a branch of one If."""
    x, flag = static.data("x", [4]), static.data("flag", [], "bool")
    w = weight(x.block, "w", 4)

    def branch():
        h = x
        for _ in range(size // 12):
            z = h * w
            h = static.nn.cond(flag, lambda z=z: F.dropout(z * 2.0, 0.1), lambda z=z: z + 1.0)
        return h

    h = static.nn.cond(flag, branch, lambda: x * w)
    for _ in range(size // 12):
        z = h * w
        h = static.nn.cond(flag, lambda z=z: F.dropout(z * 2.0, 0.1), lambda z=z: z + 1.0)
    return h.block.build.ReduceMean(h * w, keepdims=0)


def step_of(build, size, visits, provider):
    """Build a program of about so many operators with its step, and return their number and the visits by stage."""
    visits.by_stage.clear()
    program = static.Program()
    with static.program_guard(program, static.Program()):
        loss = build(size)
        with visits.stage("append_backward"):
            pairs = onnxgrad.append_backward(loss)
        with visits.stage("updates"):
            optimizer.AdamW(1e-3, grad_clip=onnxgrad.nn.ClipGradByGlobalNorm(1.0)).apply_gradients(pairs)
    with visits.stage("export"):
        to_onnx(program, [loss, *(g for _, g in pairs)])
    with visits.stage("compile"):
        graph = compile(program, [loss], provider, state_as_inputs=True, ordered=True)
    with visits.stage("write"):
        write_model(graph, embeds=True)
    with visits.stage("clone"):
        program.clone()
    return len(program.global_block().ops), dict(visits.by_stage)


def check_growth(build, provider, monkeypatch, sizes):
    visits = Visits(monkeypatch)
    (few, before), (many, after) = (step_of(build, size, visits, provider) for size in sizes)
    assert many > 6 * few
    for stage, count in after.items():
        assert count / many <= 1.15 * before[stage] / few + 1.0, stage
        assert count / many <= (MOST_OF_A_PASS if stage.startswith("pass ") else MOST), stage


@pytest.mark.parametrize("build", [chain, transformer, branches, losses, convolutions])
def test_visits_to_each_operator_do_not_grow_with_their_number(build, monkeypatch):
    check_growth(build, "cpu", monkeypatch, (500, 4_000))


@pytest.mark.parametrize("provider", sorted(set(PROVIDERS) - {"cpu"}))
def test_nor_do_those_for_other_providers(provider, monkeypatch):
    # Both with more than 32 parameters, from where few_operands has something to do.
    check_growth(transformer, provider, monkeypatch, (680, 4_760))


@pytest.mark.parametrize("build", [dropouts, conditions])
def test_nor_do_those_of_whoever_writes_and_changes_a_program(build, monkeypatch):
    visits, counts = Visits(monkeypatch), []
    for size in (100, 800):
        visits.by_stage.clear()
        program = static.Program()
        with static.program_guard(program, static.Program()):
            with visits.stage("build"):
                loss = build(size)
            for name, change in {
                "eval": program.eval,
                "train": program.train,
                "parts": lambda program=program: take_parts(program.clone()),
                "16 bits": lambda program=program: to_mixed_precision(program.clone()),
                "bytes": program.serialize_to_string,
                "text": program.to_string,
                "clone for tests": lambda program=program: program.clone(for_test=True),
                "drawing": lambda program=program: draw_nodes(program),
                "pruning": lambda program=program, loss=loss: static.normalize_program(program, program.inputs, [loss]),
                "append_backward": lambda loss=loss: onnxgrad.append_backward(loss),
            }.items():
                with visits.stage(name):
                    change()
        written = sum(len(block.ops) for block in program.blocks)
        counts.append({stage: count / written for stage, count in visits.by_stage.items()})
    for stage, count in counts[1].items():
        assert count <= 1.15 * counts[0][stage] + 1.0, stage


def file_of(layers):
    """A file whose weights all have one shape: tables that are gathered from, and products."""
    program = static.Program()
    with static.program_guard(program, static.Program()):
        x = static.data("x", [8, 16])
        op, h = x.block.build, x
        for i in range(layers):
            table = weight(x.block, f"table{i}", 16, 16)
            h = op.Add(op.Gather(table, np.zeros(8, np.int64)), op.MatMul(h, weight(x.block, f"weight{i}", 16, 16)))
    return to_onnx(program, [h])


def test_loading_compares_each_constant_with_few_others(monkeypatch):
    files = [file_of(layers) for layers in (50, 400)]
    reads = []
    original = TensorValue.numpy

    def counted(value):
        reads.append(value)
        return original(value)

    monkeypatch.setattr(TensorValue, "numpy", counted)
    counts = []
    for file in files:
        reads.clear()
        program = from_onnx(file)
        counts.append(len(reads) / len(program.parameters))
    assert counts[1] <= 1.15 * counts[0]


def test_finding_ties_walks_over_the_operators_once(monkeypatch):
    programs = [from_onnx(file_of(layers)) for layers in (50, 400)]
    visits = Visits(monkeypatch)
    for program in programs:
        with visits.stage(str(len(program.parameters))):
            find_ties(program)
    few, many = (visits.by_stage[str(len(program.parameters))] / len(program.global_block().ops) for program in programs)
    assert many <= 1.15 * few
