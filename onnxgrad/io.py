"""Paddle's ``io``: what of it is about several ranks. Data are arrays here, or iterables of batches."""

from onnxgrad.distributed.sampler import DistributedBatchSampler

__all__ = ["DistributedBatchSampler"]
