"""The command that starts ranks, on one machine and on several."""

import subprocess
import sys

import pytest

from onnxgrad.distributed.launch import Host, command_of, family_of, hosts_of, main
from onnxgrad.errors import ArgumentError, ProviderError
from tests.distributed.ranks import ROOT, needs_mpi

VERSIONS = {
    "HYDRA build details:\n    Version:                                 5.0.2": "MPICH",
    "Intel(R) MPI Library for Linux* OS, Version 2021.12 Build 20240213": "MPICH",
    "mpiexec (OpenRTE) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/": "Open MPI",
    "mpirun (Open MPI) 5.0.3": "Open MPI",
    "mpiexec (PRRTE) 3.0.5": "Open MPI",
}
MPICH, _, _, OPEN_MPI, _ = VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_an_mpiexec_says_whose_it_is(version):
    assert family_of(version) == VERSIONS[version]


def test_an_mpiexec_of_nobody_is_refused():
    with pytest.raises(ProviderError, match=r"it says 'mpiexec of a vendor'\. Start it by hand, without --hosts"):
        family_of("mpiexec of a vendor\nmore\n")


def test_hosts_are_a_list_or_a_file(tmp_path):
    assert hosts_of("node1, 10.0.0.2:4") == [Host("node1"), Host("10.0.0.2", 4)]
    (tmp_path / "hosts").write_text("# the rack\nnode1\nnode2:4  # large\n\nnode3 slots=2 max_slots=4\n")
    assert hosts_of(str(tmp_path / "hosts")) == [Host("node1"), Host("node2", 4), Host("node3", 2)]
    for text, entry in (("no/such/file", "no/such/file"), ("a,,b", ""), ("a:b", "a:b")):
        with pytest.raises(ArgumentError, match=f"--hosts: {entry!r} is no machine. Write node1,node2:4, or the path"):
            hosts_of(text)
    with pytest.raises(ArgumentError, match="names no machine with a rank"):
        hosts_of("a:0")


@pytest.mark.parametrize(
    ("version", "arguments", "options"),
    [
        (MPICH, ["-n", "4", "s.py"], ["-n", "4"]),
        (MPICH, ["-n", "4", "--hosts", "a,b:2", "s.py"], ["-hosts", "a:4,b:2", "-n", "6"]),
        (
            OPEN_MPI,
            ["-n", "4", "--hosts", "a,b:2", "s.py"],
            ["--host", "a:4,b:2", "-n", "6", "--bind-to", "none", "-x", "PYTHONPATH"],
        ),
    ],
)
def test_the_command_has_the_options_of_its_mpiexec(monkeypatch, version, arguments, options):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    command = command_of(arguments, lambda _: version)
    assert command[1:] == [*options, sys.executable, "-m", "mpi4py", "s.py"]
    assert command[0].endswith("mpiexec")


def test_a_wrong_list_of_hosts_is_one_line(capsys):
    assert main(["--hosts", "no/such/file", "s.py"]) == 1
    assert capsys.readouterr().err.startswith("error: --hosts: 'no/such/file' is no machine.")


@needs_mpi
@pytest.mark.ranks
def test_ranks_start_on_a_host_that_is_named():
    command = [
        sys.executable,
        "-m",
        "onnxgrad.distributed.launch",
        "-n",
        "2",
        "--hosts",
        "localhost",
        "-m",
        "tests.distributed.hello",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert sorted(done.stdout.split()) == ["0/2", "1/2"]
