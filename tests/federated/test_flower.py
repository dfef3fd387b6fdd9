"""Flower's strategies over clients of this package, in one process: what Flower's own runtime would carry, a loop carries."""

from copy import deepcopy
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import federated
from onnxgrad.errors import ArgumentError, TrainingError
from onnxgrad.federated import Worker
from tests.federated.test_worker import linear, points, trainer
from tests.training import small

flwr = pytest.importorskip("flwr", reason="flwr is not installed: federated training was not tried")
from flwr.clientapp.mod import LocalDpMod  # noqa: E402
from flwr.serverapp import Grid  # noqa: E402
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping  # noqa: E402

# Of Flower, which calls names of its own that it has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = (5, 7, 28)


class Loop(Grid):
    """Nodes that are called one after the other; their contexts stay, as those of supernodes do."""

    def __init__(self, apps):
        self.apps = {number + 1: app for number, app in enumerate(apps)}
        empty = flwr.app.RecordDict
        task = pytest.importorskip("flwr.supercore.task_identity").TaskIdentity
        task.task_id, task.run_id, task.node_id = 1, 1, 0
        self.contexts = {node: flwr.app.Context(1, node, {"partition-id": node - 1}, empty(), {}) for node in self.apps}
        self.sent, self.errors = [], []

    run = SimpleNamespace(run_id=1)

    def set_run(self, run):
        pass

    def create_message(self, *arguments, **named):
        raise NotImplementedError

    def get_nodes(self):
        return [SimpleNamespace(node_id=node) for node in self.apps]

    def get_node_ids(self):
        return list(self.apps)

    def push_messages(self, messages):
        raise NotImplementedError

    def pull_messages(self, message_ids):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        return [self.answer(message) for message in messages]

    def answer(self, message):
        message = deepcopy(message)  # one content is sent to all, and each may change it
        node = message.metadata.dst_node_id
        try:
            found = self.apps[node](message, self.contexts[node])
        except Exception as error:
            self.errors.append(error)
            return flwr.app.Message(flwr.app.Error(code=0, reason=str(error)), reply_to=message)
        self.sent.append((node, found.content))
        return found


def parts():
    """The examples of three clients of different sizes"""
    data, ends = small.data(), np.cumsum((0, *SIZES))
    return [{name: column[a:b] for name, column in data.items()} for a, b in pairwise(ends)]


def clients(**options):
    return Loop([federated.client(lambda context: trainer(optimizer="adam"), part, **options) for part in parts()])


def local(part, arrays, number, round_number, **options):
    """What one client is expected to make of these weights"""
    worker = Worker(trainer(optimizer="adam"))
    worker.set(arrays)
    seed = int(np.random.SeedSequence([0, number, round_number]).generate_state(1)[0])
    worker.fit(part, batch_size=8, seed=seed, **options)
    return worker.get()


def test_a_round_is_the_mean_by_examples_of_weights_and_statistics():
    worker = Worker(trainer(optimizer="adam"))
    names, start = worker.names, worker.get()
    rows = federated.run(clients(), worker, federated.strategy(3), rounds=1, data=small.data(), config={"batch-size": 8})
    made = [local(part, start, number, 1) for number, part in enumerate(parts())]
    for i, (name, value) in enumerate(zip(names, worker.get(), strict=True)):
        mean = sum(size * arrays[i].astype(np.float64) for size, arrays in zip(SIZES, made, strict=True)) / 40
        np.testing.assert_allclose(value, mean, rtol=1e-5, atol=1e-6, err_msg=name)
    assert [row["round"] for row in rows] == [0, 1] and {"loss", "accuracy", "train_loss"} <= rows[1].keys()


def test_rounds_learn():
    worker = Worker(trainer(optimizer="adam"))
    chosen = federated.strategy(3, evaluate=True)
    rows = federated.run(clients(), worker, chosen, rounds=4, data=small.data(), config={"batch-size": 8, "epochs": 3})
    assert rows[-1]["loss"] < 0.7 * rows[0]["loss"] and rows[-1]["clients_accuracy"] > 0.6


def test_the_optimizer_is_reset_or_stays_on_its_node():
    found = {}
    for optimizer in ("reset", "kept"):
        loop, worker = clients(optimizer=optimizer), Worker(trainer(optimizer="adam"))
        federated.run(loop, worker, federated.strategy(3), rounds=2, config={"batch-size": 8})
        found[optimizer] = worker.get()
        assert all("optimizer" in context.state for context in loop.contexts.values()) == (optimizer == "kept")
        for _, content in loop.sent:
            assert len(content["arrays"].to_numpy_ndarrays()) == len(worker.names)
    assert any(not np.allclose(a, b) for a, b in zip(found["reset"], found["kept"], strict=True))


