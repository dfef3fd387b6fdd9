"""Damaged files of every kind besides models: some in the default suite, thousands in CI; see also scripts/fuzz --files."""

import contextlib
import io
import shutil

import pytest

from tests.fuzz.driver import fuzz, of_files

pytest.importorskip("resource", reason="the limits of the workers are those of a Unix system")
for package in ("pyarrow", "tokenizers", "PIL", "safetensors"):
    pytest.importorskip(package)

from tests.fuzz.files import KINDS, attempt, make, write_files  # noqa: E402 (it needs the packages)

pytestmark = pytest.mark.damaged


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        write_files(folder)
    return folder


def check(summary):
    assert not summary.findings, summary.table()
    assert set(summary.stages) == set(KINDS)


@pytest.mark.process
def test_damaged_files_of_each_kind_are_refused_or_worked_with(sound):
    check(fuzz(of_files(sound, seconds=60), 4 * len(KINDS)))


@pytest.mark.process
@pytest.mark.thousands
def test_hundreds_of_damaged_files_of_each_kind(sound):
    check(fuzz(of_files(sound, seconds=60), 200 * len(KINDS), first=1_000_000, workers=2))


@pytest.mark.parametrize("kind", KINDS)
def test_sound_files_are_worked_with(sound, tmp_path, kind):
    shutil.copytree(sound / kind, tmp_path / "copy")
    outcome = attempt(kind, tmp_path / "copy")
    assert outcome.stages == {kind: "ok"}, outcome.problem


def test_a_number_is_always_the_same_damage(sound):
    for number in range(3 * len(KINDS)):
        assert make(sound, "key", number) == make(sound, "key", number)
