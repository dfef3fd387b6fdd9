"""Ranks that run the models of a split step by plain onnxruntime, as a caller in any language does."""

import numpy as np
import onnx
import onnxruntime


def stored(manifest, folder):
    """The first values of a manifest's files"""
    content = (folder / manifest["values"]).read_bytes()
    entries = [entry for part in (manifest["gradients"], manifest["apply"]) for entry in part["state"] + part["constants"]]
    return {
        e["name"]: np.frombuffer(content, e["dtype"], np.prod(e["shape"], dtype=int), e["offset"]).reshape(e["shape"])
        for e in entries
    }


def inputs_of(part):
    return [entry["name"] for kind in ("feeds", "state", "constants") for entry in part[kind]]


class Ranks:
    """All ranks of one step, one after the other; what they exchange is added up here."""

    def __init__(self, first, second, manifest, count, state=None):
        first = first if isinstance(first, list) else [first]
        self.manifest = manifest
        for model in [*first, second]:
            onnx.checker.check_model(model, full_check=True)
        if state is None:
            state = {t.name: onnx.numpy_helper.to_array(t) for model in [*first, second] for t in model.graph.initializer}
        self.states = [dict(state) for _ in range(count)]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        opened = [onnxruntime.InferenceSession(m.SerializeToString(), options) for m in (*first, second)]
        *self.first, self.second = opened

    def gradients(self, feeds):
        """What the first part gives on each rank, state replaced"""
        part = self.manifest["gradients"]
        values = [{**state, **given} for state, given in zip(self.states, feeds, strict=True)]
        for session, stage in zip(self.first, part.get("stages", [{}]), strict=True):
            names = stage.get("inputs") or inputs_of(part)
            for own in values:
                own.update(zip([o.name for o in session.get_outputs()], session.run(None, {n: own[n] for n in names}), strict=True))
            for entry in stage.get("reduce", ()):
                total = np.asarray(sum(own[entry["output"]] for own in values))
                for own in values:
                    own[entry["input"]] = total
        for state, own in zip(self.states, values, strict=True):
            state.update({entry["input"]: own[entry["output"]] for entry in part["state"]})
        return values

    def together(self, values, entry):
        """One entry of the exchange"""
        name, kind = entry["gradient"], entry.get("reduction", self.manifest["reduction"])
        if kind == "same":
            return values[0][name]
        if kind == "sum":
            return np.asarray(sum(own[name] for own in values))
        weighed = [(own[self.manifest["weight"]], own[name]) for own in values if own[self.manifest["weight"]]]
        return sum(w * v for w, v in weighed) / sum(w for w, _ in weighed)

    def apply(self, values):
        exchanged = {entry["gradient"]: self.together(values, entry) for entry in self.manifest["exchange"]}
        for state in self.states:
            held = {name: state[name] for name in inputs_of(self.manifest["apply"]) if name not in exchanged}
            names = [o.name for o in self.second.get_outputs()]
            results = dict(zip(names, self.second.run(None, {**held, **exchanged}), strict=True))
            state.update({entry["input"]: results[entry["output"]] for entry in self.manifest["apply"]["state"]})
            state.update({name: np.zeros_like(state[name]) for name in self.manifest["accumulated"]})

    def step(self, feeds):
        """One step of all ranks; gives what the first part returned on each"""
        values = self.gradients(feeds)
        self.apply(values)
        return values
