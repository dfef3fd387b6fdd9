"""What the door refuses: one small model for each kind of damage that fuzzing found, and none of the real ones."""

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper, parser

import onnxgrad as og
from onnxgrad.core.interop.validate import check_model
from onnxgrad.core.rules.registry import find_entry
from onnxgrad.errors import ExecutionError, ExternalDataError, IllTyped, ModelError, RuleError
from tests.core.rules import official_cases
from tests.real_models import ALL

pytestmark = [pytest.mark.damaged, pytest.mark.timeout(60)]  # a hang, as of a size that a file makes up

HEAD = '<ir_version: 8, opset_import: ["": 17, "own": 1, "com.microsoft": 1]> g '


def model(text, head=HEAD):
    return parser.parse_model(head + text)


def relu():
    return model("(float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")


def with_weight(dims=(3, 3), **fields):
    found = model("(float[N, 3] x) => (float[N, 3] y) { y = MatMul(x, w) }")
    found.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=list(dims), **fields))
    return found


def refused(damaged, message, error=ModelError):
    with pytest.raises(error, match=message):
        og.from_onnx(damaged)


class TestWhatIsFineStays:
    @pytest.mark.parametrize("folder", ALL, ids=lambda folder: folder.name)
    def test_every_real_model_passes(self, folder):
        check_model(onnx.load(folder / "model.onnx", load_external_data=False))

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("group", official_cases.groups())
    def test_every_official_case_passes(self, group):
        for case in official_cases.cases_of(group):
            check_model(case.model)

    def test_absent_operands_at_the_end_may_be_named_empty(self):
        found = model("(float[2] x) => (float[2] y) { y = Clip(x, , ) }")
        found.graph.node[0].input[:] = ["x", "", ""]
        assert og.from_onnx(found).outputs[0].dims == (2,)

    def test_an_empty_name_at_the_end_does_not_reach_onnxruntime(self):
        """It ends the process on this one"""
        found = model("(float[2, 3] x, float[3] w) => (float[2, 3] y) { y = LayerNormalization(x, w) }")
        found.graph.node[0].input.append("")
        program = og.from_onnx(found)
        feed = {"x": np.array([[1, 2, 3], [1, 1, 4]], "f4"), "w": np.ones(3, "f4")}
        (y,) = og.Executor().run(program, feed, program.outputs)
        np.testing.assert_allclose(y.mean(axis=1), 0, atol=1e-6)
        assert list(og.to_onnx(program).graph.node[0].input) == ["x", "w", ""]

    def test_a_file_of_another_domain_needs_no_standard_opset(self):
        found = model("(float[2] x) => (float[2] y) { y = own.Spin(x) }", '<ir_version: 8, opset_import: ["own": 1]> g ')
        assert len(og.from_onnx(found).global_block().ops) == 1


