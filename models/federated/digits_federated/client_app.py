"""A node: its own part of the digits; with node="..." in its configuration, the program that trains is Node.js."""

import os
from pathlib import Path

from flwr.app import Context

from digits_federated.task import part_of, trainer
from onnxgrad import federated


def step(context: Context):
    settings = context.run_config
    if "node" in context.node_config:
        manifest = Path(settings["node-step"])
        command = [context.node_config["node"], context.node_config["worker"], manifest.parent]
        return federated.ProcessWorker(command, manifest)
    return trainer(settings["model"], settings["learning-rate"])


# Who runs a node says whether weights may leave it unmasked, not the server.
app = federated.client(
    step, lambda context: part_of(context.node_config["partition-id"]), secure=os.environ.get("DIGITS_SECURE") == "1"
)
