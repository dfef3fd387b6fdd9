"""Running programs with stock onnxruntime."""