class TestNodes:
    @pytest.mark.parametrize(
        ("node", "message"),
        [
            ("y = Relu(x, x)", r"Relu \(-> y\): 2 operands given; its operands are \['X'\]"),
            ("y = Add(x)", "1 operands given"),
            ("y = Where(x, , x)", "the input 'X' is missing"),
            ("y, z = Relu(x)", "2 results given"),
            ("y = Concat(x)", "the attribute 'axis' is required"),
            ("y = Concat <axis = 1.5> (x)", "the attribute 'axis' is FLOAT, not INT"),
            ("y = Relu <axis = 1> (x)", "there is no attribute 'axis'"),
            ('y = Einsum <equation = "ij-"> (x)', "'ij-' is not an equation"),
            ("y = If (x)", "the attributes? .*else_branch"),
            ("y = Loop (, , x)", "the attribute 'body' is required"),
        ],
    )
    def test_form(self, node, message):
        refused(model(f"(float[2, 3] x) => (float[2, 3] y) {{ {node} }}"), message)

    def test_an_empty_name_among_any_number_of_operands(self):
        """onnxruntime ends the process on it"""
        damaged = model("(float[2] x) => (float[2] y) { y = Sum(x, x) }")
        damaged.graph.node[0].input[1] = ""
        refused(damaged, "the input 'data_0' is missing")

    def test_an_axis_that_no_tensor_has(self):
        """onnx's inference ends the process on it, also where a function is given the number"""
        node = f"y, m = LayerNormalization <axis = {2**63 - 1}> (x, w)"
        refused(model(f"(float[3, 4] x, float[4] w) => (float[3, 4] y) {{ {node} }}"), "there is no axis 9223372036854775807")
        called = model(
            f"(float[3, 4] x, float[4] w) => (float[3, 4] y) {{ y, m = own.f <a = {2**63 - 1}> (x, w) }}"
            ' <domain: "own", opset_import: ["": 17]> f <a> (x, w) => (y, m) { y, m = LayerNormalization <axis: int = @a> (x, w) }'
        )
        program = og.from_onnx(called)
        program.inputs[0].stop_gradient = False
        found = og.gradients(program.outputs[:1], program.inputs[:1])
        with pytest.raises(ExecutionError, match="LayerNormalization"):
            og.Executor().run(program, {"x": np.ones((3, 4), "f4"), "w": np.ones(4, "f4")}, found)

    def test_a_split_into_another_number_than_its_results(self):
        """onnx's inference ends the process on it"""
        text = "(float[2, 6] x) => (float[2, 3] y, float[2, 3] z) { y, z = Split <axis = 1, num_outputs = 1> (x) }"
        refused(model(text, '<ir_version: 8, opset_import: ["": 18]> g '), "num_outputs is 1, but there are 2")

    def test_an_attribute_given_twice(self):
        damaged = model("(float[2] x) => (float[2] y) { y = Softmax <axis = 0> (x) }")
        damaged.graph.node[0].attribute.add().CopyFrom(damaged.graph.node[0].attribute[0])
        refused(damaged, "'axis' is given twice")

    def test_an_attribute_without_a_type(self):
        damaged = model("(float[2] x) => (float[2] y) { y = Softmax <axis = 0> (x) }")
        damaged.graph.node[0].attribute[0].ClearField("type")
        refused(damaged, "'axis' has no type")

    def test_a_reference_outside_a_function(self):
        damaged = model("(float[2] x) => (float[2] y) { y = Softmax <axis = 0> (x) }")
        damaged.graph.node[0].attribute[0].ref_attr_name = "axis"
        refused(damaged, "refers to one of a function")

    def test_a_node_whose_results_have_no_name(self):
        damaged = relu()
        damaged.graph.node.append(helper.make_node("Relu", ["x"], [""]))
        refused(damaged, "none of its results has a name")

    @pytest.mark.parametrize("version", [-1, 0, 2**32, 2**63 - 1])
    def test_an_opset_that_does_not_exist(self, version):
        damaged = relu()
        damaged.opset_import[0].version = version
        refused(damaged, "opset version")

    def test_no_standard_opset(self):
        damaged = relu()
        del damaged.opset_import[0]
        refused(damaged, "imports no opset of the standard operators")

    def test_a_role_that_is_none(self):
        damaged = relu()
        damaged.graph.node[0].metadata_props.add(key="onnxgrad.role", value="forwards")
        refused(damaged, "its role 'forwards'")


