"""The cores that a process may use, by binding and by quota."""

import os

import pytest

from onnxgrad.internal import processors
from onnxgrad.internal.processors import core_quota, group_of_process, usable_cores

SYSTEMS = {
    "version 2": ("0::/job/step\n", {"sys/fs/cgroup/job/step/cpu.max": "150000 100000\n"}, 1.5),
    "version 2, a group around it": (
        "0::/job/step\n",
        {"sys/fs/cgroup/job/step/cpu.max": "max 100000\n", "sys/fs/cgroup/job/cpu.max": "300000 100000\n"},
        3.0,
    ),
    "version 2, in a container": ("0::/\n", {"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5),
    "version 2, no limit": ("0::/job\n", {"sys/fs/cgroup/job/cpu.max": "max 100000\n"}, None),
    "version 1": (
        "3:memory:/other\n2:cpu,cpuacct:/job\n",
        {"sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "400000\n", "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n"},
        4.0,
    ),
    "version 1, under the path that it has outside": (
        "2:cpu,cpuacct:/kubepods/pod7\n",
        {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000\n", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n"},
        2.0,
    ),
    "version 1, no limit": ("2:cpu:/\n", {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n"}, None),
    "no groups": ("", {}, None),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_quota_is_the_least_of_all_groups_around_a_process(tmp_path, name):
    groups, limits, quota = SYSTEMS[name]
    for path, text in {"proc/self/cgroup": groups, **limits}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert core_quota(tmp_path) == quota
    assert group_of_process(tmp_path) == (groups.splitlines() or [""])[-1].rpartition(":")[2]


def test_cores_are_those_that_the_process_is_bound_to_and_has_time_of(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 4, 5, 6}, raising=False)
    for quota, cores in ((None, 4), (8.0, 4), (2.5, 2), (0.5, 1)):
        monkeypatch.setattr(processors, "core_quota", lambda quota=quota: quota)
        assert usable_cores() == cores
