"""The engine: programs of ONNX operators, their gradients, their compilation and their runs.

    costs      thresholds of time and memory, which those below decide by
    state      values between runs: arrays and OrtValues, buffers, scopes
    ir         programs, blocks, operators, variables; types and shapes
    graph      a graph that may be rewritten, passes, their manager and the verifier between them
    passes     functions over programs: lifting old opsets, training forms, mixed precision
    compile    from a program to the graph that is written or run, in the forms that suit a provider
    interop    ONNX messages and files, read and written
    rules      one formula per operator
    autodiff   the walker that applies them: append_backward, gradients, jvp, Hessians
    step       a training step as a value: phases, cuts, shards, stages, exports
    runtime    sessions of onnxruntime, the Executor, the runner of phases

Each uses only what stands above it. Nothing here knows the names that users import: those stand on this package.
"""

from onnxgrad.core import rules
from onnxgrad.core.autodiff import training_operators
from onnxgrad.core.interop import program_bytes
from onnxgrad.core.passes import modes
from onnxgrad.core.runtime import session

# Loaded for what they enter into tables; ``session`` says how values of odd types leave a device.
__all__ = ["modes", "program_bytes", "rules", "session", "training_operators"]
