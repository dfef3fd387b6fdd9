"""Cases recorded from real Paddle: how they are read, built with this package, run and compared.

``python -m tests.paddle_cases`` prints how many pass, and which missing functions keep how many from passing.
"""

import json
import operator
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.internal import state

FOLDER = Path(__file__).parent / "data" / "paddle_cases"
# Relative and absolute; Paddle's own versions agree to 3e-4 and 3e-5. Several steps of training carry errors along.
TOLERANCES = {"train": (1e-3, 1e-4)}
STRICT = (2e-4, 2e-5)


class MissingFunction(Exception):
    """A case calls something that this package does not have."""


class Disagreement(AssertionError):
    """A value, name or shape is not the recorded one."""


class Case:
    """One recorded case: what to do, what Paddle returned, and the arrays."""

    def __init__(self, name, entry, arrays):
        self.id = name
        self.spec, self.expect, self.arrays = entry["case"], entry["expect"], arrays
        self.kind = self.spec["kind"]

    def __repr__(self):
        return self.id

    def group(self, prefix):
        """The arrays whose key starts with ``prefix/``, by the rest of the key."""
        return {key.removeprefix(f"{prefix}/"): value for key, value in self.arrays.items() if key.startswith(f"{prefix}/")}


@cache
def load():
    """All cases by id."""
    manifest = json.loads((FOLDER / "manifest.json").read_text())
    arrays = {}
    with np.load(FOLDER / "data.npz") as data:
        for key in data.files:
            name, rest = key.split("/", 1)
            arrays.setdefault(name, {})[rest] = data[key]
    return {name: Case(name, entry, arrays.get(name, {})) for name, entry in manifest["cases"].items()}


# Building ----------------------------------------------------------------------------------------------------------------


def resolve(call):
    """The function that a recorded call names, such as ``F.relu``."""
    root, _, path = call.partition(".")
    found = {"paddle": paddle, "F": paddle.nn.functional, "nn": static.nn, "operator": operator}[root]
    for part in path.split("."):
        if not hasattr(found, part):
            raise MissingFunction(call)
        found = getattr(found, part)
    return found


class Interpreter:
    """Carries out the calls of a case; ``values`` holds the results by name."""

    def __init__(self, values):
        self.values = dict(values)

    def run(self, ops):
        for op in ops:
            result = self.call(op)
            names = op["out"]
            if isinstance(names, list):
                results = list(result) if isinstance(result, (list, tuple)) else [result]
                self.values.update(zip(names, results, strict=True))
            else:
                self.values[names] = result

    def value(self, recorded):
        """What a recorded argument stands for."""
        if isinstance(recorded, str):
            return self.values[recorded[1:]] if recorded.startswith("$") else recorded
        if isinstance(recorded, list):
            return [self.value(item) for item in recorded]
        if isinstance(recorded, dict):
            ((kind, content),) = recorded.items()
            return self.make(kind, content)
        return recorded

    def make(self, kind, content):
        """The object that a dictionary of one key describes."""
        if kind == "names":
            return lambda parameter: getattr(parameter, "name", parameter) in content
        if kind == "const":
            return content
        if kind == "slice":
            return slice(*content)
        if kind == "none":
            return None
        homes = {"ParamAttr": paddle, "L1Decay": paddle.regularizer, "L2Decay": paddle.regularizer}
        home = paddle.optimizer.lr if kind.startswith("lr.") else homes.get(kind, paddle.nn)
        maker = getattr(home, kind.removeprefix("lr."), None)
        if maker is None:
            raise MissingFunction(kind)
        if isinstance(content, dict):
            return maker(**{key: self.value(item) for key, item in content.items()})
        return maker(*content) if isinstance(content, list) else maker(content)

    def branch(self, recorded):
        """A function without arguments that carries out the calls of a branch."""

        def run():
            inner = Interpreter(self.values)
            inner.run(recorded["ops"])
            results = [inner.values[name.removeprefix("$")] for name in recorded["ret"]]
            return results[0] if len(results) == 1 else results

        return run

    def body(self, recorded, names):
        def run(*variables):
            inner = Interpreter({**self.values, **dict(zip(names, variables, strict=True))})
            inner.run(recorded["ops"])
            results = [inner.values[name.removeprefix("$")] for name in recorded["ret"]]
            return results[0] if len(results) == 1 else results

        return run

    def call(self, op):
        kind = op["call"]
        if kind in ("cond", "while_loop", "switch_case", "case"):
            return self.control(kind, op)
        if kind == "gradients":
            inputs = [self.values[name.removeprefix("$")] for name in op["inputs"]]
            return static.gradients([self.values[name.removeprefix("$")] for name in op["targets"]], inputs)
        args = [self.value(item) for item in op["args"]]
        kwargs = {key: self.value(item) for key, item in op["kwargs"].items()}
        if kind == "getitem":
            return args[0][tuple(kwargs["index"])]
        if kind == "method":
            if not hasattr(args[0], args[1]):
                raise MissingFunction(f"Variable.{args[1]}")
            return getattr(args[0], args[1])(*args[2:], **kwargs)
        if kind == "set_stop_gradient":
            args[0].stop_gradient = args[1] if len(args) > 1 else kwargs.get("value", True)
            return args[0]
        return resolve(kind)(*args, **kwargs)

    def control(self, kind, op):
        function = resolve(f"nn.{kind}")
        if kind == "cond":
            return function(self.value(op["pred"]), self.branch(op["true"]), self.branch(op["false"]))
        if kind == "while_loop":
            names = op["names"]
            return function(self.body(op["cond"], names), self.body(op["body"], names), self.value(op["vars"]))
        default = self.branch(op["default"]) if op.get("default") else None
        if kind == "switch_case":
            branches = {branch["key"]: self.branch(branch) for branch in op["branches"]}
            return function(self.value(op["index"]), branches, default)
        pairs = [(self.value(branch["pred"]), self.branch(branch)) for branch in op["branches"]]
        return function(pairs, default)


