"""An agent is one module and one line in the registry; everything else finds it there."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shiftboss.agents.registry import AGENTS, BRANDS, hook_kinds
from shiftboss.cli.main import app
from shiftboss.defaults import DEFAULT_AGENT
from shiftboss.doctor.programs import check_agents
from shiftboss.errors import InvalidPlan
from shiftboss.hooks.command import hook_argv
from shiftboss.hooks.program import run
from shiftboss.orchestrator.run.plan_file import load_plan
from shiftboss.protocol.plan import Plan, PlanAgent
from shiftboss.rules.documents.file_edits import hook_command
from tests.acceptance.hooks.hook_fixtures import TaskWorkspace
from tests.acceptance.hooks.test_agent_starts import make_workspace

pytestmark = pytest.mark.requirement("OWN-01")


@pytest.fixture
def aider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BRANDS, "aider", "tests.acceptance.hooks.aider_agent")


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    file = tmp_path / "plan.yaml"
    task = {"id": "a", "title": "t", "files_owned": ["a.py"]}
    plan = {"goal": "g", "repos": {"r": {"path": "."}}, "agent": "aider", "tasks": [task]}
    file.write_text(json.dumps(plan))
    return file


def test_all_agents_come_from_the_registry() -> None:
    assert list(AGENTS) == ["claude", "codex", "opencode", "gemini", "command"]
    assert {agent.kind for agent in AGENTS.values()} == set(AGENTS)
    assert Plan.model_fields["agent"].default == DEFAULT_AGENT


def test_a_hook_kind_starts_with_its_agents_name() -> None:
    for name in set(BRANDS) - {DEFAULT_AGENT}:
        assert all(kind.startswith(f"{name}-") for kind in AGENTS[name].hooks)
    assert len(hook_kinds()) == len(set(hook_kinds()))


def test_a_plan_with_an_unknown_agent_is_invalid(plan_file: Path) -> None:
    with pytest.raises(InvalidPlan, match="aider"):
        load_plan(plan_file)


@pytest.mark.usefixtures("aider")
def test_a_plan_can_name_a_new_agent(plan_file: Path) -> None:
    assert load_plan(plan_file).agent == "aider"


@pytest.mark.usefixtures("aider")
def test_a_new_agent_is_started_with_its_hook(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path, None)
    launch = AGENTS["aider"].launch(workspace, PlanAgent(kind="aider"), "prompt", None)
    assert launch.argv[:2] == ["aider", "--hook"]
    assert launch.argv[2:] == hook_argv("aider-tool", workspace.contract_file)
    unavailable = AGENTS["aider"].why_unavailable(PlanAgent(kind="aider", command=["no-such"]))
    assert unavailable is not None
    assert "pip install aider-chat" in unavailable


def answer(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str, given: Any
) -> tuple[int, str]:
    text = io.TextIOWrapper(io.BytesIO(json.dumps(given).encode()))
    monkeypatch.setattr(sys, "stdin", text)
    code = run(arguments)
    out, err = capfd.readouterr()
    assert err == ""
    return code, out


@pytest.mark.usefixtures("aider")
@pytest.mark.parametrize(
    ("function", "given", "is_allowed"),
    [
        ("put_file", {"fname": "src/auth/login.py"}, True),
        ("put_file", {"fname": "README.md"}, False),
        ("put_file", {}, False),  # it writes something without saying what
        ("show_file", {"fname": "README.md"}, True),
        ("run_it", {"run": "echo x > src/auth/a.py"}, True),
        ("run_it", {"run": "echo x > README.md"}, False),
        ("run_it", {"run": ["rm", "README.md"]}, False),
        ("run_it", {}, False),
        ("Write", {"file_path": "README.md"}, False),  # shared by all agents
    ],
)
def test_a_new_agents_hook_understands_its_own_tool_names(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    function: str,
    given: dict[str, Any],
    is_allowed: bool,
) -> None:
    workspace = TaskWorkspace(tmp_path)
    call = {"function": function, "given": given, "cwd": str(workspace.tree)}
    arguments = ("aider-tool", "--contract", str(workspace.contract))
    code, out = answer(monkeypatch, capfd, *arguments, given=call)
    assert code == 0
    assert out.startswith("yes\n" if is_allowed else "no: Shiftboss refused this")


@pytest.mark.usefixtures("aider")
def test_a_new_agents_stop_hook_answers_in_its_own_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    workspace = TaskWorkspace(tmp_path)  # whose server cannot be reached
    arguments = ("aider-end", "--contract", str(workspace.contract))
    code, out = answer(monkeypatch, capfd, *arguments, given={"session_id": "1"})
    assert (code, json.loads(out)["decision"]) == (0, "continue")


@pytest.mark.usefixtures("aider")
def test_init_sets_up_and_removes_a_new_agent(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / ".aider.conf.yml").touch()
    done = CliRunner().invoke(app, ["init", str(tmp_path), "--json"])
    assert json.loads(done.output)["agents"] == ["claude", "aider"]
    hooks = json.loads((tmp_path / ".aider/hooks.json").read_text())["hooks"]
    assert hooks["Tool"][0]["hooks"][0]["command"] == hook_command("aider-tool")
    assert CliRunner().invoke(app, ["init", str(tmp_path), "--agent", "aider"]).exit_code == 0
    assert CliRunner().invoke(app, ["init", str(tmp_path), "--remove"]).exit_code == 0
    assert not (tmp_path / ".aider").exists()


@pytest.mark.usefixtures("aider")
def test_the_doctor_looks_for_a_new_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (missing,) = check_agents()
    assert "aider" in missing.message
    (tmp_path / "aider").write_text("#!/bin/sh\n")
    (tmp_path / "aider").chmod(0o755)
    (installed,) = check_agents()
    assert installed.message == "on the PATH: aider"


@pytest.mark.parametrize("kind", hook_kinds())
def test_a_hook_loads_only_its_own_agent_and_nothing_heavy(tmp_path: Path, kind: str) -> None:
    workspace = TaskWorkspace(tmp_path, claims=False)
    argv = hook_argv(kind, workspace.contract)
    done = subprocess.run(
        [argv[0], "-X", "importtime", *argv[1:]],
        input=b"{}",
        cwd=workspace.tree,
        env=os.environ,
        capture_output=True,
        timeout=60,
        check=False,
    )
    lines = done.stderr.decode().splitlines()
    loaded = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    agents = {name for name in loaded if name.startswith("shiftboss.agents.")}
    brand = next((name for name in BRANDS if kind.startswith(f"{name}-")), DEFAULT_AGENT)
    assert agents == {f"shiftboss.agents.{name}" for name in ("agent", "registry", brand)}
    for heavy in ("pydantic", "dataclasses", "inspect", "shiftboss.protocol", "shiftboss.errors"):
        assert not any(name == heavy or name.startswith(f"{heavy}.") for name in loaded)