def test_the_proximal_term_reaches_the_clients():
    """A large mu holds the weights where they were; that of the step must be there although the client was built without"""
    moved = []
    for mu in (0.0, 50.0):
        program, loss = linear(paddle.optimizer.SGD(0.01))
        worker = Worker(program, loss=loss)
        start = worker.get()
        apps = Loop([federated.client(program, points(count), loss=loss) for count in (6, 12)])
        federated.run(apps, worker, federated.strategy(2, proximal=mu), rounds=1, config={"epochs": 40, "batch-size": 4})
        moved.append(max(np.abs(a - b).max() for a, b in zip(start, worker.get(), strict=True)))
    assert moved[1] < 0.1 * moved[0]


def test_secure_aggregation_gives_the_mean_and_hides_its_parts():
    plain, worker = Worker(trainer(optimizer="adam")), Worker(trainer(optimizer="adam"))
    start = worker.get()
    federated.run(clients(), plain, federated.strategy(3), rounds=1, config={"batch-size": 8})
    loop, context = clients(secure=True), flwr.app.Context(1, 0, {}, flwr.app.RecordDict(), {})
    told = {"batch-size": 8}
    rows = federated.run_secure(loop, context, worker, 3, rounds=1, data=small.data(), config=told, max_weight=28)
    assert loop.errors == [] and [row["round"] for row in rows] == [0, 1]
    for name, a, b in zip(plain.names, plain.get(), worker.get(), strict=True):
        # Each of three is rounded to steps of 16 / 2^22, in parts of 28 where all have 40.
        np.testing.assert_allclose(a, b, atol=1e-5, rtol=0, err_msg=name)
    assert any(not np.array_equal(a, b) for a, b in zip(start, worker.get(), strict=True))
    assert not any(
        "arrays" in content or any(record.keys() for record in content.array_records.values()) for _, content in loop.sent
    )


def test_secure_aggregation_refuses_to_cut_weights():
    loop, context = clients(secure=True), flwr.app.Context(1, 0, {}, flwr.app.RecordDict(), {})
    with pytest.raises(TrainingError, match="came to no mean"):
        federated.run_secure(loop, context, Worker(trainer(optimizer="adam")), 3, rounds=1, clipping_range=0.01)
    assert any("clipping_range" in str(error) for error in loop.errors)


def test_differential_privacy_of_flower_wraps_the_strategy():
    """Without noise and with a large norm it is the plain mean; a small norm bounds how far weights move"""
    moved = []
    for norm in (1e6, 1e-3):
        worker = Worker(trainer(optimizer="adam"))
        start = worker.get()
        chosen = DifferentialPrivacyServerSideFixedClipping(federated.strategy(3), 0.0, norm, 3)
        federated.run(clients(), worker, chosen, rounds=1, config={"batch-size": 8})
        moved.append(np.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(start, worker.get(), strict=True))))
    assert moved[0] > 0.05 and moved[1] < 1.01e-3


def test_mods_of_flower_stand_around_training():
    moved = []
    for mods in ((), (LocalDpMod(1e-3, 1e-9, 1e9, 0.5),)):
        worker = Worker(trainer(optimizer="adam"))
        start = worker.get()
        federated.run(clients(mods=mods), worker, federated.strategy(3), rounds=1, config={"batch-size": 8})
        moved.append(np.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(start, worker.get(), strict=True))))
    assert moved[1] < 1.01e-3 < moved[0]


def test_a_round_without_answers_is_an_error():
    loop = Loop([federated.client(lambda context: trainer(), {"x": np.zeros((3, 4))}) for _ in range(2)])
    with pytest.raises(TrainingError, match="no client answered in round 1"):
        federated.run(loop, Worker(trainer()), federated.strategy(2), rounds=1)
    assert any("lacks" in str(error) for error in loop.errors)


def test_wrong_arguments_are_refused():
    with pytest.raises(ArgumentError, match="'reset' or 'kept'"):
        federated.client(trainer(), {}, optimizer="sent")
    with pytest.raises(ArgumentError, match="at least 0"):
        federated.strategy(2, proximal=-1.0)
