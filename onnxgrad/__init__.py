"""onnxgrad."""
