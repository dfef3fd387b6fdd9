"""The page of ``train --preview``: the first batch as the model reads it."""

import json
import re

import numpy as np
import pytest

from onnxgrad.errors import DataError
from onnxgrad.training import Trainer
from onnxgrad.training.report.preview import write_preview
from tests.browser import open_page  # noqa: F401
from tests.cli.test_commands import files, train  # noqa: F401
from tests.training.data.test_images import folder, net  # noqa: F401
from tests.training.small import data
from tests.training.test_trainer import trainer


def contents(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text())[1])


def test_holds_the_first_batch_of_the_run(tmp_path):
    t = trainer()
    source, _ = t.open(data(40), None)
    assert write_preview(t, source, tmp_path / "p.html", batch_size=8) == 8
    first = next(iter(source.batches(8, epoch=0, shuffle=True, seed=t.seed)))
    shown = contents(tmp_path / "p.html")
    assert [dict(example["values"])["target"] for example in shown["examples"]] == list(map(str, first["target"]))
    expected = [f"{first['x'].min():.4g}", f"{first['x'].astype(np.float64).mean():.4g}", f"{first['x'].max():.4g}"]
    assert shown["columns"][0] == ["x", f"float32{list(first['x'].shape)}", *expected]


def test_pictures_and_classes(folder, tmp_path):  # noqa: F811
    t = Trainer(net(size="24, 24"), loss="cross_entropy")
    source, _ = t.open(str(folder), None)
    write_preview(t, source, tmp_path / "p.html")
    shown = contents(tmp_path / "p.html")["examples"]
    assert all(example["pictures"][0].startswith("data:image/png") for example in shown)
    assert sorted(dict(example["values"])["target"] for example in shown) == ["blue"] * 8 + ["red"] * 8


def test_data_without_a_batch_is_refused(tmp_path):
    t = trainer()
    source, _ = t.open([], None)
    with pytest.raises(DataError, match="no batch"):
        write_preview(t, source, tmp_path / "p.html")


def test_the_command_trains_nothing(files):  # noqa: F811
    said = train(files, "--preview", files / "p.html")
    assert "wrote" in said and "epoch" not in said and len(contents(files / "p.html")["examples"]) == 32


def test_opens_in_a_browser(open_page, tmp_path):  # noqa: F811
    t = trainer()
    write_preview(t, t.open(data(40), None)[0], tmp_path / "p.html")
    with open_page(tmp_path / "p.html") as page:
        assert page.locator(".example").count() == 32
