"""Write the gradient of a model as a model: outputs of the original, then one gradient for each name.

examples:
  onnxgrad grad m.onnx -o g.onnx                              gradients of the summed outputs for all weights
  onnxgrad grad m.onnx --of logits --wrt image -o saliency.onnx
  onnxgrad grad m.onnx --of score --wrt features --cotangent -o vjp.onnx    the weights of the sum are an input
"""

from __future__ import annotations

import argparse

from onnxgrad import func
from onnxgrad.cli.common import add_lowering, add_model, load, print_json, shape_text
from onnxgrad.interop.onnx_export import save_onnx


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--of", nargs="+", metavar="OUTPUT", help="outputs or inner tensors to differentiate; all float outputs without it"
    )
    parser.add_argument("--wrt", nargs="+", metavar="NAME", help="inputs, weights or inner tensors; all weights without it")
    parser.add_argument("--cotangent", action="store_true", help="take the weights of the outputs' sum as further inputs")
    add_lowering(parser, "the file")
    parser.add_argument("-o", "--output", required=True, metavar="FILE.onnx", help="file to write")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    derive = func.vjp if options.cotangent else func.value_and_grad
    found = derive(load(options), options.of, options.wrt)
    save_onnx(found.program, options.output, found._fetches, lowering=options.lowering)
    inputs = [{"name": v.name, "type": shape_text(v)} for v in found.program.inputs]
    outputs = [{"name": v.name, "type": shape_text(v)} for v in found._fetches]
    if options.json:
        print_json({"file": options.output, "inputs": inputs, "outputs": outputs})
        return 0
    print(f"wrote {options.output}")
    for kind, entries in (("input", inputs), ("output", outputs)):
        for entry in entries:
            print(f"{kind:<7} {entry['name']}: {entry['type']}")
    return 0
