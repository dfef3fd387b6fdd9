"""Parameters written and read one way and another, and set from arrays."""

import os

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()
rng = np.random.RandomState(122)
x = static.data("x", [None, 3], "float32")
value = rng.randn(3, 2).astype("float32")
out = static.nn.fc(x, 2, weight_attr=paddle.ParamAttr(name="w", initializer=paddle.nn.initializer.Assign(value)), name="out")
main = static.default_main_program()
exe = static.Executor()
exe.run(static.default_startup_program())
data = np.ones([1, 3], "float32")
expected = exe.run(main, feed={"x": data}, fetch_list=[out])[0]
state = main.state_dict()
print(sorted(state), [tuple(np.array(state[k]).shape) for k in sorted(state)])
paddle.save(state, "model.pdparams")
print(os.path.exists("model.pdparams"))
main.set_state_dict({"w": np.zeros([3, 2], "float32"), "out.b_0": np.ones([2], "float32")})
print(exe.run(main, feed={"x": data}, fetch_list=[out])[0])
main.set_state_dict(paddle.load("model.pdparams"))
print(np.allclose(exe.run(main, feed={"x": data}, fetch_list=[out])[0], expected))
parameter = main.global_block().var("w")
print(np.array(parameter.get_value()).shape)
parameter.set_value(np.full([3, 2], 0.5, "float32"))
print(exe.run(main, feed={"x": data}, fetch_list=[out])[0])
static.save(main, "whole")
parameter.set_value(np.zeros([3, 2], "float32"))
program_state = static.load_program_state("whole")
static.set_program_state(main, program_state)
print(exe.run(main, feed={"x": data}, fetch_list=[out])[0])
content = static.serialize_program([x], [out])
print(type(content).__name__, len(content) > 100)
