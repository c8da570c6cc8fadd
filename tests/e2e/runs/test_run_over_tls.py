"""A run that shares a server over TLS: its own calls, its agents and their hooks verify it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.plan_runs import AGENT, PlanProject, PlanRun, task
from tests.running import RunningServer

_AGENT = """
import json, os, pathlib, runpy, sys
names = ("SHIFTBOSS_URL", "SHIFTBOSS_CA", "NODE_EXTRA_CA_CERTS")
marks = pathlib.Path(os.environ["PLAN_AGENT_MARKS"])
(marks / "environment").write_text(json.dumps([os.environ.get(name) for name in names]))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.requirement("OWN-06")
def test_a_plan_lands_over_tls(tmp_path: Path) -> None:
    project = PlanProject(tmp_path)
    project.plan(
        task("one"),
        agents={
            "script": {
                "kind": "command",
                "command": [sys.executable, "-I", "-S", "-c", _AGENT, str(AGENT)],
            }
        },
    )
    authority = Authority(tmp_path)
    server = RunningServer(tmp_path / "server" / "x.db", **authority.issue().settings).start()
    try:
        arguments = ["run", "plan.yaml", "--json", "--trees", str(project.trees)]
        arguments += ["--server", server.url, "--ca", authority.file.name]
        outcome = PlanRun(arguments, project.folder, project.environment()).outcome()
    finally:
        server.close()
    assert outcome["done"], outcome
    assert project.landed() == ["First", "Add one"]
    seen = json.loads((project.marks / "environment").read_text())
    assert seen == [server.url, str(authority.file), str(authority.file)]
