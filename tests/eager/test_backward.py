"""Backward passes over eager tensors, with Paddle's results, modes and errors."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad.autograd import PyLayer, backward, saved_tensors_hooks
from onnxgrad.eager import evaluate, tape
from onnxgrad.errors import FreedGraph


def leaf(data):
    return paddle.to_tensor(data, stop_gradient=False)


def cube(x):
    return x * x * x


class TestDocumentedExample:
    def test_prints_as_documented(self):
        x = paddle.to_tensor([[1, 2], [3, 4]], dtype="float32", stop_gradient=False)
        y = paddle.to_tensor([[3, 2], [3, 4]], dtype="float32")
        grad_tensor1 = paddle.to_tensor([[1, 2], [2, 3]], dtype="float32")
        grad_tensor2 = paddle.to_tensor([[1, 1], [1, 1]], dtype="float32")
        z1 = paddle.matmul(x, y)
        z2 = paddle.matmul(x, y)
        head = "Tensor(shape=[2, 2], dtype=float32, place=Place(cpu), stop_gradient=False,\n"
        assert paddle.autograd.backward([z1, z2], [grad_tensor1, grad_tensor2], True) is None
        assert str(x.grad) == head + "       [[12., 18.],\n        [17., 25.]])"
        x.clear_grad()
        paddle.autograd.backward([z1, z2], [grad_tensor1, None], True)
        assert str(x.grad) == head + "       [[12., 18.],\n        [17., 25.]])"
        x.clear_grad()
        paddle.autograd.backward([z1, z2])
        assert str(x.grad) == head + "       [[10., 14.],\n        [10., 14.]])"


class TestBackward:
    def test_adds_to_grad_and_clears(self):
        x = leaf([1.0, 2.0])
        assert x.grad is None
        for expected in ([2, 4], [4, 8]):
            (x * x).backward()
            assert x.grad.tolist() == expected
        x.clear_grad()
        assert x.grad.tolist() == [0, 0]
        x.clear_gradient(set_to_zero=False)
        assert x.grad is None
        x.clear_grad()
        assert x.grad is None

    def test_a_tensor_that_stops_gradients_is_ignored(self):
        x = paddle.to_tensor([1.0])
        (x * x).backward()
        assert x.grad is None

    def test_a_leaf_receives_its_seed(self):
        x = leaf([1.0, 2.0])
        x.backward(paddle.to_tensor([3.0, 4.0]))
        x.backward()
        assert x.grad.tolist() == [4, 5]

    def test_targets_that_depend_on_each_other(self):
        x = leaf([1.0, 2.0])
        y = x * x
        backward([y, y * 3.0])
        assert x.grad.tolist() == [8, 16]

    def test_only_leaves_and_retaining_tensors_keep_gradients(self):
        x = leaf([1.0])
        y = x * 2.0
        z = y * 3.0
        z.retain_grads()
        paddle.sum(z * z).backward()
        assert y.grad is None
        assert (z.grad.tolist(), x.grad.tolist()) == ([12], [72])

    def test_values_that_were_read_before_change_nothing(self):
        results = []
        for read in (False, True):
            x = leaf([0.5, 1.5])
            h = paddle.tanh(x * 2.0)
            if read:
                h.numpy()
            loss = paddle.mean(h * h)
            if read:
                loss.item()
            loss.backward()
            results.append(x.grad.numpy())
        np.testing.assert_allclose(*results, rtol=1e-6)

    def test_results_stop_gradients_exactly_when_all_operands_do(self):
        x, y = leaf([1.0]), paddle.to_tensor([2.0])
        assert not (x * y).stop_gradient
        assert (y * y).stop_gradient
        assert (x > y).stop_gradient
        assert not (x * y).is_leaf
        assert (y * y).is_leaf

    def test_stop_gradient_on_an_inner_tensor_cuts(self):
        x = leaf([2.0])
        y = x * x
        y.stop_gradient = True
        (y * x).backward()
        assert x.grad.tolist() == [4]

    def test_detach_and_clone(self):
        x = leaf([2.0])
        y = x * x
        (y.detach() * x + y.clone()).backward()
        assert x.grad.tolist() == [8]
        assert y.detach().stop_gradient

    def test_an_operator_asked_for_another_output(self):
        x = leaf(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4))
        for read in (False, True):
            y = F.max_pool2d(x, 2)
            if read:
                y.numpy()
            y.backward(retain_graph=True)
            y.backward()
        assert x.grad.numpy()[0, 0, 1::2, 1::2].tolist() == [[4, 4], [4, 4]]
        assert x.grad.numpy().sum() == 16

    def test_a_constant_operator_gives_zeros(self):
        x = leaf([1.5, 2.5])
        paddle.floor(x).backward()
        assert x.grad.tolist() == [0, 0]

    def test_float64_and_integers_side_by_side(self):
        x = paddle.to_tensor(np.array([1.0, 2.0]), stop_gradient=False)
        index = paddle.to_tensor([1, 1, 0])
        paddle.sum(x[index] * x[index]).backward()
        assert x.grad.dtype == "float64"
        assert x.grad.tolist() == [2, 8]


class TestFreedGraph:
    def test_a_second_pass_is_refused(self):
        x = leaf([1.0])
        y = x * x
        y.backward()
        with pytest.raises(SystemError, match="retain_graph=True") as error:
            y.backward()
        assert isinstance(error.value, FreedGraph)

    def test_also_through_another_target(self):
        x = leaf([1.0])
        h = x * x
        (h * 2.0).backward()
        with pytest.raises(FreedGraph):
            (h * 3.0).backward()

    def test_retained_graphs_go_on(self):
        x = leaf([3.0])
        y = x * x
        y.backward(retain_graph=True)
        y.backward()
        assert x.grad.tolist() == [12]

    def test_values_remain_readable_after_the_graph_is_freed(self):
        x = leaf([3.0])
        h = x * x
        other = h * 5.0
        (h * 2.0).backward()
        assert (other.tolist(), h.tolist()) == ([45], [9])


class TestArguments:
    @pytest.mark.parametrize(
        ("tensors", "seeds"),
        [
            (None, None),
            ([], None),
            ([np.ones(2)], None),
            ("pair", None),
            ("two", ["one"]),
            ("two", [np.ones(2), None]),
            ("two", ["short", None]),
            ("two", ["double", None]),
        ],
    )
    def test_assertion_errors(self, tensors, seeds):
        x = leaf([1.0, 2.0])
        y, z = x * x, x + x
        tensors = {"pair": [y, y], "two": [y, z]}.get(tensors, tensors) if isinstance(tensors, str) else tensors
        named = {"one": y, "short": leaf([1.0]), "double": leaf(np.ones(2))}
        seeds = None if seeds is None else [named[s] if isinstance(s, str) else s for s in seeds]
        with pytest.raises(AssertionError):
            backward(tensors, seeds)
        assert x.grad is None

    def test_retain_graph_is_a_bool_and_the_path_a_keyword(self):
        x = leaf([1.0])
        with pytest.raises(AssertionError):
            backward([x * x], None, 1)
        with pytest.raises(TypeError):
            backward([x * x], None, False, "folder")

    def test_grad_is_assignable_with_a_tensor_that_fits(self):
        x = leaf([1.0])
        x.grad = paddle.to_tensor([5.0])
        (x * 2.0).backward()
        assert x.grad.tolist() == [7]
        x.grad = None
        assert x.grad is None
        with pytest.raises(TypeError):
            x.grad = 1.0
        with pytest.raises(ValueError, match="does not fit"):
            x.grad = paddle.to_tensor([1.0, 2.0])


class TestHooks:
    def test_inner_hooks_see_the_sum_once_and_change_what_flows_on(self):
        x = leaf([1.0, 2.0])
        y = x * x
        seen = []
        y.register_hook(lambda g: seen.append(g.tolist()))
        y.register_hook(lambda g: g * 10.0)
        y.register_hook(lambda g: seen.append(g.tolist()))
        paddle.sum(y * 3.0 + y).backward()
        assert seen == [[4, 4], [40, 40]]
        assert x.grad.tolist() == [80, 160]

    def test_leaf_hooks_and_removal(self):
        x = leaf([1.0])
        handle = x.register_hook(lambda g: g * 2.0)
        (x * 3.0).backward()
        assert handle.remove() is True
        assert handle.remove() is False
        (x * 3.0).backward()
        assert x.grad.tolist() == [9]

    def test_several_hooked_tensors_in_a_row_and_on_the_target(self):
        x = leaf([1.0])
        a = x * 2.0
        b = a * 3.0
        c = a + b
        order = []
        for name, tensor in (("a", a), ("b", b), ("c", c)):
            tensor.register_hook(lambda g, name=name: (order.append(name), g * 2.0)[1])
        c.backward()
        assert order == ["c", "b", "a"]
        assert x.grad.tolist() == [(2 + 2 * 2 * 3) * 2 * 2]

    def test_errors(self):
        with pytest.raises(RuntimeError, match="stop_gradient is True"):
            paddle.to_tensor([1.0]).register_hook(print)
        x = leaf([1.0])
        y = x * 1.0
        y.register_hook(lambda g: 1.0)
        with pytest.raises(TypeError, match="hook returns"):
            y.backward()


class TestGrad:
    def test_leaves_grad_alone(self):
        x = leaf([1.0, 2.0])
        (g,) = paddle.grad(x * x, x)
        assert (g.tolist(), g.stop_gradient, x.grad) == ([2, 4], True, None)

    def test_inner_tensors_and_several_outputs(self):
        x, w = leaf([1.0]), leaf([5.0])
        y = x * 2.0
        z = y * w
        gy, gw, gx = paddle.grad([z, y], [y, w, x], [paddle.to_tensor([10.0]), None])
        assert (gy.item(), gw.item(), gx.item()) == (51, 20, 102)

    def test_of_itself(self):
        x = leaf([1.0, 2.0])
        y = x * x
        assert paddle.grad(y, y)[0].tolist() == [1, 1]
        assert paddle.grad(x, x)[0].tolist() == [1, 1]

    def test_third_derivative(self):
        x = leaf([2.0])
        y = x * cube(x)
        for expected in (32, 48, 48):
            (y,) = paddle.grad(y, x, create_graph=True)
            assert y.item() == expected
        assert not y.stop_gradient

    def test_gradient_penalty_reaches_the_weights(self):
        w = leaf([[1.0, 2.0], [3.0, 4.0]])
        x = leaf([[0.5, -1.0]])
        (g,) = paddle.grad(paddle.sum(paddle.tanh(x @ w)), x, create_graph=True)
        paddle.sum(g * g).backward()
        step = 1e-3
        numeric = np.zeros((2, 2))
        for at in np.ndindex(2, 2):
            values = []
            for sign in (1, -1):
                shifted = w.numpy().astype(np.float64)
                shifted[at] += sign * step
                slope = (1 - np.tanh(x.numpy() @ shifted) ** 2) @ shifted.T
                values.append((slope**2).sum())
            numeric[at] = (values[0] - values[1]) / (2 * step)
        np.testing.assert_allclose(w.grad.numpy(), numeric, rtol=1e-3, atol=1e-4)

    def test_unused_inputs(self):
        x, other = leaf([1.0]), leaf([1.0])
        with pytest.raises(ValueError, match="does not affect"):
            paddle.grad(x * x, [x, other])
        with pytest.raises(ValueError, match="stops gradients"):
            paddle.grad(x * x, paddle.to_tensor([1.0]))
        found = paddle.grad(x * x, [x, other], allow_unused=True)
        assert (found[0].item(), found[1]) == (2, None)

    def test_no_grad_vars_cut(self):
        x = leaf([2.0])
        y = x * x
        (g,) = paddle.grad(y * x, x, no_grad_vars=[y])
        assert g.item() == 4

    def test_errors(self):
        x = leaf([1.0])
        y = x * x
        with pytest.raises(RuntimeError, match="twice"):
            paddle.grad([y, y], x)
        with pytest.raises(RuntimeError, match="twice"):
            paddle.grad(y, [x, x])
        with pytest.raises(AssertionError):
            paddle.grad(y, x, only_inputs=False)
        with pytest.raises(AssertionError):
            paddle.grad(y, x, [paddle.to_tensor([1.0, 2.0])])

    def test_create_graph_keeps_the_graph(self):
        x = leaf([1.0])
        y = x * x
        paddle.grad(y, x, create_graph=True)
        paddle.grad(y, x)
        with pytest.raises(FreedGraph):
            paddle.grad(y, x)


class TestModes:
    def test_no_grad_in_all_forms(self):
        x = leaf([1.0])

        @paddle.no_grad()
        def with_call(v):
            return v * 2.0

        @paddle.no_grad
        def without_call(v):
            return v * 2.0

        @paddle.no_grad()
        def items(v):
            yield v * 2.0

        with paddle.no_grad():
            inside = x * 2.0
            assert not paddle.is_grad_enabled()
            with paddle.enable_grad():
                assert not (x * 2.0).stop_gradient
        assert paddle.is_grad_enabled()
        assert all(y.stop_gradient and y.is_leaf for y in (inside, with_call(x), without_call(x), *items(x)))
        assert with_call.__name__ == "with_call"

    def test_set_grad_enabled(self):
        x = leaf([1.0])
        with paddle.set_grad_enabled(False):
            assert (x * 2.0).stop_gradient
        assert not (x * 2.0).stop_gradient
        paddle.set_grad_enabled(False)
        assert (x * 2.0).stop_gradient
        paddle.set_grad_enabled(True)
        assert not (x * 2.0).stop_gradient

    def test_the_mode_returns_after_an_error(self):
        with pytest.raises(KeyError), paddle.no_grad():
            raise KeyError
        assert paddle.is_grad_enabled()


class Scaled(PyLayer):
    @staticmethod
    def forward(ctx, x, factor, y):
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return x * y * factor, x + y

    @staticmethod
    def backward(ctx, g_product, g_sum):
        x, y = ctx.saved_tensor()
        return g_product * y * ctx.factor + g_sum, g_product * x * ctx.factor + g_sum


class TestPyLayer:
    def test_gradients_and_zeros_for_unused_outputs(self):
        x, y = leaf([2.0]), leaf([3.0])
        product, total = Scaled.apply(x * 1.0, 10.0, y)
        assert (product.tolist(), total.tolist(), product.stop_gradient) == ([60], [5], False)
        (product * 2.0).backward()
        assert (x.grad.tolist(), y.grad.tolist()) == ([60], [40])

    def test_nothing_is_recorded_without_need(self):
        product, _ = Scaled.apply(paddle.to_tensor([2.0]), 1.0, paddle.to_tensor([3.0]))
        assert product.stop_gradient
        with paddle.no_grad():
            assert Scaled.apply(leaf([2.0]), 1.0, leaf([3.0]))[0].stop_gradient

    def test_second_derivative(self):
        x, y = leaf([2.0]), leaf([3.0])
        product, _ = Scaled.apply(x, 1.0, y)
        (g,) = paddle.grad(product * product, x, create_graph=True)
        assert g.item() == 2 * 6 * 3
        (g2,) = paddle.grad(g, x)
        assert g2.item() == 2 * 3 * 3

    def test_a_wrong_number_of_gradients(self):
        class Wrong(PyLayer):
            @staticmethod
            def forward(ctx, x, y):
                return x + y

            @staticmethod
            def backward(ctx, g):
                return g

        with pytest.raises(ValueError, match="1 gradients for 2 tensors"):
            Wrong.apply(leaf([1.0]), leaf([1.0])).backward()

    def test_hooks_on_saved_tensors(self):
        kept = []

        def pack(x):
            kept.append(x)
            return x.numpy()

        x, y = leaf([2.0]), leaf([3.0])
        with saved_tensors_hooks(pack, paddle.to_tensor):
            product, _ = Scaled.apply(x, 1.0, y)
        product.backward()
        assert len(kept) == 2
        assert (x.grad.tolist(), y.grad.tolist()) == ([3], [2])


class TestCaching:
    def test_the_second_identical_step_builds_nothing(self):
        tape.templates.clear()
        evaluate.sessions.clear()
        w = leaf(np.ones((3, 3), np.float32))
        counts = []
        for seed in range(4):
            x = paddle.to_tensor(np.random.default_rng(seed).normal(size=(2, 3)).astype(np.float32))
            loss = paddle.mean(paddle.tanh(x @ w) * x)
            loss.backward()
            loss.item()
            counts.append((evaluate.counts["sessions"], evaluate.counts["backward"], evaluate.counts["runs"]))
        (first, second, third, fourth) = counts
        assert third[:2] == fourth[:2] == second[:2]
        assert fourth[2] - third[2] == 1
        assert second[1] == first[1]

    def test_different_wants_are_different_passes(self):
        x, y = leaf([2.0]), leaf([3.0])
        assert paddle.grad(x * y, x)[0].item() == 3
        assert paddle.grad(x * y, y)[0].item() == 2
        y.stop_gradient = True
        (x * y).backward()
        assert y.grad is None


class TestDump:
    def test_three_readable_files(self, tmp_path):
        x = leaf([[1.0, 2.0], [3.0, 4.0]])
        x.name = "weight"
        y = paddle.matmul(x, x)
        z = paddle.tanh(y)
        folder = tmp_path / "deep" / "folder"
        backward([z], dump_backward_graph_path=str(folder))
        files = {path.name.split("_", 2)[2]: path.read_text() for path in folder.iterdir()}
        assert sorted(files) == ["backward_graph.dot", "call_stack.log", "ref_forward_graph.dot"]
        graph = files["backward_graph.dot"]
        assert graph.startswith("digraph backward {")
        assert 'node_0 [label="TanhGrad\\ntest_backward.py:' in graph
        assert 'node_0 -> node_1 [label="Place(cpu)\\nfloat32[2, 2]"]' in graph
        assert "weight" in graph
        assert 'node_1 -> node_0 [label="float32[2, 2]"]' in files["ref_forward_graph.dot"]
        assert "node_1: MatMul -> float32[2, 2]" in files["call_stack.log"]
        assert "in TestDump.test_three_readable_files" in files["call_stack.log"]

    def test_quotes_in_names_are_escaped(self, tmp_path):
        x = leaf([1.0])
        x.name = 'a "b"'
        backward([x * x], dump_backward_graph_path=str(tmp_path))
        for path in tmp_path.glob("*.dot"):
            assert 'a \\"b\\"' in path.read_text() and '"b"\\n' not in path.read_text()

    def test_the_path_must_be_a_folder_name(self, tmp_path):
        x = leaf([1.0])
        (tmp_path / "file").write_text("")
        with pytest.raises(NotADirectoryError):
            backward([x * x], dump_backward_graph_path=str(tmp_path / "file"))
        with pytest.raises(AssertionError):
            backward([x * x], dump_backward_graph_path=7)


class TestPyLayerDetails:
    def test_a_leaf_that_is_returned_as_it_is_counts_as_changed_in_place(self):
        class Same(PyLayer):
            @staticmethod
            def forward(ctx, x, apart):
                if apart:
                    ctx.mark_not_inplace(x)
                return x

            @staticmethod
            def backward(ctx, g):
                return -g

        x = leaf([2.0])
        with pytest.raises(ValueError, match="in place"):
            Same.apply(x, False)
        apart = Same.apply(x, True)
        assert apart is not x and x.is_leaf
        y = x * 3.0
        assert Same.apply(y, False) is y
        (y * apart).backward()
        # d(-3x * -x) with each factor's sign turned once on the way back
        assert x.grad.tolist() == [-12.0]

    def test_none_as_gradient_and_what_is_no_gradient(self):
        class Given(PyLayer):
            @staticmethod
            def forward(ctx, x, gradient):
                ctx.gradient = gradient
                return x * 2.0

            @staticmethod
            def backward(ctx, g):
                return ctx.gradient

        x = leaf([2.0])
        Given.apply(x, None).backward()
        assert x.grad is None
        with pytest.raises(ValueError, match="int"):
            Given.apply(x, 1).backward()

    def test_missing_gradients_stay_none_where_asked(self):
        seen = []

        class Two(PyLayer):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(False)
                second = x * 3.0
                ctx.mark_non_differentiable(second)
                return x * 2.0, second

            @staticmethod
            def backward(ctx, a, b):
                seen.append(b)
                return a * 2.0

        x = leaf([2.0])
        y, second = Two.apply(x)
        assert second.stop_gradient and not y.stop_gradient
        (y + second).backward()
        assert seen == [None] and x.grad.tolist() == [2.0]

    def test_a_forward_without_tensors_is_refused(self):
        class Nothing(PyLayer):
            @staticmethod
            def forward(ctx, x):
                return None

        with pytest.raises(ValueError, match="no Tensor"):
            Nothing.apply(leaf([1.0]))
