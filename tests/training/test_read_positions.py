"""A Trainer computes the positions, rows and channels that its loss reads, and trains as if it computed all of them."""

import threading

import numpy as np
import onnx
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.providers.losses import vocabulary
from onnxgrad.core.runtime.exported_step import WrittenStep
from onnxgrad.distributed import Strategy, run_local
from onnxgrad.distributed.environment import using
from onnxgrad.federated import private_gradients
from onnxgrad.training import Term, Trainer, trainer as module
from tests.core.passes.test_demand import ATTENTION, MASKED, S, V, model
from tests.training.small import weights

BLOCK = f"{ATTENTION} {MASKED.replace('(x, w)', '(l, w)').replace('(h1, x)', '(h1, l)')}"
WORDS = (f"{BLOCK} y = Identity (o)", "float[N, 5, 8] x", "float[N, 5, 520] y")
"""Attention, a layer for each position, and scores of 520 words."""
SCORES = (f"{BLOCK} y0 = Gather <axis = 1> (h3, zero) y = MatMul (y0, u)", "float[N, 5, 8] x", "float[N, 8] y")
"""Scores of 8 classes at the first position."""
DETECTOR = (
    "c = Conv (z, k, kb) d = Relu (c) e = ReduceMean <keepdims = 0> (d, ax23) y, other = Split <axis = 1> (e, thirds)",
    "float[N, 8, 3, 3] z", "float[N, 2] y, float[N, 4] other",
)  # fmt: skip
"""A head of six channels, of which the loss reads two."""
TOKENS = ("h = MatMul (x, w) y = MatMul (h, vocabulary)", "float[N, S, 8] x", "float[N, S, 520] y")
_BUILDING = threading.Lock()


def file(case: tuple[str, str, str]) -> onnx.ModelProto:
    return model(*case)


