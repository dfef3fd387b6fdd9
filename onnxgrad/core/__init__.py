"""The engine: programs of ONNX operators, their gradients, their compilation and their runs.

    costs      thresholds of time and memory, which those below decide by
    ir         programs, blocks, operators, variables; types and shapes
    passes     functions over programs: lifting old opsets, training forms, mixed precision
    compile    from a program to the graph that is written or run, in the forms that suit a provider
    interop    ONNX messages and files, read and written
    rules      one formula per operator
    autodiff   the walker that applies them: append_backward, gradients, jvp, Hessians
    runtime    sessions of onnxruntime, state between runs

Each uses only what stands above it. Nothing here knows the names that users import: those stand on this package.
"""

from onnxgrad.core import rules
from onnxgrad.core.autodiff import training_operators
from onnxgrad.core.interop import program_bytes
from onnxgrad.core.passes import modes

__all__ = ["modes", "program_bytes", "rules", "training_operators"]  # loaded for what they enter into tables
