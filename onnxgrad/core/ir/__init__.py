"""The in-memory program: blocks of ONNX operators and the variables between them."""
