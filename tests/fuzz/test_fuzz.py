"""Some damaged models in the default suite, thousands in CI; see also scripts/fuzz."""

import json

import pytest

from tests.fuzz.driver import Finding, Summary, fuzz, of_mutants
from tests.fuzz.mutate import mutant
from tests.fuzz.seeds import EXTERNAL, EXTERNAL_BYTES, write_seeds
from tests.fuzz.worker import attempt, make, read_seeds

pytestmark = pytest.mark.damaged

pytest.importorskip("resource", reason="the limits of the workers are those of a Unix system")


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    write_seeds(folder, with_official=True)
    (folder / EXTERNAL).write_bytes(EXTERNAL_BYTES)
    return folder


def check(summary):
    assert not summary.findings, summary.table()


@pytest.mark.process
def test_damaged_files_are_refused_or_worked_with(seeds):
    check(fuzz(of_mutants(seeds, seconds=60), 40))


@pytest.mark.process
@pytest.mark.thousands
def test_thousands_of_damaged_files(seeds):
    check(fuzz(of_mutants(seeds, seconds=60), 2800, first=1_000_000, workers=2))


def test_every_seed_is_read_and_can_be_trained(seeds):
    failed, refused, stages = [], [], {}
    for name in read_seeds(seeds)["hand"]:
        outcome = attempt(seeds / f"{name}.onnx")
        stages[name] = {stage for stage, said in outcome.stages.items() if said == "ok"}
        failed += [name] * (outcome.problem is not None)
        refused += [name] * (outcome.stages.get("run of gradients") != "ok")
    assert not failed
    assert refused == []
    assert {"lora", "what was added", "a step", "bytes"} <= stages["surgery"] & stages["trained"] & stages["quantized"]
    assert "training_info" in stages["trained"] & stages["training"]


def test_a_number_is_always_the_same_mutant(seeds):
    groups = read_seeds(seeds)
    assert make(seeds, groups, "key", 7) == make(seeds, groups, "key", 7)
    data = (seeds / "branch.onnx").read_bytes()
    assert len({mutant(data, str(i)) for i in range(20)}) > 15


class TestDriver:
    """What it makes of workers that end without a word."""

    def test_an_end_in_onnxruntime_is_counted_apart(self):
        summary = Summary()
        summary.died(3, "scan", -6, 'Fatal Python error\n  File "/x/onnxgrad/core/runtime/prepared.py", line 147 in run\n')
        summary.died(4, "scan", -11, 'Fatal Python error\n  File "/x/onnxgrad/core/ir/infer.py", line 236 in _infer\n')
        summary.died(5, "scan", 1, 'Timeout (0:00:20)!\n  File "/x/onnxgrad/core/ir/infer.py", line 236 in _infer\n')
        assert [(f.number, f.kind) for f in summary.runtime] == [(3, "abort (-6)")]
        assert [(f.number, f.kind) for f in summary.findings] == [(4, "abort (-11)"), (5, "hang")]

    def test_the_table_names_kinds_places_and_the_slowest(self):
        summary = Summary()
        problem = {"stage": "from_onnx", "type": "KeyError", "at": "core/x.py:1 f", "text": "'body'"}
        summary.add(
            1, "scan", json.loads(json.dumps({"stages": {"from_onnx": "untyped"}, "problem": problem, "took": 2.5, "rule": ""}))
        )
        assert summary.findings == [Finding(1, "scan", "KeyError", "from_onnx: core/x.py:1 f", "'body'")]
        for part in ("1 tried, 1 found wanting", "1  KeyError", "[1 of scan]", "slowest: 2.5 s (1 of scan)"):
            assert part in summary.table()
