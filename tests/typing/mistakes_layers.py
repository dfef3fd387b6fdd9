"""Mistakes in the use of layers, each of which a type checker finds on its line."""

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import nn

x = paddle.ones([2, 3, 8, 8])
linear = nn.Linear(8, 4)
lstm = nn.LSTM(3, 4)

nn.Linear("4", 2)  # error
nn.Linear(4)  # error
nn.Linear(4, 2, bais_attr=False)  # error
nn.Linear(4, 2, weight_attr=False)  # error
nn.Linear(4, 2, None, None, None, 7)  # error
nn.Linaer(4, 2)  # error
nn.Conv2D()  # error
nn.Conv2D(3, 4, "3")  # error
nn.Conv2D(3, 4, 3, padding_mode="zero")  # error
nn.Conv2D(3, 4, 3, padding="FULL")  # error
nn.Conv2D(3, 4, 3, data_format="NCL")  # error
nn.Conv1D(3, 4, 3, data_format="NCHW")  # error
nn.Conv2DTranspose(3, 4, 3, padding_mode="zeros")  # error
nn.Dropout("0.5")  # error
nn.Dropout(mode="upscale")  # error
nn.Dropout2D(axis=1)  # error
nn.ReLU(bogus=1)  # error
nn.ReLU(6)  # error
nn.Softmax(dim=1)  # error
nn.MaxPool2D()  # error
nn.MaxPool2D(2, strides=2)  # error
nn.AvgPool1D(2, data_format="NCL")  # error
nn.BatchNorm2D(4, momentum="0.9")  # error
nn.LayerNorm("8")  # error
nn.Embedding(10, 4, 0, False, None, None, 2.0)  # error
nn.LSTM(3, 4, direction="backward")  # error
nn.LSTM(3, 4, num_layers="2")  # error
nn.SimpleRNN(3, 4, activation="sigmoid")  # error
nn.GRU(3)  # error
nn.MultiHeadAttention(8, heads=2)  # error
nn.TransformerEncoderLayer(8, 2, 16, activation="rleu")  # error
nn.TransformerEncoder(8, 2)  # error
nn.Sequential(3)  # error
nn.LayerList([3])  # error
nn.CrossEntropyLoss(reduction="avg")  # error
nn.CrossEntropyLoss(ignore_idx=0)  # error
nn.MSELoss(reduction=True)  # error
nn.KLDivLoss("meanbatch")  # error
nn.Upsample(mode="cubic")  # error
nn.Pad2D(1, mode="mirror")  # error
nn.PixelShuffle("2")  # error
nn.Flatten(1, 2, 3, 4)  # error

linear(3)  # error
linear(x, x)  # error
linear(x).bakward()  # error
_ = linear.wieght  # error
linear.no_such.foo()  # error
linear.eval().trian()  # error
linear.create_parameter("4")  # error
linear.register_buffer("mean", 3.0)  # error
_ = lstm(x)[1].shape  # error
nn.ReLU()(x, x)  # error
nn.MSELoss()(x)  # error
nn.MSELoss()(x, 5)  # error
_ = nn.LayerList([linear])[0].in_feature  # error
nn.utils.clip_grad_norm(linear.parameters(), 1.0)  # error
number: int = linear(x)  # error

F.conv2d(x, x, nonsense=2)  # error
F.conv2d(x, x, stride="2")  # error
F.max_pool2d(x, 2, data_format="NCL")  # error
_ = F.max_pool2d(x, 2, return_mask=True).shape  # error
F.interpolate(x, mode="linaer")  # error
F.pad(x, [1, 1], mode="zeros")  # error
F.cross_entropy(x, x, reduction="avg")  # error
F.smooth_l1_loss(x, x, beta=1.0)  # error
F.relu_(x, 3)  # error
