"""Federated training with Flower: each participant keeps its data and its optimizer, weights and statistics travel.

McMahan, Moore, Ramage, Hampson and Agüera y Arcas, "Communication-efficient learning of deep networks from decentralized data",
AISTATS 2017. ``client``, ``strategy`` and ``run`` need the extra ``federated``, ``epsilon`` the extra ``privacy``; the rest needs
onnxruntime alone.
"""

from onnxgrad.federated.accountant import epsilon
from onnxgrad.federated.flower import client, run, run_secure, strategy
from onnxgrad.federated.privacy import private_gradients
from onnxgrad.federated.process import ProcessWorker
from onnxgrad.federated.proximal import save_step
from onnxgrad.federated.worker import Worker

__all__ = ["ProcessWorker", "Worker", "client", "epsilon", "private_gradients", "run", "run_secure", "save_step", "strategy"]


def __dir__() -> list[str]:
    return __all__