def build(case):
    """The interpreter after the forward part of a static case."""
    values = {}
    for entry in case.spec["data"]:
        variable = static.data(entry["name"], entry.get("static_shape", entry["shape"]), entry["dtype"])
        variable.stop_gradient = entry["stop_gradient"]
        values[entry["name"]] = variable
    for entry in case.spec["params"]:
        attr = paddle.ParamAttr(name=entry["name"], trainable=entry["trainable"])
        values[entry["name"]] = paddle.create_parameter(entry["shape"], entry["dtype"], attr=attr)
    interpreter = Interpreter(values)
    interpreter.run(case.spec["ops"])
    return interpreter


# Running and comparing ---------------------------------------------------------------------------------------------------


def same(what, found, wanted):
    if found != wanted:
        raise Disagreement(f"{what}: {found}, recorded {wanted}")


def close(case, what, found, wanted):
    found = np.asarray(found)
    same(f"shape of {what}", found.shape, wanted.shape)
    same(f"dtype of {what}", found.dtype, wanted.dtype)
    rtol, atol = TOLERANCES.get(case.kind, STRICT)
    if not np.allclose(found, wanted, rtol=rtol, atol=atol, equal_nan=True):
        difference = np.max(np.abs(found.astype(np.float64) - wanted))
        raise Disagreement(f"{what} differs by {difference:.3g}:\n{found}\nrecorded\n{wanted}")


def named(v):
    return None if v is None else v.name


def started(case):
    """An executor whose scope holds the recorded parameters."""
    executor = static.Executor(paddle.CPUPlace())
    executor.run(static.default_startup_program())
    program = static.default_main_program()
    if "param_names" in case.expect:
        same("parameters", [p.name for p in program.all_parameters()], case.expect["param_names"])
    for name, value in case.group("param").items():
        program.find(name).set_value(value)
    return executor


def fetch_and_compare(case, executor, wanted):
    """Run once and compare ``{array key: variable}``; then the persistable state that the run left."""
    wanted = {key: v for key, v in wanted.items() if key in case.arrays}
    found = executor.run(feed=case.group("in"), fetch_list=list(wanted.values()))
    for (key, _), value in zip(wanted.items(), found, strict=True):
        close(case, key, value, case.arrays[key])
    for name, value in case.group("after").items():
        close(case, f"after/{name}", static.default_main_program().find(name).get_value(), value)


def check_gradients(case):
    interpreter, spec = build(case), case.spec
    targets, inputs = ([interpreter.values[name.removeprefix("$")] for name in spec[key]] for key in ("targets", "inputs"))
    seeds = spec.get("target_gradients")
    if seeds is not None:
        seeds = [None if name is None else interpreter.values[name.removeprefix("$")] for name in seeds]
    found = static.gradients(targets, inputs, seeds, interpreter.value(spec.get("no_grad_set")))
    # Where only newer versions of Paddle compute a case, no names were recorded.
    if "returned" in case.expect:
        same("returned", [named(g) for g in found], case.expect["returned"])
    executor = started(case)
    fetches = {f"grad/{name}": g for name, g in zip(spec["inputs"], found, strict=True) if g is not None}
    fetches |= {f"out/{name}": v for name, v in interpreter.values.items() if isinstance(v, static.Variable)}
    fetch_and_compare(case, executor, fetches)


def check_append_backward(case):
    interpreter, spec = build(case), case.spec
    losses = spec.get("losses") or [spec["loss"]] * spec.get("times", 1)
    fetches = {"loss": interpreter.values[losses[0].removeprefix("$")]}
    returned, infos = [], []
    for call, loss in enumerate(losses):
        pairs = static.append_backward(
            interpreter.values[loss.removeprefix("$")],
            parameter_list=interpreter.value(spec.get("parameter_list")),
            no_grad_set=interpreter.value(spec.get("no_grad_set")),
            checkpoints=[interpreter.values[name.removeprefix("$")] for name in spec.get("checkpoints", [])] or None,
        )
        returned.append([[p.name, named(g)] for p, g in pairs])
        infos.append(
            [{key: info_of(g)[key] for key in ("name", "shape", "dtype", "stop_gradient", "persistable")} for _, g in pairs]
        )
        prefix = "grad" if len(losses) == 1 else f"grad{call}"
        fetches |= {f"{prefix}/{p.name}": g for p, g in pairs}
    same("returned", returned, case.expect["returned"])
    same("gradients", infos, case.expect["grad_info"])
    fetches |= {f"out/{name}": v for name, v in interpreter.values.items() if isinstance(v, static.Variable)}
    fetch_and_compare(case, started(case), fetches)


