"""State that an operator on the host reads, over the stub: prints what five runs make of it."""

import numpy as np

from onnxgrad import static
from onnxgrad.core.ir.tensor import TensorValue


def main():
    program = static.Program()
    with static.program_guard(program, static.Program()):
        static.data("x", [1])
        block = program.global_block()
        state = block.create_parameter("state", [1], "uint32", value=TensorValue.of(np.array([1], np.uint32)))
        doubled = block.build.BitShift(state, np.array([1], np.uint32), direction="LEFT")  # which CUDA has no kernel for
        program.updates[state] = doubled
    executor = static.Executor(static.CUDAPlace(0))
    print([int(executor.run(program, {"x": np.zeros(1, np.float32)}, [doubled])[0][0]) for _ in range(5)])


if __name__ == "__main__":
    main()
