"""Values that live between runs: arrays and OrtValues, the memory they lie in, and scopes that hold them by name."""
