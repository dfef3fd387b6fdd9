"""Mistakes of those who differentiate, export and train on several ranks, each of which a type checker finds on its line."""

from typing import Any

import numpy as np

import onnxgrad as og
from onnxgrad import attribution, distributed, func, training

program = og.from_onnx("model.onnx")
tensor = og.to_tensor([1.0])
feeds = {"x": np.ones(3, np.float32)}


def cubed(x: og.Tensor) -> og.Tensor:
    return x * x * x


class Late(training.Callback):
    def on_end(self, trainer: training.Trainer) -> None:  # error
        pass


class Wrong(training.Callback):
    def on_step(self, trainer: training.Trainer, row: dict[str, Any]) -> str:  # error
        return "stop"


func.hvpp(program)  # error
func.hvp(3)  # error
func.hvp(program, outputs=3)  # error
func.vjp(program, inputs="x")  # error
func.grad(program)([1.0])  # error
number: float = func.grad(program)(feeds)  # error
func.value_and_grad(program)(feeds).values()  # error
func.value_and_grad(program)(feeds)[2]  # error
attribution.saliency(program, feeds, 3)  # error
attribution.grad_cam(program, feeds, layers="maps")  # error
og.hvp("y", "x", "v")  # error
og.jacobian(program.outputs[0])  # error
og.autograd.hessian(tensor, "x")  # error
og.autograd.vjp(tensor, tensor)  # error
value: str = og.autograd.jvp(cubed, tensor)[0]  # error
og.save_onnx(program, "m.onnx", outputs=[3])  # error
og.save_onnx(program, "m.onnx", external="keep")  # error
og.to_training_step("m.onnx", "loss")  # error
og.jit.save(3, "model")  # error
og.jit.to_static(cubed)("x")  # error
distributed.all_reduce(np.ones(3), "mean")  # error
distributed.all_reduce(3)  # error
distributed.Strategy(compress="fp16")  # error
distributed.Strategy(sharding=3)  # error
distributed.Strategy(batch_norm="global")  # error
distributed.run_local("2", lambda transport: 3)  # error
distributed.fleet.is_first_wroker()  # error
og.amp.is_float16_suported()  # error
