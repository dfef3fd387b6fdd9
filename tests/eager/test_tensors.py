"""Eager tensors: checked at once, computed when read, one session for a repeated chain."""

import copy
import pickle

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.eager import evaluate
from onnxgrad.errors import IllTyped


@pytest.fixture
def built():
    """How many sessions and backward passes are built from here on."""
    evaluate.sessions.clear()
    before = dict(evaluate.counts)
    return lambda: {key: evaluate.counts[key] - before[key] for key in before}


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class TestMaking:
    @pytest.mark.parametrize(
        ("data", "dtype", "shape"),
        [
            (1.5, "float32", []),
            (3, "int64", []),
            (True, "bool", []),
            ([1.0, 2.0], "float32", [2]),
            ([[1, 2], [3, 4]], "int64", [2, 2]),
            (np.zeros((2, 3)), "float64", [2, 3]),
            (np.float16(1), "float16", []),
            ((1, 2.5), "float32", [2]),
            ([], "float32", [0]),
        ],
    )
    def test_dtype_and_shape_of_what_is_given(self, data, dtype, shape):
        x = paddle.to_tensor(data)
        assert (x.dtype, x.shape, x.stop_gradient, x.is_leaf) == (dtype, shape, True, True)

    def test_the_value_is_copied_in_and_out(self):
        data = np.zeros(3, np.float32)
        x = paddle.to_tensor(data)
        data[0] = 7
        x.numpy()[1] = 7
        np.testing.assert_array_equal(x.numpy(), [0, 0, 0])

    def test_nested_tensors(self):
        x = paddle.to_tensor([paddle.to_tensor(1.0), paddle.to_tensor(2.0)])
        np.testing.assert_array_equal(x.numpy(), np.array([1, 2], np.float32))

    def test_a_pending_tensor_is_taken_without_computing_it(self, built):
        y = paddle.to_tensor(paddle.to_tensor([1.0]) * 2.0, dtype="float64")
        assert built()["runs"] == 0
        assert y.numpy().tolist() == [2.0]
        assert y.dtype == "float64"

    def test_what_is_refused(self):
        with pytest.raises(TypeError, match="to_tensor takes"):
            paddle.to_tensor("text")
        with pytest.raises(ValueError, match="different lengths"):
            paddle.to_tensor([[1, 2], [3]])
        with pytest.raises(TypeError):
            paddle.to_tensor([None, 1])

    def test_bfloat16_values_are_computed(self):
        x = paddle.to_tensor([1.5, 2.5], dtype="bfloat16", stop_gradient=False)
        y = (x.astype("float32") * 2.0).astype("bfloat16")
        assert y.dtype == "bfloat16"
        np.testing.assert_array_equal(y.numpy().astype(np.float32), [3, 5])


class TestReading:
    def test_printed_form(self):
        x = paddle.to_tensor([[12.0, 18.0], [17.0, 25.0]], stop_gradient=False)
        text = (
            "Tensor(shape=[2, 2], dtype=float32, place=Place(cpu), stop_gradient=False,\n       [[12., 18.],\n        [17., 25.]])"
        )
        assert str(x) == repr(x) == text

    def test_python_numbers(self):
        x = paddle.to_tensor(2.5)
        assert (float(x), int(x), x.item(), bool(x > 2.0), bool(x > 3.0)) == (2.5, 2, 2.5, True, False)
        assert [10, 20, 30][paddle.to_tensor(1)] == 20
        assert f"{x:.2f}" == "2.50"
        with pytest.raises(ValueError, match="one element"):
            bool(paddle.to_tensor([1, 2]))
        with pytest.raises(TypeError):
            [10][x]

    def test_iteration_length_and_membership(self):
        x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])
        assert len(x) == 2
        assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
        assert 3.0 in x
        assert 5.0 not in x
        with pytest.raises(TypeError, match="no length"):
            len(paddle.to_tensor(1.0))

    def test_shape_is_a_list_that_knows_tuples(self):
        shape = paddle.to_tensor(np.zeros((2, 3))).shape
        assert isinstance(shape, list)
        assert shape == [2, 3]
        assert shape == (2, 3)
        assert [1] + shape == [1, 2, 3]
        assert (1,) + shape == (1, 2, 3)
        assert shape + (4,) == [2, 3, 4]
        assert str(shape) == "[2, 3]"

    def test_copying_and_pickling(self):
        x = paddle.to_tensor([1.0], stop_gradient=False)
        for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            assert twin is not x
            assert (twin.tolist(), twin.stop_gradient) == ([1.0], False)
        with pytest.raises(ValueError, match="only leaves"):
            copy.deepcopy(x * 2.0)


