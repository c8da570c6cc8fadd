"""The choice of the core that a server runs on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shiftboss.server.fast_path import serving
from shiftboss.server.fast_path.core_affinity import (
    _seconds_used,
    choose,
    has_quota,
    nearest_core,
    usable_cores,
)
from shiftboss.server.fast_path.serving import fast_serving
from shiftboss.server.http.open_connections import ConnectionLimits, OpenConnections
from shiftboss.server.settings import CpuUse
from tests.in_process import InProcessServer

CORES = usable_cores()
BURNED_SECONDS = 0.3
BURN = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
while time.process_time() < float(sys.argv[2]): pass
"""


@pytest.mark.parametrize(
    ("others", "core", "best", "chosen"),
    [
        pytest.param({0: 0.0, 1: 0.1}, 1, 1, 1, id="it stays on the best one"),
        pytest.param({0: 0.0, 1: 0.9}, 1, 1, 0, id="one that others need is left"),
        pytest.param({0: 0.0, 1: 0.1}, 0, 1, 1, id="it comes back to the best one"),
        pytest.param({0: 0.0, 1: 0.1}, 0, None, 0, id="which must have been free for a while"),
        pytest.param({0: 0.0, 1: 0.9}, 0, 1, 0, id="and still be"),
        pytest.param({0: 0.9, 1: 0.8, 2: 0.7}, 0, 1, 2, id="all are needed: the least"),
        pytest.param({0: 0.5, 1: 0.0}, 0, None, 1, id="none is best: it leaves a needed one"),
        pytest.param({0: 0.0, 1: 0.1}, None, 1, 1, id="it was everywhere: the best"),
        pytest.param({0: 0.0, 1: 0.5}, None, 1, 0, id="it was everywhere: a free one"),
    ],
)
def test_the_choice_of_a_core(
    others: dict[int, float], core: int | None, best: int | None, chosen: int
) -> None:
    assert choose(others, core, best) == chosen


@pytest.mark.skipif(len(CORES) < 2, reason="there is no second core, or cores cannot be chosen")
def test_after_the_measurement_all_cores_are_usable_again(tmp_path: Path) -> None:
    assert nearest_core(tmp_path, CORES) in CORES
    assert os.sched_getaffinity(0) == CORES
    assert [*tmp_path.iterdir()] == []


def test_nothing_is_measured_without_a_folder_or_a_second_core(tmp_path: Path) -> None:
    assert nearest_core(tmp_path / "not there yet", CORES) is None
    assert nearest_core(tmp_path, frozenset({0})) is None


@pytest.mark.skipif(not CORES, reason="a program cannot choose its core")
def test_usage_by_others_is_counted_and_usage_by_the_server_is_not() -> None:
    core = max(CORES)
    used_before, own_before = _seconds_used()
    subprocess.run([sys.executable, "-c", BURN, str(core), str(BURNED_SECONDS)], check=True)
    used, own = _seconds_used()
    # It is counted in hundredths of a second.
    assert used[core] - used_before[core] >= BURNED_SECONDS * 0.8
    assert own - own_before < BURNED_SECONDS


@pytest.mark.parametrize(
    ("own", "files", "limited"),
    [
        pytest.param("0::/\n", {"cpu.max": "150000 100000"}, True, id="a container"),
        pytest.param("0::/\n", {"cpu.max": "max 100000"}, False, id="a container without a limit"),
        pytest.param("0::/\n", {}, False, id="no container"),
        pytest.param(
            "0::/a.slice/b.service\n",
            {"a.slice/cpu.max": "50000 100000", "a.slice/b.service/cpu.max": "max 100000"},
            True,
            id="the group around it",
        ),
        pytest.param(
            "0::/docker/of-the-host\n", {"cpu.max": "20000 100000"}, True, id="a path of the host"
        ),
        pytest.param(
            "4:memory:/\n2:cpu,cpuacct:/x\n0::/\n",
            {"cpu,cpuacct/x/cpu.cfs_quota_us": "20000"},
            True,
            id="version 1",
        ),
        pytest.param(
            "1:cpu:/x\n0::/\n", {"cpu/x/cpu.cfs_quota_us": "-1"}, False, id="version 1, no limit"
        ),
        pytest.param(
            "4:memory:/x\n1:cpu:/\n", {"memory/x/cpu.max": "1 1"}, False, id="another controller"
        ),
        pytest.param("not a line of a control group\n", {"cpu.max": "1 1"}, False, id="unknown"),
    ],
)
def test_a_quota_of_processor_time_is_noticed(
    tmp_path: Path, own: str, files: dict[str, str], limited: bool
) -> None:
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        file = tmp_path / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    assert has_quota(tmp_path / "cgroup", tmp_path / "own") is limited


def test_no_control_groups_are_no_quota(tmp_path: Path) -> None:
    assert not has_quota(tmp_path, tmp_path / "missing")


@pytest.mark.parametrize(
    ("cpu", "cores", "quota", "chooses"),
    [
        ("auto", {0, 1}, False, True),
        ("auto", {0, 1}, True, False),
        ("auto", {0}, False, False),
        ("all", {0, 1}, False, False),
    ],
)
def test_a_server_chooses_a_core_only_where_that_helps(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cpu: CpuUse,
    cores: set[int],
    quota: bool,
    chooses: bool,
) -> None:
    monkeypatch.setattr(serving, "usable_cores", lambda: frozenset(cores))
    monkeypatch.setattr(serving, "has_quota", lambda: quota)
    monkeypatch.setattr(serving, "let_children_use", lambda _cores: None)
    # The disk is not measured before the server listens.
    monkeypatch.setattr(os, "sched_setaffinity", None, raising=False)
    connections = OpenConnections(ConnectionLimits(), lambda: 0.0)
    app = InProcessServer(tmp_path / "shiftboss.db").app
    made = fast_serving(app, connections, tmp_path, cpu)
    assert len(made.background) == 1 + chooses
