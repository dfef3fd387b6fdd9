"""ONNX files and messages to programs, and back."""
