"""Small tools that Paddle keeps in paddle.utils."""

import pytest

from onnxgrad import utils
from onnxgrad.errors import ArgumentError, NotOffered


def test_a_deprecated_function_warns_and_one_of_level_2_refuses():
    def old(x):
        return x + 1

    with pytest.warns(DeprecationWarning, match=r"old is deprecated since 2\.0\. slow\. Use new\."):
        assert utils.deprecated("new", "2.0", "slow")(old)(1) == 2
    with pytest.raises(NotOffered, match="old is deprecated"):
        utils.deprecated(level=2)(old)(1)


def test_versions_are_read():
    utils.require_version("2.0")
    utils.require_version("2.0.1", "3.3")
    with pytest.raises(ArgumentError, match="'two'"):
        utils.require_version("two")


def test_a_module_is_imported_or_the_message_given():
    assert utils.try_import("json").dumps([1]) == "[1]"
    with pytest.raises(ImportError, match="install nothing_here"):
        utils.try_import("nothing_here", "install nothing_here")
