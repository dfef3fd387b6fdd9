"""Data as people have it: folders of images, tables, lines of JSON, functions that yield batches, loaders of other libraries."""

from onnxgrad.training.sources.images import Images
from onnxgrad.training.sources.opening import open_data
from onnxgrad.training.sources.shuffled import Shuffled
from onnxgrad.training.sources.splitting import split
from onnxgrad.training.sources.tables import Table
from onnxgrad.training.sources.texts import Texts

__all__ = ["Images", "Shuffled", "Table", "Texts", "open_data", "split"]
