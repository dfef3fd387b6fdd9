"""Mistakes in the use of tensors, each of which a type checker finds on its line."""

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static

x = paddle.to_tensor([1.0, 2.0])
v = static.data("x", [None, 3], "float32")

x.meen()  # error
x.mean(axs=1)  # error
x.astype("flot32")  # error
x.sum(keepdim="yes")  # error
x.reshape("2, 1")  # error
v.backward()  # error
v.numpy()  # error
F.relu(x, nam="a")  # error
F.rellu(x)  # error
F.mse_loss(x, x, redction="sum")  # error
F.relu("x")  # error
F.softmax(x, axis="1")  # error
F.dropout(x, p="0.5")  # error
paddle.matmul(x, x, transposed=True)  # error
paddle.concatt([x, x])  # error
paddle.concat(x)  # error
paddle.to_tensor([1.0], dtyp="float32")  # error
paddle.to_tensor([1.0], dtype="float33")  # error
paddle.zeros([2], dtype="floaty")  # error
static.data("y", [None, 3], "float3")  # error
static.data("y", 3)  # error
paddle.grad(x, x, create_grph=True)  # error
text: str = x.mean()  # error
other: paddle.Tensor = v.mean()  # error
