"""Flower: a ClientApp around a Worker, strategies, and the rounds of a ServerApp, with or without secure aggregation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from onnxgrad.core.ir.program import Program
from onnxgrad.errors import ArgumentError, DataError, OnnxGradError, TrainingError
from onnxgrad.federated.worker import Array, Columns, Worker
from onnxgrad.internal.arguments import checked
from onnxgrad.training.trainer import Trainer

if TYPE_CHECKING:
    from collections.abc import Callable

    from flwr.app import Context
    from flwr.clientapp import ClientApp
    from flwr.clientapp.typing import Mod
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import FedAvg, Strategy

    from onnxgrad.core.ir.variable import Variable
    from onnxgrad.federated.worker import Source


__all__ = ["client", "run", "run_secure", "strategy"]

Row: TypeAlias = "dict[str, float]"
Data: TypeAlias = "Columns | tuple[Columns, Columns] | Callable[[Context], Columns | tuple[Columns, Columns]]"

_KEPT = "optimizer"


def _flower() -> Any:
    try:
        import flwr.app
        import flwr.clientapp
        import flwr.server
        import flwr.serverapp.strategy
    except ImportError as error:
        raise OnnxGradError("federated training needs the package flwr. Install onnxgrad[federated].") from error
    return flwr


@checked
def client(
    step: Source | Callable[[Context], Source | Worker],
    data: Data,
    *,
    loss: Variable | str | None = None,
    optimizer: Literal["reset", "kept"] = "reset",
    secure: bool = False,
    mods: tuple[Mod, ...] = (),
) -> ClientApp:
    """A Flower ClientApp that trains and evaluates on its own data.

    From the server's configuration it reads ``epochs`` (1), ``batch-size`` (32), ``sampling`` (``"shuffle"``; see ``Worker.fit``),
    ``learning-rate`` (that of the step), ``seed`` (0), from which the order of the data and the masks of each node and round
    follow, and the ``proximal-mu`` of FedProx. It answers with weights and statistics, its number of examples (by which FedAvg
    weighs it) and its loss. Where the step is private (``private_gradients``), the node draws its batches from its own system, not
    from the server's ``seed``, and answers training and evaluation without a loss or metric, which would be exact.

    Args:
        step: what ``Worker`` takes, or a function of the Flower context that gives that or a Worker, which is called on the node.
        data: columns to train on, or a pair of those and of columns to evaluate on, or a function of the context that gives such.
        loss: of a Program, as for ``Worker``.
        optimizer: ``"reset"`` to begin each round with the state of the step that was given, which is what federated averaging
            means; ``"kept"`` to let it stay on the node from round to round. It never travels.
        secure: answer to ``run_secure``: weights leave the node masked (SecAgg+).
        mods: of Flower, around training, such as ``flwr.clientapp.mod.fixedclipping_mod`` for differential privacy.

    Raises:
        OnnxGradError: if Flower is not installed.
        ArgumentError: if ``optimizer`` is neither.

    Example:
        >>> app = client("step.json", {"image": images, "label": labels})  # doctest: +SKIP
    """
    flwr = _flower()
    if optimizer not in ("reset", "kept"):
        raise ArgumentError(f"optimizer is 'reset' or 'kept', not {optimizer!r}.")
    node = _Node(step, data, loss, optimizer == "kept")
    if secure:
        return _secure_client(flwr, node, mods)
    app = flwr.clientapp.ClientApp()

    @app.train(mods=list(mods))  # type: ignore[untyped-decorator, unused-ignore]
    def train(message: Any, context: Any) -> Any:
        arrays, row = node.train(message.content["arrays"].to_numpy_ndarrays(), dict(message.content["config"]), context)
        return _reply(flwr, message, row, arrays)

    @app.evaluate()  # type: ignore[untyped-decorator, unused-ignore]
    def evaluate(message: Any, context: Any) -> Any:
        return _reply(flwr, message, node.evaluate(message.content["arrays"].to_numpy_ndarrays(), context))

    return app


def _reply(flwr: Any, message: Any, row: Row, arrays: list[Array] | None = None) -> Any:
    metrics = {"num-examples" if name == "examples" else name: value for name, value in row.items()}
    content = {} if arrays is None else {"arrays": flwr.app.ArrayRecord(arrays)}
    return flwr.app.Message(flwr.app.RecordDict({**content, "metrics": flwr.app.MetricRecord(metrics)}), reply_to=message)


def _secure_client(flwr: Any, node: _Node, mods: tuple[Any, ...]) -> Any:
    from flwr.client import NumPyClient
    from flwr.client.mod import secaggplus_mod

    def make(context: Any) -> Any:
        class Client(NumPyClient):  # type: ignore[misc, unused-ignore]
            def fit(self, parameters: list[Array], config: dict[str, Any]) -> tuple[list[Array], int, Row]:
                arrays, row = node.train(parameters, config, context)
                _check_range(node, arrays, row, config)
                return arrays, int(row["examples"]), {name: value for name, value in row.items() if name == "loss"}

        return Client().to_client()

    return flwr.clientapp.ClientApp(make, mods=[secaggplus_mod, *mods])


def _check_range(node: _Node, arrays: list[Array], row: Row, config: Mapping[str, Any]) -> None:
    """Refuse what SecAgg+ would cut off without a word."""
    largest, limit = max(float(np.abs(array).max(initial=0)) for array in arrays), config["clipping-range"]
    if largest > limit:
        raise DataError(f"a weight or statistic is {largest:g}, secure aggregation cuts at {limit:g}. Raise clipping_range.")
    if row["examples"] > config["max-weight"]:
        raise DataError(f"this node has {row['examples']} examples, more than max_weight={config['max-weight']:g}. Raise it.")


class _Node:
    """Trains and evaluates for a client, in either form of message."""

    def __init__(self, step: Any, data: Data, loss: Any, kept: bool) -> None:
        self.step, self.data, self.loss, self.kept = step, data, loss, kept

    def worker(self, context: Any, proximal: bool = False) -> Any:
        step = self.step(context) if callable(self.step) else self.step
        if isinstance(step, (Trainer, Program)):
            return Worker(step, loss=self.loss if isinstance(step, Program) else None, proximal=proximal)
        return step if hasattr(step, "fit") else Worker(step)

    def columns(self, context: Any) -> tuple[Columns, Columns]:
        data = self.data(context) if callable(self.data) else self.data
        return data if isinstance(data, tuple) else (data, data)

    def train(self, arrays: list[Array], config: dict[str, Any], context: Any) -> tuple[list[Array], Row]:
        mu = float(config.get("proximal-mu", 0.0))
        worker = self.worker(context, mu > 0)
        worker.set(arrays)
        flwr = _flower()
        if self.kept and _KEPT in context.state:
            worker.set_local_state({name: value.numpy() for name, value in context.state[_KEPT].items()})
        else:
            worker.set_local_state(None)
        number = context.node_config.get("partition-id", context.node_id)
        mixed = np.random.SeedSequence([int(config.get("seed", 0)), int(number), int(config.get("server-round", 0))])
        row = worker.fit(
            self.columns(context)[0],
            epochs=int(config.get("epochs", 1)),
            batch_size=int(config.get("batch-size", 32)),
            sampling=str(config.get("sampling", "shuffle")),
            seed=None if _is_private(worker) else int(mixed.generate_state(1)[0]),
            proximal=mu,
            learning_rate=config.get("learning-rate"),
        )
        if self.kept:
            state = {name: flwr.app.Array(value) for name, value in worker.local_state().items()}
            context.state[_KEPT] = flwr.app.ArrayRecord(state)
        return worker.get(), _sent(worker, row)

    def evaluate(self, arrays: list[Array], context: Any) -> Row:
        worker = self.worker(context)
        worker.set(arrays)
        columns = self.columns(context)[1]
        if _is_private(worker):
            return {"examples": len(np.asarray(next(iter(columns.values()))))}
        row: Row = worker.evaluate(columns)
        return row


def _is_private(worker: Any) -> bool:
    """Whether a worker, which may be a user's own class, trains by a private step."""
    return bool(getattr(worker, "is_private", False))