def batches(case, count=4, seed=0, kept=0.3):
    """Batches whose labels mostly do not count, in one example not at all."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        n = 3 + i % 3
        if case is WORDS:
            labels = np.where(rng.random((n, S)) < kept, rng.integers(0, V, (n, S)), -100)
            labels[0], labels[-1, -1] = -100, 5
            yield {"x": rng.normal(size=(n, S, 8)), "target": labels}
        elif case is SCORES:
            yield {"x": rng.normal(size=(n, S, 8)), "target": rng.integers(0, 8, n)}
        else:
            yield {"z": rng.normal(size=(n, 8, 3, 3)), "target": rng.integers(0, 2, n)}


def trainer(case, reads_all=False, dtype=np.float64, **options):
    """A Trainer; with ``reads_all`` of which everything is read, so that nothing is left out."""
    loss = Term("cross_entropy", layout="NTC") if case[2].endswith("520] y") else "cross_entropy"
    given = {"loss": loss, "optimizer": "momentum", "learning_rate": 0.05, "threads": 1, **options}
    with _BUILDING, pytest.MonkeyPatch.context() as patch:
        if reads_all:
            demand = module.demand
            patch.setattr(module, "demand", lambda vs: demand([v for op in vs[0].block.ops for v in op.outputs if v is not None]))
        patch.setattr("warnings.warn", lambda *given, **options: None)
        return Trainer(model(*case, dtype=dtype), **given)


def trained(t, case, **data):
    losses = [t.step(batch)["loss"] for batch in batches(case, **data)]
    return losses, weights(t)


def check_same(one, other):
    np.testing.assert_allclose(one[0], other[0], rtol=1e-11)
    for name, value in other[1].items():
        np.testing.assert_allclose(one[1][name], value, rtol=1e-10, atol=1e-12, err_msg=name)


OPTIONS = [
    {},
    {"accumulate": 2},
    {"memory": "low"},
    {"checkpoints": "auto", "sizes": {"N": 4}},
    {"checkpoints": ["l"]},
    {"ema": 0.9, "clip_norm": 0.5},
    {"loss_scale": 8.0, "accumulate": 2},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: ", ".join(options) or "as it is")
@pytest.mark.parametrize("case", [WORDS, SCORES, DETECTOR], ids=["words", "scores", "detector"])
def test_the_weights_are_those_of_a_run_that_computes_all(case, options):
    if case is DETECTOR and "checkpoints" in options:
        options = {"checkpoints": ["c"]}
    read, every = trainer(case, **options), trainer(case, reads_all=True, **options)
    check_same(trained(read, case), trained(every, case))
    block = read.program.global_block()
    assert len(block.ops) > len(read.inference.global_block().ops)
    kinds = {op.type for op in block.ops}
    assert "Compress" in kinds if case is WORDS else any(name.endswith("/read") for name in block.vars)


def test_the_scores_of_a_causal_language_model_are_computed_where_labels_count():
    def run(reads_all):
        t = trainer(WORDS, reads_all, loss="causal_lm", target="target")
        return trained(t, WORDS)

    check_same(run(False), run(True))


def test_a_batch_in_which_no_label_counts_gives_what_it_gave():
    batch = next(batches(WORDS))
    batch["target"][:] = -100
    said = []
    for reads_all in (False, True):
        t = trainer(WORDS, reads_all)
        with pytest.raises(paddle.errors.TrainingError) as error:
            t.step(batch)
        said.append(str(error.value).partition(" at step")[0])
    assert said[0] == said[1]


def test_outputs_that_a_metric_reads_are_computed_whole():
    t = trainer(WORDS, metrics=["accuracy"])
    row = t.step(next(batches(WORDS)))
    assert 0 <= row["accuracy"] <= 1
    assert "Compress" not in {op.type for op in compile(t.program, [t.loss]).operators}


def test_logits_that_are_probabilities_are_doubted_although_a_step_computes_some_rows():
    body = f"{BLOCK} shares = Softmax (o) y = Abs (shares)"
    t = trainer((body, "float[N, 5, 8] x", "float[N, 5, 520] y"))
    with pytest.warns(UserWarning, match="probabilities|logits"):
        t.step(next(batches(WORDS)))


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("options", [{}, {"strategy": {"sharding": 2}}], ids=["plain", "shares"])
@pytest.mark.parametrize("case", [WORDS, SCORES], ids=["words", "scores"])
def test_ranks_train_as_one_process(case, options, count):
    def work(transport, reads_all=False):
        with using(transport):
            strategy = Strategy(**options["strategy"]) if options else True
            t = trainer(case, reads_all, distributed=strategy)
            losses = []
            for batch in batches(case):
                parts = {key: np.array_split(x, count)[transport.rank] for key, x in batch.items()}
                losses.append(t.step(parts)["loss"])
            with t.ranks.gathered():
                return losses, weights(t)

    plain = run_local(count, lambda transport: work(transport, reads_all=True), 120)
    for one, other in zip(run_local(count, work, 120), plain, strict=True):
        check_same(one, other)
    # Ranks are told what their parts weigh in float32.
    np.testing.assert_allclose(plain[0][0], trained(trainer(case), case)[0], rtol=1e-6)


def test_an_exported_step_trains_the_same(tmp_path):
    for case in (WORDS, SCORES):
        plain = trainer(case, reads_all=True)
        t = trainer(case)
        manifest = t.save_training_step(tmp_path / "step")
        # The scores of words are not computed whole, so they are no result of the step.
        assert ("y" in {entry["name"] for entry in manifest["fetches"]}) == (case is SCORES)
        step = WrittenStep(tmp_path / "step.json", paddle.CPUPlace(), 1)
        for batch in batches(case):
            loss = plain.step(batch)["loss"]
            np.testing.assert_allclose(float(step.run(batch)[0]), loss, rtol=1e-10)


def test_private_gradients_are_those_of_the_whole():
    def grads(prunes):
        program = paddle.from_onnx(file(SCORES))
        with static.program_guard(program):
            losses = paddle.sum(program.outputs[0] ** 2, axis=1)
        if prunes:
            name, program = losses.name, static.prune_unread(program, losses)
            losses = program.find(name)
        with static.program_guard(program):
            pairs = private_gradients(losses, clip_norm=0.7, noise_multiplier=0.0)
        batch = next(batches(SCORES))
        values = paddle.Executor().run(program, {"x": batch["x"]}, [g for _, g in pairs])
        return {p.name: np.asarray(value) for (p, _), value in zip(pairs, values, strict=True)}

    plain, pruned = grads(False), grads(True)
    assert plain.keys() - pruned.keys() == {"vocabulary", "vb"}, "which the loss does not read"
    for name, value in plain.items():
        np.testing.assert_allclose(pruned.get(name, 0.0), value, rtol=1e-11, atol=1e-13, err_msg=name)


def test_a_large_vocabulary_still_goes_by_blocks(monkeypatch):
    monkeypatch.setattr(vocabulary, "_WIDE", 500)
    passes = []
    for reads_all in (False, True):
        t = trainer(TOKENS, reads_all, np.float32, loss="causal_lm")
        graph = compile(t.program, [t.loss], "cpu", state_as_inputs=True)
        passes.append({rewrite.name for rewrite in graph.rewrites})
    assert "vocabulary" in passes[0] and "vocabulary" in passes[1]


def test_the_detector_computes_the_channels_that_are_read():
    t = trainer(DETECTOR)
    convolutions = [op for op in compile(t.program, [t.loss]).operators if op.type == "Conv"]
    assert [op.outputs[0].dims[1] for op in convolutions] == [2]


def test_the_program_that_was_given_keeps_its_operators():
    program = paddle.from_onnx(file(SCORES))
    before = [op.outputs[0].name for op in program.global_block().ops]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *given, **options: None)
        t = Trainer(program, loss="cross_entropy")
    assert set(before) <= set(t.program.global_block().vars)
    batch = next(batches(SCORES))
    whole = paddle.Executor().run(t.program, batch, ["h3", "y"], use_prune=True)
    assert np.shape(whole[0]) == (3, S, 8)
