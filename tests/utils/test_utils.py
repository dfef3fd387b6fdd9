"""Printing and drawing programs; counted names."""

import re

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.utils import draw_program, unique_name


def program():
    x = static.data("x", [None, 3])
    y = static.nn.cond(paddle.mean(x) > 0.0, lambda: x * 2.0, lambda: static.nn.fc(x, 3))
    paddle.optimizer.Momentum(0.1).minimize(paddle.mean(y))
    return static.default_main_program()


def test_every_operator_has_one_line_with_types():
    text = str(program())
    assert "x: float32[?, 3]  input" in text
    assert "fc_0.w_0: float32[3, 3]  parameter" in text
    assert "fc_0.w_0_velocity_0: float32[3, 3]  state" in text
    assert "tmp_0: bool[] = Greater(mean_0.tmp_0, 0.0)" in text
    assert text.index("# backward") < text.index("# update") < text.index("# after a run")
    assert re.search(r"then_branch:\n +block 1 .*\n +tmp_1: float32\[\?, 3\] = Mul\(x, 2\.0\)\n +return tmp_1", text)
    assert len(re.findall(r" = \w+\(", text)) == sum(len(block.ops) for block in static.default_main_program().blocks)


def test_details_say_where_gradients_stop():
    text = program().to_string(with_details=True)
    assert "x: float32[?, 3]  input  stop_gradient=True" in text
    assert "parameter  stop_gradient=False" in text


def test_block_prints_alone():
    text = program().block(2).to_string()
    assert text.startswith("block 2 (cond_0/false)") and "return fc_0.tmp_1" in text


def test_drawing_has_every_operator_and_is_well_formed(tmp_path):
    main = program()
    text = draw_program(main, tmp_path / "program.dot")
    assert (tmp_path / "program.dot").read_text() == text + "\n"
    assert text.count("shape=box") == sum(len(block.ops) for block in main.blocks)
    assert text.count("subgraph") == 4 and text.count("{") == text.count("}")
    assert text.count("replaces") == len(main.updates)
    named = set(re.findall(r"^ *(\w+) \[label", text, re.MULTILINE))
    used = {name for edge in re.findall(r"(\w+) -> (\w+)", text) for name in edge}
    assert used <= named
    for colour in ("#dce9f7", "#f9e0d2", "#e2f0d9"):
        assert colour in text


def test_quotes_in_names_are_escaped():
    static.data('a"b', [2]) * 2.0
    assert 'a\\"b' in draw_program(static.default_main_program())


class TestUniqueName:
    def test_guard_counts_anew(self):
        assert [unique_name.generate("fc") for _ in range(2)] == ["fc_0", "fc_1"]
        with unique_name.guard():
            assert unique_name.generate("fc") == "fc_0"
        with unique_name.guard("p_"):
            assert unique_name.generate("fc") == "p_fc_0"
        assert unique_name.generate("fc") == "fc_2"

    def test_switch_returns_the_old_counters(self):
        unique_name.generate("fc")
        old = unique_name.switch()
        assert unique_name.generate("fc") == "fc_0"
        unique_name.switch(old)
        assert unique_name.generate("fc") == "fc_1"
        with unique_name.guard(old):
            assert unique_name.generate("fc") == "fc_2"

    def test_layers_follow(self):
        with unique_name.guard("left_"):
            y = static.nn.fc(static.data("x", [None, 2]), 1)
        # The prefix comes with the layer's name and with that of its result, as in Paddle.
        assert y.name == "left_left_fc_0.tmp_1"
        with pytest.raises(TypeError):
            unique_name.guard(3)


def test_printing_is_readable_for_sequences_and_large_constants():
    block = static.default_main_program().global_block()
    x = static.data("x", [2, 2])
    pair = block.build.SequenceConstruct(x, x)
    block.build.Add(x, np.zeros((2, 2), np.float32))
    text = str(static.default_main_program())
    assert f"{pair.name}: sequence(float32[2, 2]) = SequenceConstruct(x, x)" in text
    assert "Add(x, const_float32_2x2)" in text