def _sent(worker: Any, row: Row) -> Row:
    """What the server is told of local training."""
    return {"examples": row["examples"]} if _is_private(worker) else row


@checked
def strategy(clients: int, *, proximal: float = 0.0, fraction: float = 1.0, evaluate: bool = False, **more: Any) -> FedAvg:
    """FedAvg, weighted by examples, or with ``proximal`` FedProx: Flower's own, which its wrappers for differential privacy take.

    Args:
        clients: how many must be connected before a round begins.
        proximal: mu of FedProx.
        fraction: of the clients that train in a round.
        evaluate: whether clients evaluate after each round, on their data.
        more: arguments of Flower's strategy.

    Raises:
        OnnxGradError: if Flower is not installed; ArgumentError if ``proximal`` is negative.

    Example:
        >>> chosen = strategy(5, proximal=0.1)  # doctest: +SKIP
        >>> private = DifferentialPrivacyServerSideFixedClipping(chosen, 0.5, 1.0, 5)  # doctest: +SKIP
    """
    flwr = _flower()
    if proximal < 0:
        raise ArgumentError(f"proximal is at least 0, not {proximal}.")
    options: dict[str, Any] = {
        "fraction_train": fraction,
        "fraction_evaluate": 1.0 if evaluate else 0.0,
        "min_train_nodes": max(1, round(clients * fraction)),
        "min_evaluate_nodes": clients,
        "min_available_nodes": clients,
        **more,
    }
    known = flwr.serverapp.strategy
    return known.FedProx(proximal_mu=proximal, **options) if proximal else known.FedAvg(**options)