class TestText:
    @pytest.mark.parametrize(
        ("place", "make"),
        [
            ("name", lambda m: m.graph.node.append(helper.make_node("Relu", ["x"], ["TEXT"]))),
            ("documentation", lambda m: setattr(m, "doc_string", "TEXT")),
            ("metadata", lambda m: m.metadata_props.add(key="TEXT", value="")),
            ("domain", lambda m: m.opset_import.add(domain="TEXT", version=1)),
            ("dimension", lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_param", "TEXT")),
            ("tensor", lambda m: m.graph.initializer.append(numpy_helper.from_array(np.ones(1), "TEXT"))),
            ("attribute", lambda m: m.graph.node.append(helper.make_node("Gelu", ["x"], ["z"], approximate="TEXT"))),
        ],
    )
    def test_that_is_not_utf_8(self, place, make):
        damaged = relu()
        damaged.opset_import[0].version = 20
        make(damaged)
        refused(damaged.SerializeToString().replace(b"TEXT", b"\xff\xfe\xff\xfe"), "not UTF-8")


class TestTensors:
    @pytest.mark.parametrize("dims", [(-1, 3), (3, -(2**63))])
    def test_negative_dimensions(self, dims):
        refused(with_weight(dims, raw_data=bytes(36)), "cannot be negative")

    def test_more_dimensions_than_data(self):
        refused(with_weight((2**40, 2), raw_data=bytes(36)), "more than this machine has")
        refused(with_weight((3, 4), raw_data=bytes(36)), "holds 36 bytes; its type and shape need 48")
        refused(with_weight((3, 4), float_data=[1.0]), r"holds 1 elements; its shape \[3, 4\] needs 12")

    def test_types(self):
        damaged = with_weight(raw_data=bytes(36))
        damaged.graph.initializer[0].data_type = 99
        refused(damaged, "ONNX element type 99")
        damaged = relu()
        damaged.graph.input[0].type.tensor_type.elem_type = 99
        refused(damaged, "ONNX element type 99")

    def test_a_declared_size_that_no_machine_has(self):
        damaged = relu()
        damaged.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 2**62
        refused(damaged, "tensor 'y' would take")

    def test_no_name(self):
        damaged = with_weight(raw_data=bytes(36))
        damaged.graph.initializer.add().CopyFrom(damaged.graph.initializer[0])
        damaged.graph.initializer[1].name = ""
        refused(damaged, "has no name")

    @pytest.mark.parametrize(
        "node",
        [
            "y = Tile(x, r)",
            "y = Expand(x, r)",
            "c = ConstantOfShape(r)  y = Mul(c, x)",
            "c = Range(a, n, d)  k = Cast <to = 1> (c)  y = Mul(k, x)",
        ],
    )
    def test_a_result_that_no_machine_holds(self, node):
        text = (
            "(float[1] x) => (float[N] y) <int64[1] r = {1099511627776}, int64 a = {0}, int64 n = {1099511627776}, int64 d = {1}>"
        )
        refused(model(f"{text} {{ {node} }}"), "more than this machine has")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"dims": [2**20, 2**20]}, "more than this machine has"),
            ({"dims": [2**16, 2**14]}, "in dense form"),
            ({"dims": [-3, 4]}, "cannot be negative"),
            ({"positions": [1, 12]}, "do not fit"),
            ({"positions": [-1, 3]}, "do not fit"),
            ({"positions": [1]}, "do not fit"),
            ({"dims": []}, "has no axes"),
        ],
    )
    def test_sparse(self, change, message):
        values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
        positions = change.get("positions", [1, 7])
        indices = helper.make_tensor("i", TensorProto.INT64, [len(positions)], positions)
        damaged = model("(float[N, 3] x) => (float[N, 4] y) { y = MatMul(x, w) }")
        sparse = helper.make_sparse_tensor(values, indices, change.get("dims", [3, 4]))
        damaged.graph.sparse_initializer.append(sparse)
        refused(damaged, message)


class TestExternalData:
    @pytest.mark.parametrize(
        ("key", "value", "message"),
        [
            ("location", "/etc/passwd", "outside the model's folder"),
            ("location", "a\0b", "outside the model's folder"),
            ("location", "", "outside the model's folder"),
            ("location", "a" * 3000, "is missing"),
            ("location", ".", "is missing"),
            ("offset", "-4", "is not a number"),
            ("offset", "four", "is not a number"),
            ("offset", "9" * 30, "is not a number"),
            ("length", "\u0665", "is not a number"),
            ("offset", "64", "too short"),
            ("length", "4", "too short"),
        ],
    )
    def test_fields(self, key, value, message, tmp_path):
        damaged = with_weight()
        tensor = damaged.graph.initializer[0]
        tensor.data_location = TensorProto.EXTERNAL
        for name, text in {"location": "w.bin", "offset": "0", "length": "36", key: value}.items():
            tensor.external_data.add(key=name, value=text)
        (tmp_path / "w.bin").write_bytes(bytes(36))
        (tmp_path / "m.onnx").write_bytes(damaged.SerializeToString())
        refused(tmp_path / "m.onnx", message, ExternalDataError)

    def test_a_link_to_itself(self, tmp_path):
        (tmp_path / "w.bin").symlink_to(tmp_path / "w.bin")
        self.test_a_location_that_is_a_link(tmp_path, "is missing|outside")

    def test_a_location_that_is_a_link(self, tmp_path, message="outside"):
        if not (tmp_path / "w.bin").is_symlink():
            (tmp_path / "w.bin").symlink_to("/etc/passwd")
        damaged = with_weight()
        tensor = damaged.graph.initializer[0]
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.bin")
        (tmp_path / "m.onnx").write_bytes(damaged.SerializeToString())
        refused(tmp_path / "m.onnx", message, ExternalDataError)


