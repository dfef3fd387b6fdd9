"""If and Scan: the gradient of a body is a body that computes forward and then backward."""

from __future__ import annotations

from onnxgrad.autodiff.registry import gradient
from onnxgrad.errors import UnsupportedGradient
from onnxgrad.ir.bodies import as_tuple, finish_body
from onnxgrad.ir.builder import Builder
from onnxgrad.ir.operator import Role
from onnxgrad.ir.traverse import copy_block
from onnxgrad.ir.variable import Variable
from onnxgrad.rules.common import zeros_like
from onnxgrad.rules.segments import scan_in_segments


@gradient("If")
def if_(op, node, *gys):
    """The same If; each branch computes its forward again and the gradients of what it captured, zeros for the rest"""
    wanted = [v for v, is_wanted in zip(node.captures, node.wanted_captures, strict=True) if is_wanted]
    bodies = {}
    for name in ("then_branch", "else_branch"):
        branch, found = node.differentiate_body(node.attr(name), op.block, list(gys), wanted)
        build = Builder(branch, key="zero", role=Role.BACKWARD)
        finish_body(branch, [zeros_like(build, v) if g is None else g for v, g in zip(wanted, found, strict=True)], build)
        bodies[name] = branch
    results = iter(as_tuple(op.If(node.inputs[0], outputs=len(wanted), **bodies)))
    return None, *(next(results) if is_wanted else None for is_wanted in node.wanted_captures)


def _record_states(op, node):
    """Scan, with the states that enter each step as further scan outputs"""
    operator = node.operator
    body, scanned = node.attr("body"), node.attr("num_scan_inputs")
    states = len(operator.inputs) - scanned
    program = op.block.program
    copy = copy_block(body, {}, op.block, lambda v: program.fresh_name(v.name))
    build = Builder(copy, key="tape")
    copy.outputs = [*copy.outputs, *(build.Identity(v) for v in copy.inputs[:states])]
    attrs = dict(operator.attrs, body=copy)
    for name in ("scan_output_axes", "scan_output_directions"):
        if attrs.get(name):
            attrs[name] = [*attrs[name], *[0] * states]
    results = as_tuple(op.emit("Scan", operator.inputs, attrs, outputs=len(body.outputs) + states))
    return results[: len(body.outputs)], results[0].op, results[len(body.outputs) :]


@gradient("Scan", prepare=_record_states, segments=scan_in_segments)
def scan(op, node, *gradients):
    """A Scan from the last step to the first: each step computes its forward again from the recorded states"""
    return _ScanGradient(op, node, gradients).write()


class _ScanGradient:
    """Pieces of a Scan: states first, then scanned inputs; outputs are final states, then stacked values, the tape last.

    The recorded states are stacked values too, so second derivatives come through them.
    """

    def __init__(self, op, node, gradients):
        self.op, self.node = op, node
        self.body, scanned = node.attr("body"), node.attr("num_scan_inputs")
        self.count = len(node.operator.inputs) - scanned
        self.scanned = scanned
        self.stacked = len(node.outputs) - self.count
        self.gradients = list(gradients)
        for v in self.body.inputs:
            if v.type is None:
                raise UnsupportedGradient(f"{node}: the type of {v.name} in its body is unknown. Declare it.")
        self.float_states = [i for i in range(self.count) if self.body.inputs[i].is_float]
        self.wanted_scans = [i for i in range(scanned) if node.wants(self.count + i)]
        self.wanted = [v for v, is_wanted in zip(node.captures, node.wanted_captures, strict=True) if is_wanted]

    def write(self):
        op, node = self.op, self.node
        arriving = [j for j in range(self.stacked) if self.gradients[self.count + j] is not None]
        body = self._body(arriving)
        starts = [self._start(i) for i in self.float_states] + [zeros_like(op, v) for v in self.wanted]
        sequences = [*node.tape, *node.inputs[self.count :], *(self.gradients[self.count + j] for j in arriving)]
        in_dirs = node.attr("scan_input_directions") or [0] * self.scanned
        in_axes = node.attr("scan_input_axes") or [0] * self.scanned
        out_dirs = node.attr("scan_output_directions") or [0] * self.stacked
        out_axes = node.attr("scan_output_axes") or [0] * self.stacked
        results = op.Scan(
            *starts,
            *sequences,
            outputs=len(body.outputs),
            body=body,
            num_scan_inputs=len(sequences),
            scan_input_directions=[1] * self.count + [1 - d for d in in_dirs] + [1 - out_dirs[j] for j in arriving],
            scan_input_axes=[0] * self.count + list(in_axes) + [out_axes[j] for j in arriving],
            **self._output_layout(in_dirs, in_axes),
        )
        return self._distribute(as_tuple(results))

    def _output_layout(self, in_dirs, in_axes):
        if not self.wanted_scans:
            return {}
        return {
            "scan_output_directions": [1 - in_dirs[i] for i in self.wanted_scans],
            "scan_output_axes": [in_axes[i] for i in self.wanted_scans],
        }

    def _start(self, i):
        g = self.gradients[i]
        return zeros_like(self.op, self.node.inputs[i]) if g is None else g

    def _body(self, arriving):
        """Inputs: gradients of the outgoing states, sums so far, then the incoming states, scanned inputs, gradients of outputs"""
        forward, op = self.body, self.op
        program = op.block.program
        shell = program.new_block(op.block, f"{forward.name}_grad")

        def argument(name, like):
            v = Variable(shell, program.fresh_name(f"{name}@GRAD"), like.type)
            shell.inputs.append(shell.register(v))
            return v

        gstates = {i: argument(forward.outputs[i].name, forward.inputs[i]) for i in self.float_states}
        sums = [argument(v.name, v) for v in self.wanted]
        values = [argument(v.name, v) for v in forward.inputs]
        gouts = {j: argument(forward.outputs[self.count + j].name, forward.outputs[self.count + j]) for j in arriving}
        seeds = [gstates.get(i) for i in range(self.count)] + [gouts.get(j) for j in range(self.stacked)]
        found = self.node.differentiate_into(shell, forward, values, seeds, [*forward.inputs, *self.wanted])
        self._finish(shell, values, sums, found)
        return shell

    def _finish(self, shell, values, sums, found):
        build = Builder(shell, key="step", role=Role.BACKWARD)
        gvalues, gcaptured = found[: len(values)], found[len(values) :]
        states = [self._or_zeros(build, gvalues[i], values[i]) for i in self.float_states]
        totals = [t if g is None else build.Add(t, g) for t, g in zip(sums, gcaptured, strict=True)]
        scans = [self._or_zeros(build, gvalues[self.count + i], values[self.count + i]) for i in self.wanted_scans]
        finish_body(shell, [*states, *totals, *scans], build)

    @staticmethod
    def _or_zeros(build, g, like):
        return zeros_like(build, like) if g is None else g

    def _distribute(self, results):
        """Gradients in the order of the node's inputs and captures"""
        states = dict(zip(self.float_states, results, strict=False))
        rest = results[len(self.float_states) :]
        totals = iter(rest[: len(self.wanted)])
        scans = dict(zip(self.wanted_scans, rest[len(self.wanted) :], strict=True))
        inputs = [states.get(i) for i in range(self.count)] + [scans.get(i) for i in range(self.scanned)]
        return *inputs, *(next(totals) if is_wanted else None for is_wanted in self.node.wanted_captures)
