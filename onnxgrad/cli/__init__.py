"""The command ``onnxgrad``: info, check, grad, train and export for an .onnx file."""
