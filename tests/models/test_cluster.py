"""A job script and manifests of a cluster: they are what the page shows, are sound by schema, and do what the page says."""

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]
SCALE = ROOT / "models" / "scale"
SCHEMAS = json.loads((ROOT / "tests" / "data" / "cluster_schemas.json").read_text())


def problems(manifest):
    """What the schema of a manifest's kind refuses"""
    schema = {**SCHEMAS[manifest["kind"]], "$defs": SCHEMAS["$defs"]}
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(manifest)]


@pytest.mark.parametrize(("name", "language"), [("job.sbatch", "bash"), ("mpijob.yaml", "yaml"), ("pytorchjob.yaml", "yaml")])
def test_the_page_shows_the_files(name, language):
    page = (ROOT / "docs" / "use" / "scale_cluster.md").read_text()
    assert f"```{language}\n{(SCALE / name).read_text()}```" in page


@pytest.mark.parametrize("name", ["mpijob.yaml", "pytorchjob.yaml"])
def test_manifests_have_the_fields_of_their_schema(name):
    manifest = yaml.safe_load((SCALE / name).read_text())
    assert problems(manifest) == []
    replicas = next(value for key, value in manifest["spec"].items() if key.endswith("ReplicaSpecs"))
    for one in replicas.values():
        pod = one["template"]["spec"]
        mounted = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            if container["command"][0] == "bash":
                subprocess.run(["bash", "-n", "-c", container["args"][0]], check=True)
                assert "exec " in container["args"][0]
    # Ranks: as many slots as mpirun is told of, and in the other one a rank a pod.
    if manifest["kind"] == "MPIJob":
        assert manifest["spec"]["slotsPerWorker"] * replicas["Worker"]["replicas"] == 16
        assert "mpirun -n 16 " in replicas["Launcher"]["template"]["spec"]["containers"][0]["args"][0]
    else:
        assert {one["template"]["spec"]["containers"][0]["name"] for one in replicas.values()} == {"pytorch"}


def test_a_field_that_is_misspelt_is_found():
    manifest = yaml.safe_load((SCALE / "mpijob.yaml").read_text())
    manifest["spec"]["slotsPerWorkers"] = 4
    manifest["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "32 GB"
    manifest["spec"]["mpiImplementation"] = "mpich"
    assert len(problems(manifest)) == 3


class TestJob:
    """The job script, with stand-ins for the programs of Slurm."""

    @pytest.fixture
    def run(self, tmp_path):
        (tmp_path / "bin").mkdir()
        programs = {
            "srun": 'echo "srun $*" >> "$LOG"; [ -z "${WAITS:-}" ] || { touch "$LOG.runs"; while [ ! -e "$LOG.told" ]; do sleep 0.02; done; }; exit "$CODE"',
            "scontrol": 'echo "scontrol $*" >> "$LOG"',
            "scancel": 'echo "scancel $*" >> "$LOG"; touch "$LOG.told"',
        }
        for name, text in programs.items():
            path = tmp_path / "bin" / name
            path.write_text(f"#!/bin/bash\n{text}\n")
            path.chmod(path.stat().st_mode | stat.S_IEXEC)
        log = tmp_path / "log"

        def start(code, **more):
            environment = {
                **os.environ,
                "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
                "LOG": str(log),
                "CODE": str(code),
                "SLURM_JOB_ID": "7",
                "SLURM_CPUS_PER_TASK": "8",
                **more,
            }
            words = ["bash", str(SCALE / "job.sbatch"), "train.npz", "m.onnx", str(tmp_path / "run")]
            return subprocess.Popen(words, env=environment)

        start.log, start.folder = log, tmp_path / "run"
        return start

    def test_it_is_sound_and_asks_for_what_the_page_says(self):
        subprocess.run(["bash", "-n", SCALE / "job.sbatch"], check=True)
        text = (SCALE / "job.sbatch").read_text()
        asked = [line.removeprefix("#SBATCH --") for line in text.splitlines() if line.startswith("#SBATCH ")]
        assert {"requeue", "open-mode=append", "signal=B:USR1@300"} <= set(asked)
        assert all(word.partition("=")[0] in KNOWN for word in asked)

    @pytest.mark.parametrize(("code", "queued"), [(138, True), (143, True), (75, True), (1, False)])
    def test_it_begins_resumes_and_queues_itself_again(self, run, code, queued):
        assert run(code).wait(30) == code
        begun = run.log.read_text()
        assert "onnxgrad train m.onnx --data train.npz" in begun and "--threads 8 --checkpoint-every 500" in begun
        assert ("scontrol requeue 7" in begun) is queued
        run.folder.mkdir()
        (run.folder / "settings.json").write_bytes(b"")
        assert run(0).wait(30) == 0
        assert not run.folder.exists() and len(list(run.folder.parent.glob("run.begun-*/settings.json"))) == 1
        run.folder.mkdir()
        (run.folder / "last.safetensors").write_bytes(b"")
        run.log.unlink()
        assert run(0).wait(30) == 0
        # onnxgrad refuses settings beside --resume.
        assert run.log.read_text().splitlines() == [f"srun --mpi=pmix --kill-on-bad-exit=1 onnxgrad train --resume {run.folder}"]

    def test_a_warning_of_the_time_limit_is_passed_on(self, run):
        process = run(138, WAITS="1")
        while not Path(f"{run.log}.runs").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGUSR1)
        assert process.wait(30) == 138
        lines = run.log.read_text().splitlines()
        assert lines[1:] == ["scancel --signal=USR1 7.0", "scontrol requeue 7"]


KNOWN = {"job-name", "nodes", "ntasks-per-node", "cpus-per-task", "time", "requeue", "open-mode", "signal"}
"""Of the options of sbatch, those that the script uses."""
