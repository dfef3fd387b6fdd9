"""Complex tensors: made, printed, multiplied, with real and imaginary parts."""

import numpy as np
import paddle

a = paddle.to_tensor([1 + 2j, 3 - 1j])
b = paddle.complex(paddle.to_tensor([0.0, 1.0]), paddle.to_tensor([1.0, 0.0]))
print(a.dtype, a.shape)
print((a * b).numpy(), (a + 1).numpy())
print(paddle.real(a).numpy(), paddle.imag(a).numpy(), paddle.abs(a).numpy().round(4), paddle.angle(a).numpy().round(4))
print(a.conj().numpy(), paddle.as_real(a).shape, paddle.as_complex(paddle.ones([2, 2])).numpy())
print(paddle.is_complex(a), paddle.polar(paddle.to_tensor([1.0]), paddle.to_tensor([0.0])).numpy())