class TestComputing:
    def test_operators_agree_with_numpy(self):
        a, b = array(3, 4), array(4, seed=1)
        x, y = paddle.to_tensor(a), paddle.to_tensor(b)
        np.testing.assert_allclose(((x + y) * 2.0 - x / y).numpy(), (a + b) * 2 - a / b, rtol=1e-5)
        np.testing.assert_allclose((x @ paddle.transpose(x, [1, 0])).numpy(), a @ a.T, rtol=1e-5)
        np.testing.assert_allclose((1.0 - x).numpy(), 1 - a, rtol=1e-6)
        np.testing.assert_allclose(x[1:, ::2].numpy(), a[1:, ::2])
        np.testing.assert_allclose(F.softmax(x).numpy().sum(axis=1), np.ones(3), rtol=1e-6)

    def test_errors_come_with_the_call(self):
        x, y = paddle.to_tensor(array(2, 3)), paddle.to_tensor(array(2, 3))
        with pytest.raises(IllTyped, match="MatMul"):
            paddle.matmul(x, y)

    def test_a_repeated_chain_opens_one_session(self, built):
        w = paddle.to_tensor(array(4, 4))
        for seed in range(5):
            h = paddle.to_tensor(array(4, 4, seed=seed))
            for _ in range(5):
                h = paddle.tanh(h @ w) * 0.5
            h.numpy()
        assert built() == {"sessions": 1, "runs": 5, "backward": 0}

    def test_another_shape_or_attribute_is_another_structure(self, built):
        for shape, axis in (((2, 3), 0), ((2, 4), 0), ((2, 3), 1)):
            paddle.sum(paddle.to_tensor(array(*shape)), axis=axis).numpy()
        assert built()["sessions"] == 3

    def test_a_constant_that_keeps_changing_becomes_an_input(self, built):
        x = paddle.to_tensor([2.0])
        values = [0.1 * i for i in range(1, 12)]
        assert np.allclose([(x * v).item() for v in values], [2 * v for v in values])
        assert built()["sessions"] <= 5

    def test_zero_and_negative_zero_are_different_constants(self):
        x = paddle.to_tensor([1.0])
        assert np.signbit((x * 0.0).numpy()[0]) != np.signbit((x * -0.0).numpy()[0])

    def test_what_the_user_holds_is_kept_by_the_run(self, built):
        x = paddle.to_tensor(array(3))
        h = x * 2.0
        paddle.sum(h).numpy()
        h.numpy()
        assert built()["runs"] == 1

    def test_a_loop_that_reads_nothing_stays_bounded(self, built):
        x = paddle.to_tensor(np.zeros(2, np.float32))
        for _ in range(2000):
            x = x + 1.0
        assert built()["runs"] >= 4
        assert x.tolist() == [2000, 2000]

    def test_shapes_that_depend_on_values_are_found_at_once(self):
        x = paddle.to_tensor([[1.0, 0.0], [0.0, 2.0]])
        found = x.block.build.NonZero(x)
        assert found.shape == [2, 2]
        assert found.tolist() == [[0, 1], [0, 1]]
        assert paddle.reshape(x, paddle.to_tensor([4])).shape == [4]

    def test_large_arrays_are_operands_not_structure(self, built):
        x = paddle.to_tensor(array(100))
        for seed in range(3):
            big = array(100, seed=seed)
            np.testing.assert_allclose(x.block.build.Add(x, big).numpy(), x.numpy() + big, rtol=1e-6)
        assert built()["sessions"] == 1

    def test_bodies_are_computed_too(self):
        x = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
        factor = paddle.to_tensor(2.0, stop_gradient=False)
        op = x.block.build
        body = x.block.program.new_block(x.block, "body")
        total, item = (body.create_var(name, [], "float32") for name in ("total", "item"))
        body.inputs += [total, item]
        new = body.build.Add(total, body.build.Mul(item, factor))
        body.outputs += [new, body.build.Identity(new)]
        _, sums = op.Scan(paddle.to_tensor(0.0), x, body=body, num_scan_inputs=1, outputs=2)
        assert sums.tolist() == [2, 6, 12]
        paddle.sum(sums).backward()
        assert x.grad.tolist() == [6, 4, 2]
        assert factor.grad.item() == 3 + 4 + 3

    def test_random_operators_follow_the_seed_and_are_drawn_once(self):
        paddle.seed(7)
        first = F.dropout(paddle.to_tensor(np.ones(50, np.float32)), 0.5)
        again = first.numpy()
        paddle.seed(7)
        second = F.dropout(paddle.to_tensor(np.ones(50, np.float32)), 0.5).numpy()
        np.testing.assert_array_equal(first.numpy(), again)
        np.testing.assert_array_equal(again, second)
        assert set(again) == {0.0, 2.0}
        assert not np.array_equal(F.dropout(paddle.to_tensor(np.ones(50, np.float32)), 0.5).numpy(), second)

    def test_dropout_gradient_uses_the_mask_of_the_forward(self):
        x = paddle.to_tensor(np.ones(40, np.float32), stop_gradient=False)
        y = F.dropout(x, 0.5)
        y.backward(retain_graph=True)
        np.testing.assert_array_equal(x.grad.numpy(), y.numpy())


