"""Options, selections and summaries of all tests."""

import os
import subprocess
import zlib
from collections import Counter

import pytest

from onnxgrad.internal import state
from tests import oracle, reach
from tests.cli.command import IN_PROCESSES
from tests.waiting import sleep_between_runs

# Graphs are checked after each pass, in the processes that tests start, too.
os.environ.setdefault("ONNXGRAD_VERIFY", "1")
sleep_between_runs()

_COUNTS = pytest.StashKey[Counter]()


@pytest.fixture(autouse=True)
def fresh_state(request, monkeypatch):
    """Every test starts with new default programs, names and scope, and draws the same numbers in each run."""
    if request.node.get_closest_marker("damaged"):
        monkeypatch.setenv("ONNXGRAD_VERIFY", "0")
    with state.isolated():
        state.seed(zlib.crc32(request.node.nodeid.encode()))
        yield


def pytest_addoption(parser):
    group = parser.getgroup("onnxgrad")
    group.addoption("--quick", action="store_true", help="one case of each function that is fast and starts no process")
    group.addoption("--progress", action="store_true", help="a line for each file: how many tests of how many have run")
    group.addoption("--changed", action="store_true", help="those, and all that may notice how the working tree differs from main")


def pytest_configure(config):
    config.stash[_COUNTS] = Counter()
    if config.getoption("--progress") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config))
    if reach.FOLDER and not hasattr(config, "workerinput") and config.getoption("numprocesses", None):
        return  # the workers record
    if reach.FOLDER:
        config.pluginmanager.register(reach.RecorderPlugin())


class Progress:
    """A line for each file, in place of a dot for each test."""

    def __init__(self, config):
        self.config = config
        self.done, self.total = 0, 0
        self.files = set()

    def pytest_collection_finish(self, session):
        self.total = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids):
        self.total = len(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report):
        return ("passed", "", "") if report.passed and report.when == "call" else None

    def pytest_runtest_logreport(self, report):
        file = report.nodeid.partition("::")[0]
        if report.when == "setup" and file not in self.files:
            self.files.add(file)
            terminal = self.config.pluginmanager.get_plugin("terminalreporter")
            terminal.ensure_newline()
            terminal.write_line(f"{self.done:6} of {self.total}  {file}")
        self.done += report.when == "teardown"


# Which tests run -------------------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    _leave_some_to_the_exhaustive_suite(items)
    for item in items:
        if "open_page" in item.fixturenames:
            item.add_marker(pytest.mark.browser)
    quick, changed = config.getoption("--quick"), config.getoption("--changed")
    if quick or changed:
        selection = reach.Selection(reach.changed_paths() if changed else None)
        kept = [item for item in items if selection.keeps(item)]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept
    if hasattr(config, "workerinput"):
        items.sort(key=_weight_of_file(items))


def _weight_of_file(items):
    """A key by which files that take long come first: of files that end a run, one worker alone would wait for the last."""
    slow = {(file, function) for file, entry in reach.Selection(None).files.items() for function in entry["slow"]}
    weights = Counter()
    for item in items:
        file, _, name = item.nodeid.partition("::")
        in_processes = any(item.get_closest_marker(marker) for marker in _START_PROCESSES)
        weights[item.path] += 40 if in_processes else 20 if (file, name.partition("[")[0]) in slow else 1
    return lambda item: -weights[item.path]


def _leave_some_to_the_exhaustive_suite(items):
    """Of a function marked ``one_in(n)`` the default suite runs every n-th case."""
    seen = Counter()
    for item in items:
        marker = item.get_closest_marker("one_in")
        if marker is not None:
            function = item.nodeid.partition("[")[0]
            if seen[function] % marker.args[0]:
                item.add_marker(pytest.mark.exhaustive)
            seen[function] += 1


def pytest_sessionstart(session):
    """Say why each file is in; the header of pytest is left out where it is quiet."""
    config = session.config
    if not config.getoption("--changed") or hasattr(config, "workerinput"):
        return
    why = reach.Selection(reach.changed_paths()).why
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    terminal.write_line(f"changed: the quick tests, and all of {len(why)} files")
    for file, reason in sorted(why.items()):
        terminal.write_line(f"  {file}: {reason}")


# Which tests start processes -------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True, scope="session")
def processes_are_announced():
    """A test that starts a process says so by a marker, as suites are chosen by it."""
    if IN_PROCESSES:
        yield
        return
    start = subprocess.Popen.__init__

    def checked(self, command, *arguments, **options):
        # matplotlib asks once on each machine which fonts there are, in whichever test draws first.
        allowed = _RUNNING["starts processes"] or (isinstance(command, list) and command[0] == "fc-list")
        assert allowed, "this test starts a process: mark it pytest.mark.process, ranks or browser"
        return start(self, command, *arguments, **options)

    subprocess.Popen.__init__ = checked
    yield
    subprocess.Popen.__init__ = start


_START_PROCESSES = ("process", "ranks", "browser")
_RUNNING = {"starts processes": True}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    _RUNNING["starts processes"] = any(item.get_closest_marker(name) for name in _START_PROCESSES)
    try:
        return (yield)
    finally:
        _RUNNING["starts processes"] = True


# What the oracle counted, in this process and in the workers -----------------------------------------------------------


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    node.config.stash[_COUNTS].update(getattr(node, "workeroutput", {}).get("oracle", {}))


def pytest_sessionfinish(session):
    counts = oracle.end_of_process()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["oracle"] = counts
    else:
        session.config.stash[_COUNTS].update(counts)


def pytest_terminal_summary(terminalreporter, config):
    counts = config.stash[_COUNTS]
    if sum(counts.values()):
        terminalreporter.write_line("oracle: " + ", ".join(f"{number} {what}" for what, number in counts.items()))