class TestBodies:
    def test_of_an_if(self):
        damaged = model(
            "(float[2] x, bool c) => (float[2] y) { y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) },"
            " else_branch = e () => (float[2] b) { b = Neg(x) }> }"
        )
        del damaged.graph.node[0].attribute[0].g.output[0]
        refused(damaged, "the branches return 0 and 1 values")

    @pytest.mark.parametrize("change", ["input", "output", "empty", "type"])
    def test_of_a_loop(self, change):
        damaged = model(
            "(float[2] x, int64 n, bool c) => (float[2] y) { y = Loop (n, c, x)"
            " <body = b (int64 i, bool p, float[2] s) => (bool q, float[2] t) { q = Identity(p)  t = Sin(s) }> }"
        )
        attribute = damaged.graph.node[0].attribute[0]
        if change == "empty":
            attribute.ClearField("g")
        elif change == "type":
            attribute.type = AttributeProto.GRAPHS
        else:
            del getattr(attribute.g, change)[0]
        refused(damaged, {"empty": "is empty", "type": "is GRAPHS, not GRAPH"}.get(change, "its body 'b' has"))

    @pytest.mark.parametrize(("count", "axes"), [(0, [0]), (3, [0]), (1, [0, 0])])
    def test_of_a_scan(self, count, axes):
        damaged = model(
            f"(float[2] s, float[4, 2] x) => (float[2] y) {{ y = Scan <num_scan_inputs = {count}, scan_input_axes = {axes},"
            " body = b (float[2] s, float[2] e) => (float[2] t) { t = Add(s, e) }> (s, x) }"
        )
        refused(damaged, "num_scan_inputs|scan_input_axes has 2 numbers")


def doubling(levels):
    """A call of the last of functions each of which calls the one before twice"""
    text = f"(float[2] x) => (float[2] y) {{ y = own.f{levels}(x) }}"
    functions = ['<domain: "own", opset_import: ["": 17]> f0 (x) => (y) { y = Neg(x) }']
    for i in range(levels):
        inner = f"{{ a = own.f{i}(x)  y = own.f{i}(a) }}"
        functions.append(f'<domain: "own", opset_import: ["": 17, "own": 1]> f{i + 1} (x) => (y) {inner}')
    return model(text + "\n".join(functions))


class TestFunctions:
    def test_that_double(self):
        refused(doubling(17), "would be 131072 with its functions written out")
        program = og.from_onnx(doubling(4))
        (y,) = og.Executor().run(program, {"x": np.ones(2, np.float32)}, program.outputs)
        np.testing.assert_array_equal(y, np.ones(2))

    def test_that_call_each_other(self):
        damaged = doubling(2)
        damaged.functions[0].node[0].op_type, damaged.functions[0].node[0].domain = "f2", "own"
        refused(damaged, "the function own:f. calls itself")

    def test_that_call_each_other_too_deep(self):
        damaged = doubling(200)
        for function in damaged.functions[1:]:
            del function.node[0]
            function.node[0].input[0] = "x"
        refused(damaged, "more than 64 deep")

    def test_two_of_one_name(self):
        damaged = doubling(1)
        damaged.functions.append(damaged.functions[0])
        refused(damaged, "the same domain and name")

    def test_a_call_with_too_many_operands(self):
        damaged = doubling(1)
        damaged.graph.node[0].input.append("x")
        refused(damaged, "takes 1 operands and gives 1 results, the call has 2 and 1")

    def test_an_attribute_of_another_type_than_the_function_uses(self):
        damaged = model(
            '(float[2] x) => (float[2] y) { y = own.f <slope = "steep"> (x) }'
            ' <domain: "own", opset_import: ["": 17]> f <slope> (x) => (y) { y = LeakyRelu <alpha: float = @slope> (x) }'
        )
        refused(damaged, "'slope' cannot be 'steep' in the function", IllTyped)


