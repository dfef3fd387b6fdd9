"""The server: begins with the file's weights, and evaluates the mean after each round on images that no client has."""

import json
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from digits_federated.task import CLIENTS, all_digits, trainer
from onnxgrad import federated

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    settings = context.run_config
    worker = federated.Worker(trainer(settings["model"], settings["learning-rate"]))
    _, held_out = all_digits()
    told = {"rounds": settings["rounds"], "data": held_out, "config": {"epochs": settings["epochs"], "batch-size": 32}}
    if settings["secure"]:
        # The smallest that hold: the rest of the 2^22 steps is precision.
        history = federated.run_secure(grid, context, worker, CLIENTS, clipping_range=4.0, max_weight=600.0, **told)
    else:
        history = federated.run(grid, worker, federated.strategy(CLIENTS, proximal=settings["proximal"]), **told)
    Path(settings["history"]).write_text(json.dumps(history, indent=1) + "\n")