def info_of(g):
    return {
        "name": g.name,
        "shape": list(g.shape),
        "dtype": g.dtype.name,
        "stop_gradient": g.stop_gradient,
        "persistable": g.persistable,
    }


def check_train(case):
    interpreter, spec = build(case), case.spec
    loss, steps = interpreter.values[spec["loss"].removeprefix("$")], spec["steps"]
    call = spec["optimizer"]["call"]
    maker = getattr(paddle.optimizer, call, None)
    if maker is None:
        raise MissingFunction(f"optimizer.{call}")
    arguments = {key: interpreter.value(item) for key, item in spec["optimizer"]["kwargs"].items()}
    optimizer = maker(**arguments)
    _, pairs = optimizer.minimize(loss)
    same("returned", [[p.name, g.name] for p, g in pairs], case.expect["returned"][1])
    executor, program = started(case), static.default_main_program()
    persistable = [v.name for v in program.list_vars() if v.persistable and not isinstance(v, static.Parameter)]
    same("state", persistable, case.expect["state_names"])
    for name, value in case.group("state0").items():
        close(case, f"state0/{name}", program.find(name).get_value(), value)
    losses, rates = [], []
    for step in range(1, steps + 1):
        rates.append(optimizer.get_lr())
        losses.append(executor.run(feed=case.group("in"), fetch_list=[loss])[0])
        for name, value in case.group(f"step{step}").items():
            close(case, f"step{step}/{name}", program.find(name).get_value(), value)
        if hasattr(arguments["learning_rate"], "step"):
            arguments["learning_rate"].step()
    close(case, "losses", np.array(losses, case.arrays["losses"].dtype), case.arrays["losses"])
    close(case, "lrs", np.array(rates, case.arrays["lrs"].dtype), case.arrays["lrs"])
    for name, value in case.group("state").items():
        close(case, f"state/{name}", program.find(name).get_value(), value)


def check_dygraph(case):
    spec = case.spec
    to_tensor, backward = resolve("paddle.to_tensor"), resolve("paddle.autograd.backward")
    values = {}
    for entry in spec["data"]:
        array = case.arrays[f"in/{entry['name']}"]
        values[entry["name"]] = to_tensor(array, dtype=entry["dtype"], stop_gradient=entry["stop_gradient"])
    interpreter = Interpreter(values)
    interpreter.run(spec["ops"])
    values = interpreter.values
    for name in spec.get("retain_grads", ()):
        values[name].retain_grads()
    for hook in spec.get("hooks", ()):
        values[hook["on"]].register_hook(lambda g, factor=hook["scale"]: g * factor)
    for number, action in enumerate(spec["actions"]):
        for name in action.get("clear", ()):
            values[name].clear_grad()
        if "backward" not in action:
            continue
        seeds = action.get("grads")
        seeds = None if seeds is None else [None if name is None else values[name] for name in seeds]
        backward([values[name] for name in action["backward"]], seeds, action.get("retain", False))
        for name in action["read"]:
            grad = values[name].grad
            same(f"{number}/{name} is None", grad is None, case.expect["grad_is_none"][f"{number}/{name}"])
            if grad is not None:
                close(case, f"grad@{number}/{name}", grad.numpy(), case.arrays[f"grad@{number}/{name}"])


CHECKS = {
    "gradients": check_gradients,
    "append_backward": check_append_backward,
    "train": check_train,
    "dygraph": check_dygraph,
}


def check(case):
    """Build, run and compare one case in a fresh state.

    Raises:
        MissingFunction: if the package lacks something that the case calls.
        Disagreement: if a value, name or shape differs.
    """
    outer, state.current = state.current, state.State()
    state.current.static_mode = case.kind != "dygraph"
    try:
        CHECKS[case.kind](case)
    finally:
        state.current = outer


def main(pattern=""):
    missing, failed, passed = Counter(), {}, 0
    for case in load().values():
        if pattern not in case.id:
            continue
        try:
            check(case)
            passed += 1
        except MissingFunction as error:
            missing[str(error)] += 1
        except Exception as error:
            failed[case.id] = f"{type(error).__name__}: {error}"
    for name, error in failed.items():
        print(f"{name}: {error[:300]}")
    for name, count in missing.most_common():
        print(f"{count:4} wait for {name}")
    print(f"{passed} passed, {len(failed)} failed, {sum(missing.values())} wait for a missing function")


if __name__ == "__main__":
    main(*sys.argv[1:])
