"""The rim of Paddle's surface as Paddle gives it: options, state, constants, distributions, refusals."""

import json
import pickle
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad.errors import ModelError
from tests import paddle_surface as surface
from tests.paddle_suite.test_grid import assert_same

RECORD = json.loads((Path(__file__).parent.parent / "data" / "paddle_surface.json").read_text())

OTHERWISE = {
    "options: layer Embedding frozen": "a weight that is given is a parameter, which the state holds",
    "options: out median": "Paddle's median wants two tensors where there is one result",
    "options: requires_grad fftfreq": "the result is a leaf, as those of other functions that make tensors",
    "refusals: DataLoader": "refused when it is made, not when it is read",
    "refusals: Embedding float": "a TypeError says what is wrong",
    "refusals: GroupNorm": "refused when it is made, not when it is called",
    "refusals: ParamAttr": "refused when it is made",
    "refusals: SGD without parameters": "optimizers of programs have none; step refuses",
    "refusals: len": "Python's own class",
    "refusals: transpose": "an order without all axes is refused",
    "refusals: weight_decay": "refused when it is made",
    "small: a loss without parameters": "a minimize that updates nothing is refused",
    "small: detach shares": "documented: tensors own their values",
    "small: fed lists": "numbers in lists are taken too",
    "small: pad by a tensor": "an int64 tensor is taken too",
    "small: shape*": "shapes print as the lists that they are, as in Paddle up to 3.0",
    "model: no Layer": "a TypeError says what is wrong",
    "distributions: AffineTransform *_log_det": "of the shape of what is transformed",
    "distributions: Geometric kl*": "Paddle's is the divergence of one trial, not of their number",
}
"""Cases of which this library gives another result, with the reason."""


def _cases(section):
    """Cases of a section; of distributions those that Paddle answers, as what it lacks may be there."""
    results = RECORD[section]["results"].items()
    return [
        (name, wanted)
        for name, wanted in results
        if not _otherwise(section, name) and not (section == "distributions" and isinstance(wanted, dict) and "error" in wanted)
    ]


def _otherwise(section, name):
    return any(fnmatch(f"{section}: {name}", pattern) for pattern in OTHERWISE)


def _difference(section, name, wanted, own):
    """What is not as Paddle has it; of a refusal the class, of which ours may be derived."""
    result = surface.outcome(paddle, own[name])
    if isinstance(wanted, dict) and "error" in wanted:
        kinds = result.get("error", []) if isinstance(result, dict) else []
        return None if wanted["error"][0] in kinds else f"{section}: {name}: {result}, wanted {wanted}"
    try:
        _assert_same(result, wanted)
    except AssertionError as error:
        return f"{section}: {name}: {result}, wanted {wanted}: {str(error)[:200]}"
    return None


def _assert_same(result, wanted):
    if isinstance(wanted, list) and wanted and not isinstance(wanted[0], float) and isinstance(result, list):
        assert len(result) == len(wanted)
        for one, other in zip(result, wanted, strict=True):
            _assert_same(one, other)
    elif isinstance(wanted, dict) and isinstance(result, dict):
        assert result.keys() == wanted.keys()
        for key, value in wanted.items():
            _assert_same(result[key], value)
    else:
        assert_same(result, wanted)


@pytest.mark.parametrize("section", [section.__name__ for section in surface.SECTIONS])
def test_each_case_is_as_paddle_has_it(section):
    own = getattr(surface, section)(paddle)
    assert [what for name, wanted in _cases(section) if (what := _difference(section, name, wanted, own))] == []


def test_every_choice_of_another_result_is_needed():
    needed = set()
    for section in RECORD:
        own = getattr(surface, section)(paddle)
        for name, wanted in RECORD[section]["results"].items():
            key = f"{section}: {name}"
            chosen = [pattern for pattern in OTHERWISE if fnmatch(key, pattern)]
            if chosen and _difference(section, name, wanted, own):
                needed.update(chosen)
    assert needed == {*OTHERWISE}


FILES = Path(__file__).parent.parent / "data" / "paddle_files"


def test_a_run_goes_on_from_the_files_that_paddle_wrote():
    expected = json.loads((FILES / "expected.json").read_text())
    with paddle.utils.unique_name.guard():
        net, optimizer = surface.trained(paddle)
    assert net.set_state_dict(paddle.load(FILES / "net.pdparams")) == ([], [])
    optimizer.set_state_dict(paddle.load(FILES / "net.pdopt"))
    np.testing.assert_allclose(surface.train(paddle, net, optimizer, 2), expected["losses"], rtol=1e-5)
    for name, value in paddle.load(FILES / "protocol2.pdparams").items():
        assert value.tolist() == paddle.load(FILES / "net.pdparams")[name].tolist()


