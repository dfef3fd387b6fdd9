"""Models with quantized weights: learning them, calibration, integers, frozen layers."""