@checked
def run(
    grid: Grid,
    worker: Worker,
    chosen: Strategy,
    *,
    rounds: int,
    data: Columns | None = None,
    config: Mapping[str, float | str] | None = None,
) -> list[Row]:
    """Run all rounds, from the weights of ``worker``, which has the weights of the last round afterwards.

    Args:
        grid: what Flower gives ``main`` of a ServerApp.
        worker: holds the first weights, and evaluates.
        chosen: a strategy.
        rounds: their number.
        data: columns to evaluate on at the server after each round; None for none.
        config: what clients are told: ``epochs``, ``batch-size``, ``learning-rate``, ``seed``.

    Returns:
        A row for each round, from 0, before the first: ``round``, what ``worker.evaluate`` gives, and ``train_loss``, the mean
        over the clients' examples, unless their steps are private.

    Raises:
        TrainingError: if no client answered in a round, as their errors in the log say.

    Example:
        >>> history = run(grid, Worker("step.json"), strategy(5), rounds=10)  # doctest: +SKIP
    """
    flwr = _flower()
    result = chosen.start(
        grid=grid,
        initial_arrays=flwr.app.ArrayRecord(worker.get()),
        num_rounds=rounds,
        train_config=flwr.app.ConfigRecord(dict(config or {})),
        evaluate_fn=lambda number, arrays: flwr.app.MetricRecord(_evaluated(worker, arrays.to_numpy_ndarrays(), data)),
    )
    trained = result.train_metrics_clientapp
    silent = [number for number in range(1, rounds + 1) if number not in trained]
    if silent:
        raise TrainingError(f"no client answered in round {silent[0]}. Look for their errors in the log.")
    rows = {number: {"round": number, **dict(metrics)} for number, metrics in result.evaluate_metrics_serverapp.items()}
    for number, metrics in trained.items():
        if "loss" in metrics:  # private clients send none
            rows[number]["train_loss"] = float(metrics["loss"])
    for number, metrics in result.evaluate_metrics_clientapp.items():
        rows[number].update({f"clients_{name}": float(value) for name, value in metrics.items()})
    return [rows[number] for number in sorted(rows)]


@checked
def run_secure(
    grid: Grid,
    context: Context,
    worker: Worker,
    clients: int,
    *,
    rounds: int,
    data: Columns | None = None,
    config: Mapping[str, float | str] | None = None,
    shares: float = 1.0,
    threshold: float = 0.6,
    clipping_range: float = 8.0,
    max_weight: float = 1000.0,
) -> list[Row]:
    """``run`` with FedAvg by SecAgg+: the server learns the weighted mean of the weights, and of no client its own.

    Each client's weights, times its examples over ``max_weight``, are rounded to 2^22 steps between -``clipping_range`` and
    ``clipping_range``: choose the smallest that hold. A client with a larger weight or more examples refuses to take part. The
    number of examples and the loss of a client are not masked (private clients send no loss).

    Args:
        grid, context: what Flower gives ``main`` of a ServerApp.
        worker, rounds, data, config: as for ``run``.
        clients: how many take part; all must be connected.
        shares: of each key, as a part of the clients; threshold: the part of the shares that opens it again when a client drops.
        clipping_range, max_weight: see above.

    Returns:
        A row for each round, as ``run``.

    Raises:
        TrainingError: if a round came to no mean.

    Example:
        >>> history = run_secure(grid, context, Worker("step.json"), 5, rounds=3)  # doctest: +SKIP
    """
    flwr = _flower()
    from flwr.common import ndarrays_to_parameters
    from flwr.server.strategy import FedAvg
    from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow

    rows: list[Row] = []
    told = {"clipping-range": float(clipping_range), "max-weight": float(max_weight), **(config or {})}

    def evaluate(number: int, arrays: list[Array], _: Any) -> tuple[float, dict[str, Any]] | None:
        row = _evaluated(worker, arrays, data)
        rows.append({"round": number, **row})
        return (row["loss"], {}) if "loss" in row else None

    answered: list[int] = []

    def count(row: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
        answered.append(len(row))
        return {}

    chosen = FedAvg(
        fraction_evaluate=0.0,
        min_fit_clients=clients,
        min_evaluate_clients=clients,
        min_available_clients=clients,
        initial_parameters=ndarrays_to_parameters(worker.get()),
        evaluate_fn=evaluate,
        on_fit_config_fn=lambda number: {"server-round": number, **told},
        fit_metrics_aggregation_fn=count,
    )
    settings = flwr.server.ServerConfig(num_rounds=rounds)
    legacy = flwr.server.LegacyContext(context=context, config=settings, strategy=chosen)
    protocol = SecAggPlusWorkflow(shares, threshold, clipping_range=clipping_range, max_weight=max_weight)
    DefaultWorkflow(fit_workflow=protocol)(grid, legacy)
    if len(answered) < rounds:
        raise TrainingError(
            f"{rounds - len(answered)} of {rounds} rounds came to no mean. Look for the errors of clients in the log."
        )
    return rows


def _evaluated(worker: Worker, arrays: list[Array], data: Columns | None) -> Row:
    worker.set(arrays)
    return {} if data is None else worker.evaluate(data)
