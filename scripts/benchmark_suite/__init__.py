"""Code of scripts/benchmark: the workloads, the systems that run them, and the processes they run in."""
