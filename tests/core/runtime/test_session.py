"""Every session has the same switches for the same operators, whoever opens it and for whatever place."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.runtime import session as module
from onnxgrad.core.runtime.denormals import OPTION, can_flush
from onnxgrad.core.runtime.places import CPUPlace
from onnxgrad.core.runtime.session import is_startup, open_graph, open_model, trains_state
from onnxgrad.distributed import run_local
from onnxgrad.distributed.pipeline import PipelineStep
from onnxgrad.distributed.sharded import ShardedStep
from onnxgrad.errors import ExecutionError
from onnxgrad.federated.worker import Worker

QDQ, SPIN, BYTES = "session.disable_quant_qdq", "session.force_spinning_stop", "session.x64quantprecision"
PACKS = "session.disable_prepacking"
NAMES = (OPTION, QDQ, SPIN, BYTES, PACKS)


@pytest.fixture
def opened(monkeypatch):
    """What each session is opened with: the options that are set, the passes that are left out, and the providers."""
    found = []
    original = onnxruntime.InferenceSession

    def note(source, options=None, providers=None, disabled_optimizers=None, **more):
        said = {"memory pattern": options.enable_mem_pattern, "threads": options.intra_op_num_threads}
        for name in NAMES:
            try:
                said[name] = options.get_session_config_entry(name)
            except Exception:
                said[name] = ""
        found.append((said, list(disabled_optimizers or ()), providers))
        return original(source, options, providers=providers, disabled_optimizers=disabled_optimizers, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", note)
    return found


def quantised_step():
    """A step through weights that are quantised, with an Expand of one row to none: (loss, feed)."""
    x = static.data("x", ["N", 4])
    w = static.create_parameter([4, 3], "float32", name="w")
    op = x.block.build
    scale, zero = np.float32(0.05), np.int8(0)
    rounded = op.DequantizeLinear(op.QuantizeLinear(w, scale, zero), scale, zero)
    loss = paddle.mean(paddle.square(op.MatMul(x, rounded)))
    paddle.optimizer.Adam(0.1).minimize(loss)
    paddle.Executor().run(static.default_startup_program())
    return loss, {"x": np.ones((4, 4), np.float32)}


def test_shards_pipelines_and_workers_open_sessions_as_the_executor_does(opened):
    loss, feed = quantised_step()
    program = loss.block.program
    opened.clear()
    paddle.Executor(memory=None, threads=1).run(program, feed, [loss])
    (plain, _, providers), *_ = opened
    assert plain["memory pattern"] is False and plain[QDQ] == "1"
    assert plain[OPTION] == ("1" if can_flush() else "")
    # The sessions of a step in parts take turns, so that threads of one do not wait, spinning, while another runs.
    in_parts = {**plain, "session.force_spinning_stop": "1"}

    def shards(transport):
        ShardedStep(program, [loss], transport, threads=1).run(feed)

    def stages(transport):
        PipelineStep(program, loss, [], transport, micro_batches=1, threads=1).run(feed)

    def worker(transport):
        Worker(program, loss=loss, threads=1).fit({"x": feed["x"]}, batch_size=4)

    for way, expected in ((shards, in_parts), (stages, plain), (worker, plain)):
        opened.clear()
        run_local(1, way)
        computing = [(said, names) for said, _, names in opened if said[QDQ] == "1"]
        assert computing, way.__name__  # the session that holds the quantised weights
        for said, names in computing:
            assert said == expected and names == providers, way.__name__
        # What applies gradients flushes denormal numbers too, and plans its memory alike.
        assert {(said["memory pattern"], said[OPTION]) for said, *_ in opened if said["memory pattern"] is False} == {
            (False, plain[OPTION])
        }


def test_passes_that_change_results_are_left_out_everywhere(opened):
    """MatmulTransposeFusion multiplies a transposed matrix by a vector as if it were not transposed"""
    x, v = static.data("x", [2, 3]), static.data("v", [2])
    y = paddle.matmul(paddle.transpose(x, [1, 0]), v)
    graph, model = compile(x.block.program, [y]), paddle.to_onnx(x.block.program, [y])
    opened.clear()
    sessions = [open_graph(graph, CPUPlace()), open_model(model), open_model(model.SerializeToString())]
    assert [passes for _, passes, _ in opened] == [["MatmulTransposeFusion"]] * 3
    feed = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "v": np.array([1, 10], np.float32)}
    for session in sessions:
        np.testing.assert_array_equal(session.run(None, feed)[0], feed["x"].T @ feed["v"])


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_session_that_runs_once_makes_no_copies_of_float_weights(opened, dtype):
    """What is multiplied by weights of bytes depends on whether they are packed, so these are packed as ever"""
    x = static.data("x", ["N", 2])
    op = x.block.build
    y = op.MatMul(x, op.Cast(np.ones((2, 2), dtype), to=TensorProto.FLOAT))
    graph = compile(x.block.program, [y])
    opened.clear()
    sessions = [open_graph(graph, CPUPlace()), open_graph(graph, CPUPlace(), runs_once=True)]
    assert [passes for _, passes, _ in opened] == [[], ["ConstantFolding"]]
    assert [said[PACKS] for said, _, _ in opened] == ["", "1" if dtype == "float32" else ""]
    for session in sessions:
        assert session.run(None, {"x": np.ones((1, 2), np.float32)})[0].tolist() == [[2, 2]]


def test_a_file_is_opened_where_it_lies_with_weights_beside_it(opened, tmp_path):
    weights = numpy_helper.from_array(np.full((4, 2), 0.5, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    session = open_model(path, threads=1)
    np.testing.assert_array_equal(session.run(None, {"x": np.ones((3, 4), np.float32)})[0], np.full((3, 2), 2.0))
    assert opened[-1][0]["threads"] == 1


def test_products_of_bytes_that_would_saturate_are_told_apart(opened, monkeypatch):
    monkeypatch.setattr(module, "has_integer_products", lambda: False)
    text = """<ir_version: 8, opset_import: ["": 17]> f (uint8[2, 4] a) => (int32[2, 2] y, int32[2, 2] z)
        <int8[4, 2] b = {1, 2, 3, 4, 5, 6, 7, 8}> { y = MatMulInteger (a, b) z = MatMulInteger (a, b) }"""
    model = onnx.parser.parse_model(text)
    program = paddle.from_onnx(model, parameters=[])
    found = [open_graph(compile(program, None), CPUPlace()), open_model(model)]
    assert [said[BYTES] for said, *_ in opened] == ["1", "1"]
    for session in found:
        y, z = session.run(None, {"a": np.ones((2, 4), np.uint8)})
        assert y.tolist() == z.tolist() == [[16, 20], [16, 20]]


def test_what_onnxruntime_refuses_is_named():
    text = """<ir_version: 8, opset_import: ["": 17, "some.domain": 1]> f (float[2] x) => (float[2] y) { y = some.domain.Nothing (x) }"""
    program = paddle.from_onnx(onnx.parser.parse_model(text), parameters=[])
    with pytest.raises(ExecutionError, match="Nothing"):
        open_graph(compile(program, None), CPUPlace())


def test_which_graphs_train_and_which_begin():
    x = static.data("x", [2])
    w = static.create_parameter([2], "float32")
    loss = paddle.sum(x * w)
    program = loss.block.program
    plain = compile(program, [loss], state_as_inputs=True)
    assert not trains_state(plain) and not is_startup(plain)
    paddle.optimizer.SGD(0.1).minimize(loss)
    step = compile(program, [loss], state_as_inputs=True)
    assert trains_state(step) and not is_startup(step)
    assert is_startup(compile(static.default_startup_program(), [], state_as_inputs=True))


def test_what_onnxruntime_says_of_a_file_comes_escaped_in_the_error_and_not_on_the_terminal(capfd):
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N, 2] x, float[M, 2] z) => (float[K, 2] y) { y = Add (x, z) }'
    model = onnx.parser.parse_model(text)
    model.graph.node[0].name = "wiped\x1b[2J\x9b\r"
    program = paddle.from_onnx(model)
    feed = {"x": np.ones((3, 2), np.float32), "z": np.ones((2, 2), np.float32)}
    with pytest.raises(ExecutionError, match=r"wiped\\x1b\[2J\\x9b\\x0d"):
        paddle.Executor().run(program, feed, program.outputs)
    model.graph.node[0].domain = "own\x1b"
    model.opset_import.add(domain="own\x1b", version=1)
    with pytest.raises(ExecutionError, match=r"own\\x1b:Add"):
        open_model(model)
    with pytest.raises(ExecutionError, match=r"own\\x1b:Add"):
        open_graph(compile(paddle.from_onnx(model), None), CPUPlace())
    assert capfd.readouterr() == ("", "")


def test_a_process_with_few_of_the_cores_computes_with_as_many_threads(monkeypatch):
    """onnxruntime counts those of the machine, also where a container or a scheduler gives the process two of them"""
    program = static.Program()
    with static.program_guard(program, static.Program()):
        y = static.data("x", [3]) * 2.0
    graph = compile(program, [y])
    threads = []
    for cores in (2, 64):
        monkeypatch.setattr("os.cpu_count", lambda: 64)
        monkeypatch.setattr("onnxgrad.core.runtime.session.usable_cores", lambda cores=cores: cores)
        threads.append(open_graph(graph, CPUPlace(), None).get_session_options().intra_op_num_threads)
    assert threads == [2, 0]