class TestBehindTheDoor:
    """What only shows when the operator is worked on names the operator."""

    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ("(float[3, 4] x) => (float y) { y = Concat <axis = 9> (x, x) }", "Concat"),
            ("(float[2, 3, 4] x) => (float y) { y = DepthToSpace <blocksize = 0> (x) }", "DepthToSpace"),
            ("(float[3, 4] x, float[4] w) => (float y) { y = Gemm(x, w) }", "Gemm"),
            ("(float[3, 4] x) => (float y, float z) { y, z = Split <axis = 5> (x) }", "Split"),
        ],
    )
    def test_operands_that_do_not_fit(self, text, kind):
        program = og.from_onnx(model(text))
        program.inputs[0].stop_gradient = False
        with pytest.raises(IllTyped, match=rf"^{kind} \(-> y"):
            og.gradients(program.outputs[:1], program.inputs[:1])

    def test_a_rule_that_fails_on_what_fits_names_the_operator_and_keeps_the_cause(self, monkeypatch):
        def broken(op, node, gy):
            raise KeyError("shape")

        monkeypatch.setattr(find_entry(og.from_onnx(relu()).global_block().ops[0]), "function", broken)
        program = og.from_onnx(relu())
        program.inputs[0].stop_gradient = False
        with pytest.raises(RuleError, match=r"Relu \(-> y\): cannot write its gradient \(KeyError: 'shape'\)") as caught:
            og.gradients(program.outputs, program.inputs)
        assert isinstance(caught.value.__cause__, KeyError)

    def test_an_operator_that_its_opset_does_not_have_is_explained(self):
        found = model("(float[2] x) => (y) { y = SequenceMap(x) }", '<ir_version: 8, opset_import: ["": 11]> g ')
        program = og.from_onnx(found)
        assert "SequenceMap" in str(og.explain(program))

    @pytest.mark.parametrize("attributes", ["kernel_shape = [16777216]", "kernel_shape = [5], pads = [2, 2147483647]"])
    def test_a_pool_far_larger_than_the_image_does_not_hang(self, attributes):
        node = f"AveragePool <ceil_mode = 1, count_include_pad = 1, {attributes}> (x)"
        text = f"(float[1, 1, 4] x) => (float[1, 1, W] y) {{ y = {node} }}"
        program = og.from_onnx(model(text, '<ir_version: 10, opset_import: ["": 22]> g '))
        program.inputs[0].stop_gradient = False
        (found,) = og.gradients(program.outputs, program.inputs)
        assert found is not None

    def test_an_empty_result_with_an_axis_that_no_array_has(self):
        node = 'DepthToSpace <blocksize = 2147483647, mode = "DCR"> (x)'
        with pytest.raises(ModelError, match="more than this machine has"):
            og.from_onnx(model(f"(float[64, 8, 2, 3] x) => (y) {{ y = {node} }}"))

    def test_a_size_that_wraps_around_is_unknown(self):
        text = f"(float[2, 3] x) => (y) <int64[1] least = {{{-(2**63)}}}> {{ s = Shape(x)  d = Sub(s, least)  y = ConstantOfShape(d) }}"
        assert og.from_onnx(model(text)).outputs[0].dims == (None, None)

    def test_sizes_are_never_negative(self):
        program = og.from_onnx(
            model("(float[1, 1, 2, 2] x) => (float[A, B, C, D] y) { y = AveragePool <kernel_shape = [9, 9], ceil_mode = 1> (x) }")
        )
        assert all(not isinstance(d, int) or d >= 0 for d in program.outputs[0].dims)

    def test_a_program_whose_last_result_is_large_gets_ones_that_are_computed(self):
        program = og.from_onnx(model("(float[2048, 1024] x) => (float[2048, 1024] y) { y = Sin(x) }"))
        program.inputs[0].stop_gradient = False
        (g,) = og.gradients(program.outputs, program.inputs)
        assert og.to_onnx(program, [g]).ByteSize() < 10_000
        (value,) = og.Executor().run(program, {"x": np.zeros((2048, 1024), np.float32)}, [g])
        np.testing.assert_array_equal(value, np.ones((2048, 1024)))


def test_a_sequence_is_no_array_to_fetch():
    program = og.from_onnx(model("(float[4, 2] x) => (seq(float[2]) s) { s = SplitToSequence <axis = 0> (x) }"))
    with pytest.raises(og.errors.FetchError, match="no tensor"):
        og.Executor().run(program, {"x": np.ones((4, 2), np.float32)}, program.outputs)
