"""A program that type checkers accept, and that runs: optimizers, schedules, initial values, metrics, places and strategies."""

from typing import Any

import numpy as np

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import distributed, static
from onnxgrad.nn import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue, initializer
from onnxgrad.optimizer import lr
from onnxgrad.regularizer import L1Decay, L2Decay


class Halved(lr.LRScheduler):
    """A schedule of the user's own."""

    def __init__(self, learning_rate: float, every: int, last_epoch: int = -1, verbose: bool = False) -> None:
        self.every = every
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * 0.5 ** (self.last_epoch // self.every)


class Plain(paddle.optimizer.Optimizer):
    """An optimizer of the user's own, whose constructor is that of all."""


def schedules() -> list[lr.LRScheduler]:
    return [
        Halved(0.1, every=2),
        lr.NoamDecay(d_model=64, warmup_steps=10),
        lr.PiecewiseDecay([2, 4], [0.1, 0.05, 0.01]),
        lr.NaturalExpDecay(0.1, gamma=0.1),
        lr.InverseTimeDecay(0.1, gamma=0.1),
        lr.PolynomialDecay(0.1, decay_steps=10, end_lr=0.0, cycle=True),
        lr.LinearWarmup(lr.CosineAnnealingDecay(0.1, T_max=10), warmup_steps=2, start_lr=0.0, end_lr=0.1),
        lr.ExponentialDecay(0.1, 0.9),
        lr.MultiStepDecay(0.1, milestones=(2, 4)),
        lr.StepDecay(0.1, step_size=3, gamma=0.5),
        lr.LambdaDecay(0.1, lambda step: 0.9**step),
        lr.MultiplicativeDecay(0.1, lambda step: 0.9),
        lr.CosineAnnealingWarmRestarts(0.1, T_0=4, T_mult=2),
        lr.OneCycleLR(0.1, total_steps=20, anneal_strategy="linear"),
        lr.CyclicLR(0.01, 0.1, step_size_up=4, mode="exp_range", exp_gamma=0.99),
        lr.LinearLR(0.1, total_steps=5),
    ]


def optimizers(w: paddle.Tensor) -> list[paddle.optimizer.Optimizer]:
    rate = lr.StepDecay(0.01, step_size=2)
    groups: list[dict[str, Any]] = [{"params": [w], "learning_rate": 0.5, "beta1": 0.8}]
    return [
        paddle.optimizer.SGD(rate, parameters=[w], weight_decay=1e-4),
        paddle.optimizer.Momentum(0.01, 0.9, [w], use_nesterov=True, weight_decay=L2Decay(1e-4)),
        paddle.optimizer.ASGD(0.01, batch_num=2, parameters=[w]),
        paddle.optimizer.Rprop(0.01, learning_rate_range=(1e-4, 1.0), parameters=[w], etas=(0.5, 1.2)),
        paddle.optimizer.Adagrad(0.01, parameters=[w], initial_accumulator_value=0.1),
        paddle.optimizer.Adadelta(1.0, rho=0.9, parameters=[w]),
        paddle.optimizer.RMSProp(0.01, momentum=0.9, centered=True, parameters=[w], grad_clip=ClipGradByValue(1.0)),
        paddle.optimizer.Adam(0.01, beta1=0.9, parameters=groups, grad_clip=ClipGradByGlobalNorm(1.0), amsgrad=True),
        paddle.optimizer.AdamW(
            0.01, parameters=[w], weight_decay=0.01, apply_decay_param_fun=lambda name: "bias" not in name, lr_ratio=lambda p: 0.5
        ),
        paddle.optimizer.Adamax(0.01, parameters=[w], weight_decay=L1Decay(1e-4)),
        paddle.optimizer.Lamb(0.01, parameters=[w], exclude_from_weight_decay_fn=lambda p: p.name == "bias"),
        paddle.optimizer.NAdam(parameters=[w], grad_clip=ClipGradByNorm(clip_norm=1.0)),
        paddle.optimizer.RAdam(0.01, epsilon=1e-6, parameters=[w]),
    ]


def eager() -> None:
    w = paddle.to_tensor([1.0, -2.0], stop_gradient=False)
    for optimizer in optimizers(w):
        F.mse_loss(w, paddle.to_tensor([0.0, 0.0])).backward()
        optimizer.step()
        optimizer.clear_grad()
        rate: float = optimizer.get_lr()
        state: dict[str, Any] = optimizer.state_dict()
        optimizer.set_state_dict(state)
        assert rate > 0.0
    lbfgs = paddle.optimizer.LBFGS(max_iter=5, line_search_fn="strong_wolfe", parameters=[w])

    def closure() -> paddle.Tensor:
        lbfgs.clear_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert lbfgs.step(closure).item() >= 0.0
    plateau = lr.ReduceOnPlateau(0.1, mode="max", patience=1, threshold_mode="abs")
    plateau.step(0.5)
    plateau.step(w.sum())
    for schedule in schedules():
        schedule.step()
        assert schedule() >= 0.0 and schedule.last_epoch == 1


def mixed_precision() -> None:
    w = paddle.to_tensor([2.0], stop_gradient=False)
    sgd = paddle.optimizer.SGD(0.1, parameters=[w])
    scaler = paddle.amp.GradScaler(init_loss_scaling=8.0, incr_every_n_steps=10)
    with paddle.amp.auto_cast(level="O1", custom_black_list=["exp"]):
        loss = (w * w).sum()
    scaler.scale(loss).backward()
    scaler.step(sgd)
    scaler.update()


def initial_values() -> None:
    for chosen in (
        initializer.Constant(0.5),
        initializer.Uniform(-0.1, 0.1),
        initializer.Normal(mean=0.0, std=0.02),
        initializer.TruncatedNormal(std=0.02, a=-1.0, b=1.0),
        initializer.XavierUniform(gain=2.0),
        initializer.XavierNormal(fan_in=3, fan_out=2),
        initializer.KaimingUniform(nonlinearity="leaky_relu", negative_slope=0.1),
        initializer.KaimingNormal(),
        initializer.Orthogonal(gain=initializer.calculate_gain("tanh")),
        initializer.Assign(np.zeros((3, 2), np.float32)),
        initializer.Assign([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    ):
        attr = paddle.ParamAttr(initializer=chosen, learning_rate=0.5, regularizer=L2Decay(1e-4), need_clip=False)
        assert paddle.create_parameter([3, 2], "float32", attr=attr).shape == [3, 2]
    filters = [initializer.Dirac(groups=1), initializer.Bilinear()]
    assert len(filters) == 2


def metrics() -> None:
    accuracy = paddle.metric.Accuracy(topk=(1, 2))
    scores = paddle.to_tensor([[0.1, 0.9], [0.8, 0.2]])
    accuracy.update(accuracy.compute(scores, paddle.to_tensor([1, 1])))
    for metric in (paddle.metric.Precision(), paddle.metric.Recall("hits")):
        metric.update(np.array([0.9, 0.1]), np.array([1, 0]))
        metric.reset()
    auc = paddle.metric.Auc(num_thresholds=100)
    auc.update(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0], [1]]))
    area: float = auc.accumulate()
    assert area == 1.0


