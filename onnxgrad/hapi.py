"""paddle.Model: the loop over batches of an eager network, with its optimizer, loss and metrics.

Tests: tests/paddle_suite/test_surface.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxgrad import jit
from onnxgrad.autograd import no_grad
from onnxgrad.dtypes import DTypeLike
from onnxgrad.eager.creation import to_tensor
from onnxgrad.eager.parameter import EagerParameter
from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import ArgumentTypeError, Mismatch, NotOffered
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.internal.saving import load, save
from onnxgrad.io import DataLoader, Samples
from onnxgrad.metric import Metric
from onnxgrad.nn import Layer
from onnxgrad.nn.summary import InputSizes, summary
from onnxgrad.static import InputSpec

if TYPE_CHECKING:
    from onnxgrad.optimizer.optimizer import Optimizer

__all__ = ["Model"]


def _listed(item: Any) -> list[Any]:
    return [] if item is None else list(item) if isinstance(item, (list, tuple)) else [item]


class Model:
    """Train, evaluate and run an eager network over batches. ``onnxgrad.training.Trainer`` does more, and keeps checkpoints.

    Args:
        network: a Layer.
        inputs: InputSpecs of what it takes, for ``save(training=False)``; how many there are says how a batch is divided.
        labels: InputSpecs of the labels.

    Raises:
        ArgumentTypeError: if the network is no Layer.

    Example:
        >>> model = paddle.Model(paddle.nn.Linear(2, 1))
        >>> model.prepare(paddle.optimizer.SGD(0.1, parameters=model.parameters()), paddle.nn.MSELoss())
        >>> data = paddle.io.TensorDataset([paddle.ones([8, 2]), paddle.zeros([8, 1])])
        >>> model.fit(data, batch_size=4, epochs=20, verbose=0)
        >>> model.evaluate(data, batch_size=8, verbose=0)["loss"][0] < 1e-3
        True
    """

    def __init__(
        self,
        network: Layer,
        inputs: InputSpec | Sequence[InputSpec] | None = None,
        labels: InputSpec | Sequence[InputSpec] | None = None,
    ) -> None:
        if not isinstance(network, Layer):
            raise ArgumentTypeError(f"Model takes a Layer, not {type(network).__name__}.")
        self.network, self._inputs, self._labels = network, _listed(inputs), _listed(labels)
        self._optimizer: Optimizer | None = None
        self._loss: Callable[..., Any] | None = None
        self._metrics: list[Metric] = []
        self.stop_training = False

    def parameters(self) -> list[EagerParameter]:
        """List the parameters of the network."""
        return self.network.parameters()

    def prepare(
        self,
        optimizer: Optimizer | None = None,
        loss: Callable[..., Any] | None = None,
        metrics: Metric | Sequence[Metric] | None = None,
        amp_configs: None = None,
    ) -> None:
        """Set the optimizer, the loss and the metrics.

        Args:
            optimizer: of the network's parameters.
            loss: called with what the network gives and the labels.
            metrics: one or several.
            amp_configs: must be None: put ``amp.auto_cast`` around what the network computes.

        Raises:
            ArgumentTypeError: if the loss cannot be called, or a metric is none.
            NotOffered: for ``amp_configs``.
        """
        if loss is not None and not callable(loss):
            raise ArgumentTypeError(f"prepare: loss is a function or a Layer, not {type(loss).__name__}.")
        if not all(isinstance(metric, Metric) for metric in _listed(metrics)):
            raise Mismatch("prepare: metrics are objects of paddle.metric.")
        if amp_configs is not None:
            raise NotOffered("prepare: amp_configs is not offered. Put amp.auto_cast around the forward of the network.")
        self._optimizer, self._loss, self._metrics = optimizer, loss, _listed(metrics)

    # One batch -------------------------------------------------------------------------------------------------------

    def train_batch(self, inputs: Any, labels: Any = None, update: bool = True) -> Any:
        """Take a step.

        Args:
            inputs: what the network takes: a tensor, an array, or a list of them.
            labels: likewise.
            update: False to leave the gradients for a later step.

        Returns:
            The losses; with metrics a pair of them and of the metrics' values.

        Raises:
            Mismatch: (an AssertionError) without an optimizer and a loss.
        """
        if self._optimizer is None or self._loss is None:
            raise Mismatch("the Model has no optimizer or no loss. Call prepare first.")
        self.network.train()
        outputs, losses, tensors = self._computed(inputs, labels)
        total = losses[0]
        for loss in losses[1:]:
            total = total + loss
        total.backward()
        if update:
            self._optimizer.step()
            self._optimizer.clear_grad()
        return self._judged(outputs, losses, tensors)

    def eval_batch(self, inputs: Any, labels: Any = None) -> Any:
        """Compute losses and metrics without a step.

        Args:
            inputs: what the network takes: a tensor, an array, or a list of them.
            labels: likewise.

        Returns:
            As ``train_batch``.
        """
        self.network.eval()
        with no_grad():
            outputs, losses, tensors = self._computed(inputs, labels)
            return self._judged(outputs, losses, tensors)

    def predict_batch(self, inputs: Any) -> list[np.ndarray[Any, Any]]:
        """Compute the outputs of the network.

        Args:
            inputs: what it takes: a tensor, an array, or a list of them.
        """
        self.network.eval()
        with no_grad():
            return [output.numpy() for output in _listed(self.network(*map(_tensor, _listed(inputs))))]

    def _computed(self, inputs: Any, labels: Any) -> tuple[list[Any], list[Any], list[Any]]:
        outputs = _listed(self.network(*map(_tensor, _listed(inputs))))
        tensors = [_tensor(label) for label in _listed(labels)]
        return outputs, _listed(self._loss(*outputs, *tensors)) if self._loss is not None else [], tensors

    def _judged(self, outputs: list[Any], losses: list[Any], labels: list[Any]) -> Any:
        values = []
        for metric in self._metrics:
            values.append(metric.update(*[np.asarray(item) for item in _listed(metric.compute(*outputs, *labels))]))
        shown = [loss.numpy() for loss in losses]
        return (shown, values) if self._metrics else shown

    # Many ------------------------------------------------------------------------------------------------------------

    @checked
    def fit(
        self,
        train_data: Samples | DataLoader | None = None,
        eval_data: Samples | DataLoader | None = None,
        batch_size: int = 1,
        epochs: int = 1,
        eval_freq: int = 1,
        log_freq: int = 10,
        save_dir: str | None = None,
        save_freq: int = 1,
        verbose: int = 2,
        drop_last: bool = False,
        shuffle: bool = True,
        num_workers: int = 0,
        callbacks: None = None,
        accumulate_grad_batches: int = 1,
        num_iters: int | None = None,
    ) -> None:
        """Train over all batches, again and again.

        Args:
            train_data: a Dataset or a DataLoader.
            eval_data: likewise, for ``evaluate`` after epochs.
            batch_size: of a Dataset.
            epochs: how often.
            eval_freq: after how many epochs ``eval_data`` is evaluated.
            log_freq: accepted as in Paddle: a line is printed after each epoch.
            save_dir: a folder that ``save`` writes to after epochs, and at last as ``final``.
            save_freq: after how many epochs.
            verbose: 0 to print nothing.
            drop_last: whether a last batch that is smaller is left out.
            shuffle: whether a Dataset is shuffled.
            num_workers: threads that read it.
            callbacks: must be None: write the loop, of ``train_batch``, or use the Trainer.
            accumulate_grad_batches: after how many batches there is a step.
            num_iters: at most so many batches.
        """
        _refuse_callbacks("fit", callbacks)
        loader = _loader(train_data, batch_size, shuffle, drop_last, num_workers)
        seen = 0
        for epoch in range(epochs):
            losses = []
            for at, batch in enumerate(loader):
                inputs, labels = self._divided(batch)
                result = self.train_batch(inputs, labels, (at + 1) % accumulate_grad_batches == 0 or at + 1 == len(loader))
                losses.append((result[0] if self._metrics else result)[0])
                seen += 1
                if seen == num_iters or self.stop_training:
                    break
            if verbose:
                print(f"epoch {epoch + 1}/{epochs}: loss {np.mean(losses):.4g}{self._described()}")
            self._reset()
            if eval_data is not None and (epoch + 1) % eval_freq == 0:
                self.evaluate(eval_data, batch_size, verbose=verbose, num_workers=num_workers)
            if save_dir is not None and (epoch + 1) % save_freq == 0:
                self.save(str(Path(save_dir) / str(epoch)))
            if seen == num_iters or self.stop_training:
                break
        if save_dir is not None:
            self.save(str(Path(save_dir) / "final"))

    @checked
    def evaluate(
        self,
        eval_data: Samples | DataLoader,
        batch_size: int = 1,
        log_freq: int = 10,
        verbose: int = 2,
        num_workers: int = 0,
        callbacks: None = None,
        num_iters: int | None = None,
    ) -> dict[str, Any]:
        """Compute the loss of the last batch, as in Paddle, and the metrics of all.

        Args:
            eval_data: a Dataset or a DataLoader.
            batch_size: of a Dataset.
            log_freq: accepted as in Paddle.
            verbose: 0 to print nothing.
            num_workers: threads that read a Dataset.
            callbacks: must be None.
            num_iters: at most so many batches.

        Returns:
            ``loss`` and the metrics, by name.
        """
        _refuse_callbacks("evaluate", callbacks)
        results: dict[str, Any] = {}
        for at, batch in enumerate(_loader(eval_data, batch_size, False, False, num_workers)):
            result = self.eval_batch(*self._divided(batch))
            if self._loss is not None:
                results["loss"] = [float(loss) for loss in (result[0] if self._metrics else result)]
            if at + 1 == num_iters:
                break
        for metric in self._metrics:
            names, values = _listed(metric.name()), _listed(metric.accumulate())
            results.update(zip(names, values, strict=True))
        self._reset()
        if verbose:
            print("evaluated: " + ", ".join(f"{name} {value}" for name, value in results.items()))
        return results

    @checked
    def predict(
        self,
        test_data: Samples | DataLoader,
        batch_size: int = 1,
        num_workers: int = 0,
        stack_outputs: bool = False,
        verbose: int = 1,
        callbacks: None = None,
    ) -> list[Any]:
        """Compute the outputs of the network for all batches.

        Args:
            test_data: a Dataset or a DataLoader.
            batch_size: of a Dataset.
            num_workers: threads that read it.
            stack_outputs: whether the batches of an output become one array.
            verbose: 0 to print nothing.
            callbacks: must be None.

        Returns:
            For each output a tuple of arrays, or one array.
        """
        _refuse_callbacks("predict", callbacks)
        batches = [self.predict_batch(self._divided(b)[0]) for b in _loader(test_data, batch_size, False, False, num_workers)]
        if verbose:
            print(f"predicted {len(batches)} batches")
        outputs = list(zip(*batches, strict=True))
        return [np.concatenate(output) for output in outputs] if stack_outputs else outputs

    def _divided(self, batch: Any) -> tuple[list[Any], list[Any]]:
        """Inputs and labels of a batch: as many inputs as were described, else all but the last"""
        fields = _listed(batch)
        count = len(self._inputs) or max(1, len(fields) - 1)
        return fields[:count], fields[count:]

    def _reset(self) -> None:
        for metric in self._metrics:
            metric.reset()

    def _described(self) -> str:
        pairs: Iterator[tuple[Any, Any]] = ((metric.name(), metric.accumulate()) for metric in self._metrics)
        return "".join(f", {name} {value}" for name, value in pairs)

    # Files -----------------------------------------------------------------------------------------------------------

    @checked
    def save(self, path: str, training: bool = True) -> None:
        """Write the parameters and the state of the optimizer, or the network alone as an ONNX file.

        Args:
            path: the prefix of ``.pdparams`` and ``.pdopt``, or of ``.onnx``.
            training: False for the network alone, which needs ``inputs``.
        """
        if not training:
            jit.save(self.network, path, input_spec=self._inputs or None)
            return
        save(self.network.state_dict(), f"{path}.pdparams")
        state = {} if self._optimizer is None else self._optimizer.state_dict()
        if state:
            save(state, f"{path}.pdopt")

    @checked
    def load(self, path: str, skip_mismatch: bool = False, reset_optimizer: bool = False) -> None:
        """Load the values that ``save``, or Paddle's Model, wrote.

        Args:
            path: the prefix.
            skip_mismatch: whether parameters of another shape are left as they are, with a warning.
            reset_optimizer: whether the state of the optimizer is not read.

        Raises:
            Mismatch: if a parameter is missing or has another shape, and ``skip_mismatch`` is False.
        """
        state, own = load(f"{path}.pdparams"), self.network.state_dict()
        unfit = [name for name, value in own.items() if name not in state or list(state[name].shape) != list(value.shape)]
        if unfit and not skip_mismatch:
            raise Mismatch(f"load: {unfit[0]} is missing in {path}.pdparams, or has another shape. Pass skip_mismatch=True.")
        self.network.set_state_dict(state)
        if self._optimizer is not None and not reset_optimizer and Path(f"{path}.pdopt").is_file():
            self._optimizer.set_state_dict(load(f"{path}.pdopt"))

    def summary(self, input_size: InputSizes | None = None, dtype: DTypeLike | None = None) -> dict[str, int]:
        """Print a table of the layers.

        Args:
            input_size: shapes of the inputs; those of ``inputs`` unless given.
            dtype: their element types.

        Returns:
            How many parameters there are, and are trained.
        """
        sizes: Any = input_size if input_size is not None else [tuple(spec.shape) for spec in self._inputs]
        return summary(self.network, sizes[0] if isinstance(sizes, list) and len(sizes) == 1 else sizes, dtype)


def _tensor(item: Any) -> Any:
    return item if isinstance(item, Tensor) else to_tensor(item)


def _loader(data: Any, batch_size: int, shuffle: bool, drop_last: bool, num_workers: int) -> DataLoader:
    if isinstance(data, DataLoader):
        return data
    return DataLoader(data, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, num_workers=num_workers)


def _refuse_callbacks(function: str, callbacks: object) -> None:
    if callbacks is not None:
        raise NotOffered(f"Model.{function}: callbacks are not offered. Write the loop with train_batch, or use training.Trainer.")


globals().update(absence_hooks(__name__))
