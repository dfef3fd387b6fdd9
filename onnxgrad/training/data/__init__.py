"""Data as people have it: folders of images and sounds, tables, lines of JSON, functions that yield batches, other loaders."""

from onnxgrad.training.data.images import Images
from onnxgrad.training.data.opening import open_data
from onnxgrad.training.data.shuffled import Shuffled
from onnxgrad.training.data.sounds import Sounds
from onnxgrad.training.data.splitting import split
from onnxgrad.training.data.tables import Table
from onnxgrad.training.data.texts import Texts

__all__ = ["Images", "Shuffled", "Sounds", "Table", "Texts", "open_data", "split"]


def __dir__() -> list[str]:
    return __all__
