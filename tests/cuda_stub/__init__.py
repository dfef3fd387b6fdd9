"""A CUDA runtime without a device, over which the CUDA provider of onnxruntime-gpu opens sessions."""
