"""Mistakes in training a file and in running programs, each of which a type checker finds on its line."""

import onnxgrad as og
from onnxgrad import static, training

trainer = training.Trainer("model.onnx", loss="mse")

training.Trainer("model.onnx")  # error
training.Trainer("model.onnx", loss="crossentropy")  # error
training.Trainer("model.onnx", loss="mse", optimiser="adam")  # error
training.Trainer("model.onnx", loss="mse", optimizer="adan")  # error
training.Trainer("model.onnx", loss="mse", schedule="cos")  # error
training.Trainer("model.onnx", loss="mse", batch_norm="freeze")  # error
training.Trainer("model.onnx", loss="mse", memory="small")  # error
training.Trainer("model.onnx", loss="mse", precision="faster")  # error
training.Trainer("model.onnx", loss="mse", quantized="int8")  # error
training.Trainer("model.onnx", loss="mse", accumulate="4")  # error
training.Trainer("model.onnx", loss="mse", place="cuda")  # error
training.Trainer("model.onnx", loss="mse", metrics="accuracy", seed="1")  # error
trainer.fit({}, epoch=3)  # error
trainer.fit({}, epochs="3")  # error
trainer.fit({}, verbose="yes")  # error
trainer.fit_all({})  # error
trainer.step_number = 3  # error
trainer.evaluate({}, batchsize=3)  # error
trainer.export(3)  # error
count: str = trainer.epoch  # error
training.Term("cross_entropi")  # error
training.Term("mse", weights=2.0)  # error
static.Executor(memory="tiny")  # error
static.Executor().run(feed=[1.0])  # error
static.Executor().runs()  # error
og.from_onnx(3)  # error
og.from_onnx("m.onnx", expnd="x")  # error
static.append_backward("loss")  # error
print(og.no_such_name)  # error