class TestBatchNorm:
    def test_running_statistics_move_and_each_step_is_one_run(self, built):
        mean, variance = paddle.to_tensor(np.zeros(2, np.float32)), paddle.to_tensor(np.ones(2, np.float32))
        weight = paddle.to_tensor(np.ones(2, np.float32), stop_gradient=False)
        expected_mean, expected_variance = np.zeros(2), np.ones(2)
        for seed in range(4):
            batch = array(5, 2, 3, seed=seed)
            h = paddle.tanh(paddle.to_tensor(batch))
            y = F.batch_norm(h, mean, variance, weight=weight, training=True)
            paddle.sum(y * y * y).backward()
            seen = np.tanh(batch)
            expected_mean = 0.9 * expected_mean + 0.1 * seen.mean(axis=(0, 2))
            expected_variance = 0.9 * expected_variance + 0.1 * seen.var(axis=(0, 2))
        assert built()["runs"] == 4
        np.testing.assert_allclose(mean.numpy(), expected_mean, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(variance.numpy(), expected_variance, rtol=1e-4)
        assert built()["runs"] == 4
        normal = (seen - seen.mean(axis=(0, 2), keepdims=True)) / np.sqrt(seen.var(axis=(0, 2), keepdims=True) + 1e-5)
        np.testing.assert_allclose(y.numpy(), normal, rtol=1e-3, atol=1e-4)


class TestChanging:
    def test_set_value_does_not_reach_back(self):
        x = paddle.to_tensor([1.0, 2.0])
        y = x * 10.0
        x.set_value(np.array([5.0, 5.0], np.float32))
        assert y.tolist() == [10, 20]
        assert (x * 10.0).tolist() == [50, 50]
        with pytest.raises(ValueError, match="does not fit"):
            x.set_value(np.zeros(3, np.float32))

    def test_in_place_functions(self):
        x = paddle.to_tensor([1.0, 2.0])
        same = x
        x.add_(1.0).multiply_(2.0).subtract_(1.0)
        assert same.tolist() == [3, 5]
        assert x.zero_().tolist() == [0, 0]
        assert x.fill_(4.0).scale_(0.5).tolist() == [2, 2]

    def test_a_leaf_that_needs_gradients_is_protected(self):
        x = paddle.to_tensor([1.0], stop_gradient=False)
        with pytest.raises(ValueError, match="in place"):
            x.add_(1.0)
        with paddle.no_grad():
            x.add_(1.0)
        assert (x.tolist(), x.stop_gradient, x.is_leaf) == ([2.0], False, True)

    def test_item_assignment(self):
        x = paddle.to_tensor(np.zeros((2, 3), np.float32))
        x[0] = 1.0
        x[1, paddle.to_tensor([0, 2])] = np.array([5.0, 6.0], np.float32)
        assert x.tolist() == [[1, 1, 1], [5, 0, 6]]
        x[x.numpy() > 4] = 0.0
        assert x.tolist() == [[1, 1, 1], [0, 0, 0]]

    def test_item_assignment_carries_gradients(self):
        x = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
        v = paddle.to_tensor([10.0], stop_gradient=False)
        y = x * 2.0
        y[1:2] = v * 3.0
        paddle.sum(y).backward()
        assert (y.tolist(), x.grad.tolist(), v.grad.tolist()) == ([2, 30, 6], [2, 0, 2], [3])


class TestModes:
    def test_dynamic_is_the_default(self):
        assert paddle.in_dynamic_mode()
        assert isinstance(paddle.full([2], 1.0), paddle.Tensor)
        paddle.enable_static()
        assert not paddle.in_dynamic_mode()
        assert not isinstance(paddle.full([2], 1.0), paddle.Tensor)
        assert not isinstance(paddle.to_tensor([1.0]), paddle.Tensor)
        paddle.disable_static()
        assert isinstance(paddle.to_tensor([1.0]), paddle.Tensor)

    def test_inside_program_guard_functions_without_tensors_are_static(self):
        main = static.Program()
        with static.program_guard(main):
            y = paddle.full([2], 1.0)
        assert y.block.program is main

    def test_the_operands_decide_not_the_mode(self):
        x = static.data("x", [2])
        assert isinstance(paddle.exp(x), static.Variable)
        assert not isinstance(paddle.exp(x), paddle.Tensor)
        eager = paddle.to_tensor([1.0, 2.0])
        paddle.enable_static()
        assert paddle.exp(eager).numpy().shape == (2,)

    def test_a_tensor_meets_a_static_variable_as_a_constant(self):
        x = static.data("x", [2])
        results = [x + paddle.to_tensor([1.0, 2.0]), paddle.to_tensor([1.0, 2.0]) + x, paddle.add(x, paddle.to_tensor([1.0, 2.0]))]
        for found in static.Executor().run(feed={"x": np.ones(2, np.float32)}, fetch_list=results):
            np.testing.assert_array_equal(found, [2, 3])
        with pytest.raises(TypeError, match="stop_gradient=False meets a static program"):
            x + paddle.to_tensor([1.0, 2.0], stop_gradient=False)

    def test_create_parameter(self):
        paddle.seed(3)
        p = paddle.create_parameter([2, 3], "float32")
        assert isinstance(p, paddle.Tensor)
        assert (p.stop_gradient, p.trainable, p.persistable, p.is_leaf) == (False, True, True, True)
        assert np.all(np.abs(p.numpy()) <= np.sqrt(6 / 5))
        assert paddle.create_parameter([3], "float32", is_bias=True).tolist() == [0, 0, 0]
        paddle.enable_static()
        assert isinstance(paddle.create_parameter([2, 3], "float32"), static.Parameter)
