"""The digits training step gives the same losses without onnxgrad: in plain Python, Node.js, a web page, Java and C#."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
WEB, JAVA, CSHARP = (ROOT / "models" / name for name in ("web", "java", "csharp"))
STEPS = 50
SLOW_STEPS = 8


def run(*command, cwd, environment=None):
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("web")
    run(sys.executable, WEB / "write_files.py", folder, cwd=ROOT, environment={**os.environ, "PYTHONPATH": str(ROOT)})
    return folder


@pytest.fixture(scope="module")
def node():
    program = shutil.which("node")
    if program is None or shutil.which("npm") is None:
        pytest.skip("Node.js is not installed: the training step was not tried in it")
    with (WEB / "package-lock.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may be installing them
        install_packages()
    return program


def install_packages():
    installed = WEB / "node_modules" / ".package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= (WEB / "package-lock.json").stat().st_mtime:
        return
    done = subprocess.run(
        ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=WEB, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"npm could not install the packages of models/web: {done.stderr.strip().splitlines()[-1:]}")


def find_chromium():
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


def check_losses(losses, files, steps=STEPS):
    expected = json.loads((files / "expected.json").read_text())
    assert len(losses) == steps and expected[-1] < 0.2 * expected[0]
    np.testing.assert_allclose(losses, expected[:steps], rtol=1e-4)


@pytest.mark.exhaustive
def test_plain_python_trains_to_the_same_losses(files):
    script = (ROOT / "models" / "digits" / "train_step.py").read_text()
    # Nothing named onnxgrad can be imported in that process.
    blocked = f"import sys; sys.modules['onnxgrad'] = None; sys.argv = ['train_step.py', {str(files)!r}]\n{script}"
    check_losses(json.loads(run(sys.executable, "-c", blocked, cwd=files)), files)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("runtime", "package", "manifest", "steps"),
    [("reference", "onnx", "step", 2), ("openvino", "openvino", "step", 8), ("tract", "tract", "step_webgpu", STEPS)],
)
def test_other_runtimes_train_to_the_same_losses(files, runtime, package, manifest, steps):
    pytest.importorskip(package, reason=f"{package} is not installed: the training step was not tried in it")
    given = ["--runtime", runtime, "--manifest", f"{manifest}.json", "--steps", steps]
    said = run(sys.executable, ROOT / "models" / "digits" / "train_step.py", files, *given, cwd=files)
    check_losses(json.loads(said.splitlines()[-1]), files, steps)


@pytest.mark.exhaustive
def test_node_trains_to_the_same_losses(files, node):
    answer = json.loads(run(node, WEB / "train_node.js", files, STEPS, cwd=WEB))
    check_losses(answer["losses"], files)
    assert answer["accuracy"] > 0.9


@pytest.mark.exhaustive
def test_a_web_page_trains_to_the_same_losses(files, node, tmp_path):
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("no Chromium is installed (set CHROMIUM to one): the training step was not tried in a browser")
    picture = tmp_path / "page.png"
    answer = json.loads(run(node, WEB / "train_browser.js", files, STEPS, chromium, picture, cwd=WEB))
    assert answer["complaints"] == []
    check_losses(answer["losses"], files)
    assert answer["accuracy"] > 0.9 and f"step {STEPS}, loss" in answer["status"]
    assert picture.stat().st_size > 10_000


@pytest.mark.exhaustive
def test_a_web_page_trains_on_webgpu_to_the_same_losses(files, node, tmp_path):
    """On the software adapter of Chromium, which takes seconds for a step."""
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("no Chromium is installed (set CHROMIUM to one): the training step was not tried on WebGPU")
    answer = json.loads(run(node, WEB / "train_browser.js", files, SLOW_STEPS, chromium, tmp_path / "page.png", "webgpu", cwd=WEB))
    if "no WebGPU adapter" in answer.get("error", ""):
        pytest.skip("this Chromium has no software adapter: the training step was not tried on WebGPU")
    check_losses(answer["losses"], files, SLOW_STEPS)


@pytest.mark.exhaustive
def test_java_trains_to_the_same_losses(files, tmp_path):
    """With the jars in ONNXRUNTIME_JAVA, a class path of onnxruntime and Jackson, or else with those that Maven finds."""
    jars = os.environ.get("ONNXRUNTIME_JAVA")
    if shutil.which("javac") is None or (jars is None and shutil.which("mvn") is None):
        pytest.skip("no JDK with Maven is installed: the training step was not tried in Java")
    if jars is not None:
        run("javac", "-cp", jars, "-d", tmp_path, *JAVA.glob("*.java"), cwd=JAVA)
        losses = run("java", "-cp", f"{tmp_path}{os.pathsep}{jars}", "TrainDigits", files, STEPS, cwd=tmp_path)
    else:
        project = shutil.copytree(JAVA, tmp_path / "java", ignore=shutil.ignore_patterns("target"))
        maven = ["mvn", "-q", "-B", "compile", "exec:java", f"-Dexec.args={files} {STEPS}"]
        losses = run_or_skip("Maven", maven, project, ("Could not transfer", "No plugin found", "could not be resolved"))
    check_losses(json.loads(losses), files)


@pytest.mark.exhaustive
def test_csharp_trains_to_the_same_losses(files, tmp_path):
    if shutil.which("dotnet") is None:
        pytest.skip("no .NET SDK is installed: the training step was not tried in C#")
    project = shutil.copytree(CSHARP, tmp_path / "csharp", ignore=shutil.ignore_patterns("bin", "obj"))
    command = ["dotnet", "run", "--project", project, "--", files, STEPS]
    check_losses(json.loads(run_or_skip("NuGet", command, project, ("NU1101", "NU1301"))), files)


def run_or_skip(registry, command, folder, signs):
    """The last line that the command prints; skips if its packages cannot be had."""
    done = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    said = done.stdout + done.stderr
    if done.returncode != 0 and any(sign in said for sign in signs):
        pytest.skip(f"{registry} could not get the packages of models/{folder.name}")
    assert done.returncode == 0, said
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("path", [JAVA / "TrainingStep.java", CSHARP / "TrainingStep.cs"], ids=lambda path: path.suffix)
def test_the_listing_in_the_documents_is_the_program_that_runs(path):
    assert path.read_text() in (ROOT / "docs" / "use" / "other_languages.md").read_text()