def symbolic() -> None:
    with static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [None, 2], "float32")
        weight = static.WeightNormParamAttr(dim=1, initializer=initializer.Normal(std=0.1))
        loss = paddle.mean(static.nn.fc(x, size=1, weight_attr=weight))
        operators, pairs = paddle.optimizer.AdamW(lr.CosineAnnealingDecay(0.1, T_max=5)).minimize(loss)
        assert operators and pairs
        average = static.ExponentialMovingAverage(0.99)
        average.update()
        build, execution = static.BuildStrategy(), static.ExecutionStrategy()
        build.fuse_all_optimizer_ops = True
        execution.num_threads = 1
        executor = static.Executor(static.CPUPlace(), threads=1)
        executor.run(static.default_startup_program())
        compiled = static.CompiledProgram(static.default_main_program(), build_strategy=build)
        feed = {"x": np.ones((3, 2), np.float32)}
        executor.run(compiled, feed=feed, fetch_list=[loss])
        with average.apply(executor):
            executor.run(feed=feed, fetch_list=[loss])
    with static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [None, 2], "float32")
        loss = paddle.mean(static.nn.fc(x, size=1))
        lists = static.amp.AutoMixedPrecisionLists(custom_black_list=["conv2d"])
        decorated = static.amp.decorate(paddle.optimizer.SGD(0.1), lists, level="O2", init_loss_scaling=8.0)
        decorated.minimize(loss)
        older = static.amp.decorate(paddle.optimizer.SGD(0.1), init_loss_scaling=8.0, use_pure_fp16=True)
        assert decorated.get_lr() == older.get_lr()


def batches() -> None:
    data = paddle.io.TensorDataset([np.arange(5), np.arange(5)])
    loader = paddle.io.DataLoader(data, batch_size=2, shuffle=True, num_workers=1, drop_last=True)
    assert len(loader) == len(list(loader)) == 2
    assert len(list(paddle.io.DataLoader([1, 2, 3], batch_size=2, collate_fn=lambda samples: sum(samples)))) == 2


def main() -> None:
    eager()
    mixed_precision()
    initial_values()
    metrics()
    symbolic()
    batches()
    Plain(0.1, weight_decay=None)
    assert static.CUDAPlace(1, use_tf32=True, cudnn_conv_algo_search="HEURISTIC").index == 1
    assert distributed.Strategy(compress="top-k", top_k=0.1, batch_norm="sync").sharding == 0


if __name__ == "__main__":
    main()
