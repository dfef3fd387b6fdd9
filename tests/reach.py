"""What each test file executes, recorded; and which tests that makes worth running.

``scripts/record_reach`` runs the default suite and writes tests/data/reach.json: for each test file the modules of onnxgrad of which
it executed a function, in the processes that it starts too, and its test functions whose cases take long. Importing a module does
not count: nearly every test imports all of them. From this follow two selections of the default suite:

    quick      of each function that is neither slow nor starts processes the first case, and one sample of each operator
    changed    quick, and all tests of the files that may notice how the working tree differs from main
"""

import ast
import functools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "onnxgrad"
FILE = ROOT / "tests" / "data" / "reach.json"
NOT_QUICK = ("exhaustive", "thousands", "process", "ranks", "browser")
SLOW = 0.25
"""Seconds from which on a test function is slow: by what its cases compute, on the average."""
FOLDER = os.environ.get("ONNXGRAD_REACH")
"""Where a run records, if it does."""
_CURRENT = "ONNXGRAD_REACH_TEST"
_OPTIMIZED = 1  # CO_OPTIMIZED: the code of a function, not of a module or a class


# Recording -------------------------------------------------------------------------------------------------------------


class Recorder:
    """The files of onnxgrad of which a function is executed, by the test file that is running."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.executed: set[str] = set()
        self.seconds: dict[str, list[float]] = {}
        """By test function, of each case."""

    def start(self) -> None:
        threading.settrace(self._on_call)
        sys.settrace(self._on_call)

    def _on_call(self, frame: Any, event: str, arg: Any) -> None:
        """Called for each new frame; lines are not traced, as this returns None"""
        code = frame.f_code
        if code.co_flags & _OPTIMIZED:
            self.executed.add(code.co_filename)

    def end_of_file(self, test_file: str) -> None:
        """Write what was executed since the last call as that of a test file."""
        prefix = f"{PACKAGE}{os.sep}"
        found = sorted(name.removeprefix(prefix) for name in self.executed if name.startswith(prefix))
        self.executed.clear()
        # Left whole for the next file: one thread may have added to it meanwhile.
        with (self.folder / f"{os.getpid()}.jsonl").open("a") as out:
            out.write(json.dumps({"file": test_file, "modules": found, "seconds": self.seconds}) + "\n")
        self.seconds = {}


def record_this_process() -> None:
    """Of a process that a test started, at its start."""
    import atexit

    if FOLDER and os.environ.get(_CURRENT):
        recorder = Recorder(Path(FOLDER))
        recorder.start()
        atexit.register(recorder.end_of_file, os.environ[_CURRENT])


class RecorderPlugin:
    """The hooks of pytest that tell a recorder which file is running."""

    def __init__(self) -> None:
        self.recorder = Recorder(Path(FOLDER or ""))
        self.file = ""
        self.began = os.times()

    def pytest_runtest_setup(self, item: Any) -> None:
        file = str(item.path.relative_to(ROOT))
        if file != self.file:
            if self.file:
                self.recorder.end_of_file(self.file)
            else:
                self.recorder.start()
            self.file = os.environ[_CURRENT] = file

    def pytest_runtest_logstart(self) -> None:
        self.began = os.times()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        passed = [now - before for now, before in zip(os.times(), self.began, strict=True)]
        # Others may use the processor meanwhile: of the time on the clock an eighth counts.
        taken = max(sum(passed[:4]), passed[4] / 8)
        function = nodeid.partition("::")[2].partition("[")[0]
        self.recorder.seconds.setdefault(function, []).append(round(taken, 3))

    def pytest_sessionfinish(self) -> None:
        sys.settrace(None)
        if self.file:
            self.recorder.end_of_file(self.file)


def join(folder: Path) -> dict[str, Any]:
    """What all processes wrote, as the content of tests/data/reach.json."""
    modules: dict[str, set[str]] = {}
    seconds: dict[str, dict[str, list[float]]] = {}
    for path in folder.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            modules.setdefault(row["file"], set()).update(row["modules"])
            of_file = seconds.setdefault(row["file"], {})
            for name, cases in row["seconds"].items():
                of_file.setdefault(name, []).extend(cases)
    counts = {name: sum(name in executed for executed in modules.values()) for name in set().union(*modules.values())}
    everywhere = {name for name, count in counts.items() if 2 * count > len(modules)}
    files = {
        file: {
            "modules": sorted(executed - everywhere),
            "slow": sorted(name for name, cases in seconds[file].items() if sum(cases) > SLOW * len(cases)),
        }
        for file, executed in sorted(modules.items())
    }
    return {"everywhere": sorted(everywhere), "files": files}


def write(content: dict[str, Any]) -> None:
    """One line for a test file."""
    lines = [f"  {json.dumps(file)}: {json.dumps(entry)}" for file, entry in content["files"].items()]
    text = f'{{"everywhere": {json.dumps(content["everywhere"])},\n "files": {{\n' + ",\n".join(lines) + "\n}}\n"
    written = FILE.with_suffix(".json.partial")
    written.write_text(text)
    written.replace(FILE)


# Selecting -------------------------------------------------------------------------------------------------------------


class Selection:
    """Which tests run, and why."""

    def __init__(self, changed: Iterable[str] | None) -> None:
        content = json.loads(FILE.read_text()) if FILE.exists() else {"files": {}, "everywhere": []}
        self.files = content["files"]
        self.everywhere = set(content["everywhere"])
        self.why = {} if changed is None else self.reached_by(list(changed))
        self._seen: set[Any] = set()

    def keeps(self, item: Any) -> bool:
        """Whether a test runs; asked once of each, in the order of collection."""
        return str(item.path.relative_to(ROOT)) in self.why or self.is_quick(item)

    def is_quick(self, item: Any) -> bool:
        if any(item.get_closest_marker(name) for name in NOT_QUICK):
            return False
        file = str(item.path.relative_to(ROOT))
        function = item.nodeid.partition("::")[2].partition("[")[0]
        if function in self.files.get(file, {}).get("slow", ()):
            return False
        sample = item.callspec.params.get("sample") if hasattr(item, "callspec") else None
        key = (file, function, getattr(sample, "op_type", None))
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def reached_by(self, changed: list[str]) -> dict[str, str]:
        """The test files that may notice changes to these paths, each with a reason."""
        why: dict[str, str] = {}
        for path in changed:
            for file, reason in self._reached_by(path):
                if (ROOT / file).exists():
                    why.setdefault(file, reason)
        return why

    def _reached_by(self, path: str) -> Iterable[tuple[str, str]]:
        everything = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py"))
        if path in ("pyproject.toml", "tests/conftest.py"):
            yield from ((file, f"{path} is read by every test") for file in everything)
        elif path.startswith("tests/") and path.endswith(".py"):
            yield from self._reached_by_test(path, everything)
        elif path.startswith("onnxgrad/"):
            yield from self._reached_by_module(path.removeprefix("onnxgrad/"))
        else:
            # Data, pages, models and scripts: the tests that name the file or the folder that it lies in, unless that is one of all kinds.
            folder = Path(path).parent
            names = {Path(path).name}
            if len(folder.parts) > 1 and not path.endswith(".md"):
                names.add(folder.name)
            for file in everything:
                text = (ROOT / file).read_text()
                found = next((name for name in names if name in text), None)
                if found:
                    yield file, f"names {found}, {path} changed"
            if path.endswith(".md"):
                yield from ((file, f"reads pages, {path} changed") for file in everything if file in _PAGES)

    def _reached_by_test(self, path: str, everything: list[str]) -> Iterable[tuple[str, str]]:
        if path in everything:
            yield path, "changed itself"
        module = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for file in everything:
            if module in _imports_of_tests(ROOT / file):
                yield file, f"imports {path}"

    def _reached_by_module(self, name: str) -> Iterable[tuple[str, str]]:
        found = [(file, f"executes onnxgrad/{name}") for file, entry in self.files.items() if name in entry["modules"]]
        if name in self.everywhere:
            found = [(file, f"onnxgrad/{name} is executed nearly everywhere") for file in self.files]
        if found:
            yield from found
            return
        # No function of it is executed: a table, say. Then whoever names it stands for it.
        stem = Path(name).name if not name.endswith(".py") else Path(name).stem
        for module in sorted(PACKAGE.rglob("*.py")):
            other = str(module.relative_to(PACKAGE))
            if other != name and stem in module.read_text():
                for file, entry in self.files.items():
                    if other in entry["modules"] or other in self.everywhere:
                        yield file, f"executes onnxgrad/{other}, which names {stem}"


_PAGES = ("tests/test_documentation.py", "tests/test_packaging.py")


@functools.cache
def _direct_imports(path: Path) -> frozenset[str]:
    found: set[str] = set()
    text = path.read_text()
    if "import tests" not in text and "from tests" not in text:
        return frozenset()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("tests.")}
    return frozenset(found)


def _imports_of_tests(path: Path) -> set[str]:
    """Modules of the tests that a test file imports, and what these import."""
    found: set[str] = set()
    waiting = [path]
    while waiting:
        new = _direct_imports(waiting.pop()) - found
        found |= new
        waiting += [file for name in new if (file := _file_of(name)) is not None]
    return found


@functools.cache
def _file_of(module: str) -> Path | None:
    path = ROOT / (module.replace(".", "/") + ".py")
    return path if path.exists() else None


def changed_paths() -> list[str]:
    """Paths in which the working tree differs from main, new ones included."""

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    return sorted({*git("diff", "--name-only", "main"), *git("ls-files", "--others", "--exclude-standard")})
