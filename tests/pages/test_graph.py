"""The page with the graph of a model: what it says, and that one can look around on it in a browser."""

import json
import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import onnxgrad
from onnxgrad.pages import view_program
from onnxgrad.pages.repeats import repeats_in
from onnxgrad.training import add_lora
from tests.browser import open_page  # noqa: F401

HOSTILE = "</script><script>window.broken=1</script><img src=x onerror=window.broken=2>"
STATES = """<ir_version: 8, opset_import: ["": 17, "acme": 1]> f (float[N, 2] x, bool c) => (float[N, 2] y)
<float[2, 2] w = {1, 2, 3, 4}> {
    a = MatMul(x, w)  b = Floor(a)  d = acme.Spin(a)  e = Exp(a)
    i = If(c) <then_branch = g1 () => (float[N, 2] t) { t = Sin(e) }, else_branch = g2 () => (float[N, 2] u) { u = Cos(e) }>
    y = Sum(b, d, i) }"""


def shown(page):
    """The data of a page"""
    return json.loads(re.search(r'id="data">(.*?)</script>', page)[1])


def states(program):
    return {(node["title"], node["state"]) for node in shown(view_program(program))["nodes"] if node["kind"] == "operator"}


def stacked(blocks, width=4):
    """A stack of alike blocks of 10 operators, each of which reads one mask."""
    rng = np.random.default_rng(0)
    nodes, weights, x = [helper.make_node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT)], [], "x"
    for b in range(blocks):
        names = [f"b{b}.t{i}" for i in range(10)]
        for letter in "qku":
            array = rng.normal(0, 0.5, (width, width)).astype(np.float32)
            weights.append(numpy_helper.from_array(array, f"b{b}.{letter}"))
        wiring = [
            ("MatMul", [x, f"b{b}.q"]), ("MatMul", [x, f"b{b}.k"]), ("Mul", [names[0], names[1]]), ("Add", [names[2], "m"]),
            ("Softmax", [names[3]]), ("MatMul", [names[4], f"b{b}.u"]), ("Add", [names[5], x]), ("Tanh", [names[6]]),
            ("Mul", [names[7], names[7]]), ("Add", [names[8], names[6]]),
        ]  # fmt: skip
        nodes += [
            helper.make_node(kind, inputs, [name], name=f"{kind}_{b}") for (kind, inputs), name in zip(wiring, names, strict=True)
        ]
        x = names[-1]
    nodes.append(helper.make_node("Relu", [x], ["y"]))
    values = [helper.make_tensor_value_info(n, t, ["N", width]) for n, t in (("x", 1), ("mask", 7), ("y", 1))]
    graph = helper.make_graph(nodes, "stack", values[:2], values[2:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


# What it says --------------------------------------------------------------------------------------------------------


def test_each_operator_has_the_state_of_its_gradient():
    found = states(parser.parse_model(STATES))
    assert found >= {("MatMul", "carries"), ("Floor", "stops"), ("Spin", "refuses"), ("If", "carries"), ("Sin", "carries")}


def test_bodies_are_groups_that_hold_their_operators():
    data = shown(view_program(parser.parse_model(STATES)))
    of = {node["title"]: node for node in data["nodes"]}
    body = data["groups"][of["Sin"]["group"]]
    assert body["title"] == "then_branch" and data["groups"][body["parent"]]["title"] == "If"
    assert data["nodes"][data["groups"][body["parent"]]["node"]]["title"] == "If" and of["Exp"]["group"] is None


def test_frozen_layers_and_adapters_are_told_apart():
    program = onnxgrad.from_onnx(stacked(1))
    add_lora(program, "b0.q", rank=2)
    found = states(program)
    assert {("MatMul", "LoRA"), ("MatMul", "frozen"), ("Tanh", "carries")} <= found


def test_values_of_weights_and_of_results_are_shown():
    page = view_program(stacked(1), values={"y": np.array([[1.0, np.nan, 3.0, 5.0]])})
    tensors = {tensor["name"]: tensor for tensor in shown(page)["tensors"]}
    assert tensors["y"]["values"]["range"] == ["1", "5", "3", "1.63299"] and tensors["y"]["values"]["not_finite"] == 1
    weight = numpy_helper.to_array(stacked(1).graph.initializer[0])
    assert tensors["b0.q"]["values"]["first"] == [f"{e:.6g}" for e in weight.reshape(-1)]
    assert tensors["b0.q"]["type"] == "float32[4, 4]" and tensors["x"]["kind"] == "input"


def test_the_program_is_not_changed():
    model = stacked(2)
    before = model.SerializeToString()
    program = onnxgrad.from_onnx(model)
    text = str(program)
    view_program(program)
    view_program(model)
    assert str(program) == text and model.SerializeToString() == before


def test_a_page_names_no_other_address():
    assert re.findall(r"\w+://[\w.]+", view_program(stacked(2))) == ["http://www.w3.org"]  # the name of SVG


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("length", [4, 5, 9])
def test_repetitions_are_found_wherever_they_stand(length, count):
    rng = np.random.default_rng(length * count)
    for _ in range(20):
        part = [f"p{i}" for i in range(length)]
        before, after = ([f"{side}{i}" for i in range(rng.integers(0, 6))] for side in "ab")
        (found,) = repeats_in([*before, *part * count, *after])
        assert (found.start, found.length, found.times) == (len(before), length, count)


def test_repetitions_inside_repetitions_are_found():
    part = [*"abcd" * 3, "x", "y"]
    (found,) = repeats_in(part * 2)
    assert (found.length, found.times) == (14, 2)
    assert [(r.start, r.length, r.times) for r in found.inner] == [(0, 4, 3)]


def test_borders_stand_where_least_is_cut():
    (found,) = repeats_in("abcdeabcdeabcdeabc", crossing=lambda at: 1 if at % 5 == 2 else 3)
    assert found.start == 2


def test_nothing_repeats_in_a_chain_of_one_kind():
    assert repeats_in(["Add"] * 40) == []


# In a browser --------------------------------------------------------------------------------------------------------


@pytest.fixture
def stack_page(tmp_path):
    path = tmp_path / "stack.html"
    view_program(stacked(8), path)
    return path


def click(page, end, **more):
    at = page.evaluate("end => graph.where(end)", end)
    box = page.locator("#graph").bounding_box()
    page.mouse.click(box["x"] + at["x"], box["y"] + at["y"], **more)


def state(page):
    return page.evaluate("graph.state()")


def test_blocks_are_folded_and_a_click_unfolds_and_folds_one(open_page, stack_page):  # noqa: F811
    with open_page(stack_page) as page:
        assert len(state(page)["folded"]) == 8 and state(page)["boxes"] == 13
        click(page, "g0")
        assert len(state(page)["folded"]) == 7 and state(page)["boxes"] == 23
        click(page, "g0")
        assert len(state(page)["folded"]) == 8 and state(page)["boxes"] == 13


def test_a_click_shows_types_values_and_neighbours(open_page, stack_page):  # noqa: F811
    with open_page(stack_page) as page:
        page.click("#unfold")
        first = next(i for i, node in enumerate(page.evaluate("data.nodes")) if node["title"] == "MatMul")
        page.evaluate("i => show(i)", first)
        page.keyboard.press("Escape")
        assert page.locator("#panel").is_hidden()
        click(page, f"n{first}")
        text = page.locator("#panel").inner_text()
        assert "carries gradient" in text and "float32[4, 4]" in text and "b0.q" in text and "mean" in text
        page.locator("#panel button", has_text="↓ Mul").click()
        assert page.locator("#panel h2").inner_text() == "Mul"


def test_search_finds_what_is_folded_and_shows_it(open_page, stack_page):  # noqa: F811
    with open_page(stack_page) as page:
        page.keyboard.press("/")
        page.keyboard.type("softmax_5")
        assert page.locator("#found li").count() == 1
        page.keyboard.press("Enter")
        chosen = page.evaluate("data.nodes[graph.state().selected].name")
        assert chosen == "Softmax_5" and len(state(page)["folded"]) == 7
        page.fill("#search", "no such thing")
        assert page.locator("#found").inner_text() == "no match"


def test_wheel_drag_and_keys_move_the_view(open_page, stack_page):  # noqa: F811
    with open_page(stack_page) as page:
        before = state(page)["camera"]
        page.mouse.move(500, 400)
        page.mouse.wheel(0, -300)
        page.wait_for_function("zoom => graph.state().camera.zoom > zoom", arg=before["zoom"])
        zoomed = state(page)["camera"]
        page.mouse.down()
        page.mouse.move(560, 430, steps=4)
        page.mouse.up()
        moved = state(page)["camera"]
        assert moved["zoom"] == zoomed["zoom"] and moved["x"] > zoomed["x"] + 30 and state(page)["selected"] is None
        page.keyboard.press("f")
        assert state(page)["camera"]["zoom"] < zoomed["zoom"]


def test_the_legend_counts_and_chooses(open_page, tmp_path):  # noqa: F811
    view_program(parser.parse_model(STATES), tmp_path / "s.html")
    with open_page(tmp_path / "s.html") as page:
        button = page.locator("#legend button", has_text="refuses gradient 1")
        button.click()
        assert button.get_attribute("aria-pressed") == "true" and page.evaluate("only") == "refuses"


def test_two_thousand_operators_are_laid_out_without_overlap(open_page, tmp_path):  # noqa: F811
    view_program(stacked(200), tmp_path / "big.html")
    with open_page(tmp_path / "big.html") as page:
        page.click("#unfold")
        boxes = page.evaluate("graph.boxes()")
        leaves = [box for box in boxes if not box["open"]]
        assert len(leaves) == 2005 and len(boxes) == 2205
        edges = np.array([[b["x"], b["x"] + b["w"], b["y"], b["y"] + b["h"]] for b in sorted(leaves, key=lambda b: b["y"])])
        for i, (left, right, top, bottom) in enumerate(edges):
            near = edges[i + 1 : i + 60]
            assert not np.any((near[:, 0] < right) & (near[:, 1] > left) & (near[:, 2] < bottom) & (near[:, 3] > top))
        page.evaluate("graph.paint()")


def test_names_of_a_file_are_text(open_page, tmp_path):  # noqa: F811
    model = stacked(1)
    for node in model.graph.node:
        node.name = HOSTILE
        node.output[:] = [HOSTILE if name == "y" else name for name in node.output]
    model.graph.output[0].name = HOSTILE
    page_text = view_program(model, tmp_path / "h.html", name=HOSTILE)
    assert HOSTILE not in page_text
    with open_page(tmp_path / "h.html") as page:
        page.fill("#search", "img src")
        page.keyboard.press("Enter")
        assert HOSTILE in page.locator("#panel").inner_text() and page.title() == f"{HOSTILE}: graph"
        assert page.locator("h1").inner_text() == HOSTILE and page.evaluate("window.broken === undefined")


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 27)")])
def test_light_and_dark_and_a_narrow_window(open_page, stack_page, scheme, paper):  # noqa: F811
    with open_page(stack_page, scheme, 400, 700) as page:
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == paper
        page.evaluate("show(3)")
        panel, canvas = page.locator("#panel").bounding_box(), page.locator("#graph").bounding_box()
        assert panel["width"] == 400 and panel["y"] >= canvas["y"] + canvas["height"] - 1 and canvas["height"] > 100
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
