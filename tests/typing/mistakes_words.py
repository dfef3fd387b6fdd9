"""Wrong words, one for each family of options, each of which a type checker finds on its line."""

import numpy as np

import onnxgrad as og
import onnxgrad.nn.functional as F
from onnxgrad import amp, distributed, fft, fluid, io, nn, static, training

x = og.ones([2, 3, 4, 4])
vector = og.to_tensor([1.0, 2.0, 3.0])
program = og.from_onnx("model.onnx")
v = static.data("x", [None, 3, 8, 8])

# Losses
F.mse_loss(x, x, reduction="avg")  # error
F.kl_div(x, x, reduction="batch")  # error
F.cross_entropy(x, x, reduction="None")  # error
nn.MSELoss(reduction="average")  # error
nn.CTCLoss(reduction="batchmean")  # error
# Windows and layouts
F.conv2d(x, x, padding="same_upper")  # error
F.conv2d(x, x, data_format="NWHC")  # error
F.avg_pool2d(x, 2, data_format="CHW")  # error
F.pad(x, [1, 1], mode="edge")  # error
F.interpolate(x, size=[2, 2], mode="bilinaer")  # error
F.dropout(x, mode="upscale")  # error
F.grid_sample(x, x, padding_mode="zero")  # error
nn.Conv2D(3, 4, 3, padding_mode="zero")  # error
nn.LSTM(3, 4, direction="both")  # error
nn.PReLU(data_format="CHW")  # error
nn.TransformerEncoderLayer(4, 2, 8, activation="geluu")  # error
# Tensors
og.median(vector, mode="mean")  # error
og.nanmedian(vector, mode="max")  # error
og.quantile(vector, 0.5, interpolation="midpont")  # error
og.linalg.qr(x, mode="full")  # error
og.linalg.norm(vector, p="nuc")  # error
og.linalg.matrix_norm(x, p="nuk")  # error
og.cdist(x, x, compute_mode="mm")  # error
og.take(x, vector, mode="wrapped")  # error
og.put_along_axis(x, x, x, 1, reduce="sum")  # error
og.scale(x, act="rellu")  # error
vector.median(mode="mean")  # error
vector.quantile(0.5, interpolation="exact")  # error
vector.put_along_axis(vector, vector, 0, reduce="sum")  # error
fft.fft(x, norm="orthogonal")  # error
# Programs
static.nn.fc(v, 4, activation="rellu")  # error
static.nn.conv2d(v, 4, 3, act="rellu")  # error
static.nn.conv2d(v, 4, 3, data_format="NHCW")  # error
static.nn.batch_norm(v, act="leaky")  # error
static.nn.prelu(v, mode="elements")  # error
static.nn.prelu(v, mode="all", data_format="HWC")  # error
fluid.nets.simple_img_conv_pool(v, 4, 3, 2, 2, act="rellu")  # error
fluid.layers.fc(v, 4, act="rellu")  # error
program.train(batch_norm="freeze")  # error
program.state_dict("params")  # error
og.from_onnx("model.onnx", expand="microsoft")  # error
og.to_onnx(program, lowering="cpu_fast")  # error
og.save_onnx(program, "m.onnx", lowering="gpu")  # error
og.save_onnx(program, "m.onnx", external_data="leave")  # error
og.to_training_step(program, "loss", lowering="CPU")  # error
og.to_split_training_step(program, "loss", batch_norm="global")  # error
amp.auto_cast(level="O3")  # error
amp.decorate(nn.Linear(2, 2), level="O0")  # error
amp.to_mixed_precision(program, "float8")  # error
amp.to_mixed_precision(program, level="O5")  # error
static.amp.cast_model_to_fp16(program, level="2")  # error
og.metric.Auc(curve="PR")  # error
# Training
trainer = training.Trainer("model.onnx", loss="mse")
trainer.export("tuned.onnx", quantised="branches")  # error
trainer.to_training_step(lowering="fast")  # error
trainer.save_training_step("step", split=True, batch_norm="train")  # error
training.merge_lora(program, quantised="int")  # error
training.train_quantized(program, scales="learn")  # error
training.Images("folder", order="gbr")  # error
training.Term("ctc", layout="TCN")  # error
training.Term("cross_entropy", class_weights="balance")  # error
training.Planned(0.1, "cosin")  # error
distributed.all_reduce(np.ones(2), op="mean")  # error
distributed.Alone().all_reduce_(np.ones(2), "avg")  # error
distributed.Strategy(compress="topk")  # error
og.optimizer.lr.ReduceOnPlateau(0.1, mode="least")  # error
io.DataLoader([1, 2], shuffle="yes")  # error