def test_other_things_in_a_file_of_paddle():
    loaded = paddle.load(FILES / "nested.pdparams")
    assert [loaded[name] for name in ("epoch", "names", "none", "flag", "rate")] == [3, ["a", ("b", 2)], None, True, 0.5]
    x = json.loads((FILES / "expected.json").read_text())["x"]
    np.testing.assert_allclose(loaded["x"].numpy().reshape(-1), x, rtol=1e-6)
    assert [loaded[name].dtype.name for name in ("x", "half", "short")] == ["float32", "float16", "bfloat16"]
    np.testing.assert_allclose(loaded["short"].astype("float32").numpy().reshape(-1), x, rtol=2**-8)
    assert loaded["net"]["0.weight"].name == "linear_0.w_0"
    assert isinstance(paddle.load(FILES / "net.pdparams", return_numpy=True)["0.bias"], np.ndarray)


class _Outside:
    def __reduce__(self):
        return print, ("run",)


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_that_names_anything_else_is_refused_by_its_name(tmp_path, protocol, capsys):
    for thing, named in ((_Outside(), "print"), ({"a": [_Outside()]}, "print"), ({"f": len}, "len"), ({"p": Path("x")}, "pathlib")):
        (tmp_path / "x.pdparams").write_bytes(pickle.dumps(thing, protocol))
        with pytest.raises(ModelError, match=named):
            paddle.load(tmp_path / "x.pdparams")
    assert capsys.readouterr().out == ""
    whole = pickle.dumps({"a": np.ones(9)}, protocol)
    for cut in (2, 9, len(whole) // 2, len(whole) - 1):
        (tmp_path / "x.pdparams").write_bytes(whole[:cut])
        with pytest.raises(ModelError):
            paddle.load(tmp_path / "x.pdparams")


def test_distributions_in_a_program_are_those_of_tensors():
    log_prob, entropy, divergence, shape = surface.distributions(paddle)["in a program"]()
    normal, other = paddle.distribution.Normal([0.5, 1.0], [1.0, 2.0]), paddle.distribution.Normal(0.0, 1.0)
    _assert_same(log_prob, normal.log_prob(paddle.to_tensor([0.3, 0.3])).tolist())
    _assert_same(entropy, normal.entropy().tolist())
    _assert_same(divergence, normal.kl_divergence(other).tolist())
    assert shape == [3, 2]


@pytest.mark.parametrize(
    "name",
    [
        "Normal",
        "Uniform",
        "LogNormal",
        "Laplace",
        "Gumbel",
        "Exponential",
        "Bernoulli",
        "Geometric",
        "Beta",
        "Gamma",
        "Dirichlet",
        "Poisson",
        "Binomial",
        "StudentT",
        "ContinuousBernoulli",
        "MultivariateNormal",
        "Multinomial",
    ],
)
def test_samples_have_the_mean_and_the_variance_of_their_distribution(name):
    d = paddle.distribution
    made = {
        "Normal": lambda: d.Normal([0.5, -1.0], [1.0, 2.0]), "Uniform": lambda: d.Uniform([0.0, -1.0], [1.0, 2.0]),
        "LogNormal": lambda: d.LogNormal([0.5, -1.0], [0.3, 0.5]), "Laplace": lambda: d.Laplace([0.5, -1.0], [1.0, 2.0]),
        "Gumbel": lambda: d.Gumbel([0.5, -1.0], [1.0, 2.0]), "Exponential": lambda: d.Exponential([0.5, 2.0]),
        "Bernoulli": lambda: d.Bernoulli([0.3, 0.9]), "Geometric": lambda: d.Geometric([0.3, 0.9]),
        "Beta": lambda: d.Beta([0.5, 2.0], [1.0, 3.0]), "Gamma": lambda: d.Gamma([0.4, 2.0], [1.0, 3.0]),
        "Dirichlet": lambda: d.Dirichlet([0.5, 2.0, 1.0]), "Poisson": lambda: d.Poisson([0.5, 7.0]),
        "Binomial": lambda: d.Binomial([5.0, 9.0], [0.3, 0.8]), "StudentT": lambda: d.StudentT([9.0, 12.0], [0.5, -1.0], [1.0, 2.0]),
        "ContinuousBernoulli": lambda: d.ContinuousBernoulli([0.3, 0.9]), "Multinomial": lambda: d.Multinomial(4, [0.3, 0.5, 0.2]),
        "MultivariateNormal": lambda: d.MultivariateNormal([0.5, -1.0], covariance_matrix=[[2.0, 0.3], [0.3, 1.0]]),
    }  # fmt: skip
    paddle.seed(11)
    distribution = made[name]()
    samples = distribution.sample([20000]).numpy()
    mean, deviation = distribution.mean.numpy(), distribution.variance.numpy() ** 0.5
    assert (abs(samples.mean(0) - mean) < 0.04 * deviation).all()  # five deviations of the mean of so many
    assert (abs(samples.std(0) / deviation - 1) < 0.08).all()
