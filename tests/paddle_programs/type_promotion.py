"""What comes out of tensors of different types, numbers and arrays."""

import numpy as np
import paddle

f32, f64, f16 = (paddle.ones([2], dtype=d) for d in ("float32", "float64", "float16"))
i32, i64, b = (paddle.ones([2], dtype=d) for d in ("int32", "int64", "bool"))
print((f32 + 1).dtype, (f32 + 1.5).dtype, (i64 + 1).dtype, (i64 + 1.5).dtype, (i32 / 2).dtype, (i64 / i64).dtype)
print((f32 + f64).dtype, (f16 + f32).dtype)
print((i32 * 2).dtype, (i64 // 2).dtype, (i64**2).dtype, (2**f32).dtype)
print(paddle.to_tensor(1).dtype, paddle.to_tensor(1.0).dtype, paddle.to_tensor(True).dtype, paddle.to_tensor([1, 2.5]).dtype)
print(paddle.to_tensor(np.ones(2)).dtype, paddle.to_tensor(np.ones(2, "float32")).dtype, paddle.to_tensor(np.arange(2)).dtype)
print(paddle.mean(f64).dtype, paddle.sum(i32).dtype, paddle.sum(b).dtype, paddle.argmax(f32).dtype, paddle.cumsum(i32).dtype)
print(
    paddle.arange(3).dtype,
    paddle.arange(3.0).dtype,
    paddle.full([1], 1).dtype,
    paddle.full([1], 1.0).dtype,
    paddle.full([1], True).dtype,
    paddle.linspace(0, 1, 2).dtype,
)
paddle.set_default_dtype("float64")
print(paddle.ones([1]).dtype, paddle.to_tensor(1.0).dtype, paddle.nn.Linear(1, 1).weight.dtype, paddle.get_default_dtype())
paddle.set_default_dtype("float32")
print(
    f32.astype(paddle.int64).dtype,
    f32.astype("bool").numpy(),
    paddle.cast(b, "float32").numpy(),
    paddle.to_tensor([1, 2], dtype="float32").dtype,
)
print(
    paddle.where(b, f32, f32 * 2).dtype,
    paddle.concat([f32, f32]).dtype,
    paddle.is_floating_point(f32),
    paddle.is_integer(i64),
    paddle.is_complex(f32),
)
print(paddle.finfo("float32").max > 1e38, paddle.iinfo(paddle.int8).max, paddle.finfo(paddle.float16).eps)
print(f32.dtype == paddle.float32, str(i64.dtype), i64.dtype in [paddle.int32, paddle.int64])
print(
    paddle.nn.functional.one_hot(i64, 3).dtype,
    paddle.nonzero(f32).dtype,
    paddle.shape(f32).shape,
    paddle.rand([2]).dtype,
    paddle.randint(0, 5, [2]).dtype,
)
print({paddle.float32: "single", paddle.float64: "double"}[f64.dtype], np.float32(2) * f32.numpy().dtype.type(3))
