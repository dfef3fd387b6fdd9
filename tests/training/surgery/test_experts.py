"""Branches in the weights of experts: value and gradients against numpy in float64, merged files, and what is refused."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

import onnxgrad as og
from onnxgrad.errors import ArgumentError, ModelError, UnknownName
from onnxgrad.training import Trainer, add_lora, merge_lora, save_peft
from onnxgrad.training.surgery.adapters import save_adapters

RNG = np.random.default_rng(8)
EXPERTS, WIDE, HIDDEN, K = 4, 16, 12, 2
X, ROUTER = RNG.normal(0, 1, (5, WIDE)), RNG.normal(0, 1, (WIDE, EXPERTS))
BIAS = RNG.normal(0, 0.3, (EXPERTS, 2 * HIDDEN)), RNG.normal(0, 0.3, (EXPERTS, WIDE))


def packed(rows, columns, bits):
    """Integers of a QMoE without blocks, their scales, and the weight that they stand for"""
    levels = RNG.integers(0, 1 << bits, (EXPERTS, rows, columns))
    scales = RNG.uniform(0.5, 1, (EXPERTS, rows)) / (1 << bits)
    stored = levels if bits == 8 else levels[..., 0::2] | levels[..., 1::2] << 4
    return stored.astype(np.uint8), scales.astype(np.float32), (levels - (1 << (bits - 1))) * scales.astype(np.float32)[..., None]


def network(bits=0):
    """A router and a mixture of experts with pairs of swiglu, and its weights as numbers"""
    shapes = (2 * HIDDEN, WIDE), (WIDE, HIDDEN)
    attrs = {"k": K, "activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.5, "activation_beta": 1.0}
    attrs |= {"normalize_routing_weights": 1, "swiglu_limit": 2.5}
    names, values, weights = [], {"router": ROUTER.astype(np.float32)}, []
    for number, (shape, bias) in enumerate(zip(shapes, BIAS, strict=True), 1):
        if bits:
            stored, scales, weight = packed(*shape, bits)
            values |= {f"experts.fc{number}.qweight": stored, f"s{number}": scales}
            names += [f"experts.fc{number}.qweight", f"s{number}"]
        else:
            weight = RNG.normal(0, 0.4, (EXPERTS, *shape)).astype(np.float32)
            values[f"experts.fc{number}.weight"] = weight
            names.append(f"experts.fc{number}.weight")
        values[f"b{number}"] = bias.astype(np.float32)
        names.append(f"b{number}")
        weights.append(weight.astype(np.float64))
    kind, more = ("QMoE", {"expert_weight_bits": bits}) if bits else ("MoE", {})
    nodes = [
        helper.make_node("MatMul", ["x", "router"], ["r"]),
        helper.make_node(kind, ["x", "r", *names], ["y"], domain="com.microsoft", **attrs, **more),
    ]
    dims = [helper.make_tensor_value_info(name, 1, ["N", WIDE]) for name in "xy"]
    stored = [numpy_helper.from_array(value, name) for name, value in values.items()]
    graph = helper.make_graph(nodes, "experts", dims[:1], dims[1:], stored)
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return og.from_onnx(helper.make_model(graph, opset_imports=domains, ir_version=10)), weights


def mixed(weights):
    """The mixture in numpy, of each token by its own experts"""
    scores = np.exp(X @ ROUTER)
    y = np.zeros_like(X)
    for row, (x, score) in enumerate(zip(X, scores, strict=True)):
        best = np.argsort(-score)[:K]
        for e in best:
            pairs = weights[0][e] @ x + BIAS[0][e]
            gate, up = np.minimum(pairs[0::2], 2.5), np.clip(pairs[1::2], -2.5, 2.5)
            hidden = gate / (1 + np.exp(-1.5 * gate)) * (up + 1)
            y[row] += score[e] / score[best].sum() * (weights[1][e] @ hidden + BIAS[1][e])
    return y


def output(program):
    return og.Executor().run(program, {"x": X.astype(np.float32)}, ["y"])[0]


@pytest.mark.parametrize("bits", [0, 4, 8])
def test_value_gradients_and_merged_files(bits):
    program, weights = network(bits)
    before = output(program)
    np.testing.assert_allclose(before, mixed(weights), atol=1e-5)
    names = add_lora(program, "experts", rank=2, alpha=3)
    assert [program.global_block().vars[name].shape for name in names] == [(4, 2, 16), (4, 24, 2), (4, 2, 12), (4, 16, 2)]
    np.testing.assert_allclose(output(program), before, atol=2e-6)
    assert "QMoE" not in {op.type for op in program.global_block().ops}
    parts = [RNG.normal(0, 0.3, program.global_block().vars[name].shape).astype(np.float32) for name in names]
    program.set_state_dict(dict(zip(names, parts, strict=True)))

    def adapted(parts):
        return [w + 1.5 * b @ a for w, a, b in zip(weights, parts[0::2], parts[1::2], strict=True)]

    def loss_of(parts):
        return (mixed(adapted(parts)) ** 2).mean()

    parts = [part.astype(np.float64) for part in parts]
    wanted = mixed(adapted(parts))
    np.testing.assert_allclose(output(program), wanted, atol=2e-5)
    merged = merge_lora(program, "float")
    np.testing.assert_allclose(output(merged), wanted, atol=2e-5)
    assert [op.type for op in merged.global_block().ops] == ["MatMul", "MoE"]
    kept = merge_lora(program)
    np.testing.assert_allclose(output(kept), wanted, atol=2e-5)
    assert (len(kept.global_block().ops) == 2) is (bits == 0)
    if bits:
        with pytest.raises(ModelError, match="are not rounded again"):
            merge_lora(program, "again")
    y = program.outputs[0]
    with og.static.program_guard(program):
        loss = og.mean(y * y)
    grads = og.Executor().run(
        program, {"x": X.astype(np.float32)}, og.gradients([loss], [program.global_block().vars[n] for n in names])
    )
    for at, grad in enumerate(grads):
        direction = RNG.normal(0, 1, grad.shape)
        ends = [loss_of([p + step * direction if i == at else p for i, p in enumerate(parts)]) for step in (1e-5, -1e-5)]
        assert float((grad * direction).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=2e-4)


def test_who_names_experts_gets_them():
    """The rest leaves them alone, as they cost most"""
    program, _ = network()
    for layers in ("*", ["router"]):
        assert add_lora(network()[0], layers, rank=2) == ["router.lora_A", "router.lora_B"]
    with pytest.raises(UnknownName, match="fits no MatMul"):
        add_lora(program, "mlp")
    assert add_lora(program, "*fc1*", rank=2) == ["experts.fc1.weight.lora_A", "experts.fc1.weight.lora_B"]
    trainer = Trainer(program, loss="mse", learning_rate=0.03, trainable="*lora*")
    batch = {"x": X.astype(np.float32), "target": RNG.normal(0, 1, X.shape).astype(np.float32)}
    losses = [trainer.step(batch)["loss"] for _ in range(8)]
    assert losses[-1] < 0.9 * losses[0]


def test_what_is_not_written_is_refused(tmp_path):
    program, _ = network(4)
    with pytest.raises(ArgumentError, match="DoRA is not written for experts"):
        add_lora(program, "experts", dora=True)
    add_lora(program, "experts", rank=2)
    with pytest.raises(ArgumentError, match="not written for adapters of experts"):
        save_peft(program, tmp_path / "peft")
    with pytest.raises(ArgumentError, match="not written for experts"):
        save_adapters(program, tmp_path / "a.onnx_adapter")
    add = next(op for op in program.global_block().ops if op.type == "Add" and op.metadata)
    add.inputs = [add.inputs[1], add.inputs[0]]
    with pytest.raises(ModelError, match="not as add_lora made it"):
        merge_lora(program)
