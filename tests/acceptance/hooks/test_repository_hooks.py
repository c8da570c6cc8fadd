"""The hooks that `shiftboss init` commits disturb nobody who has no use for them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shiftboss.agents.registry import brands
from tests.acceptance.hooks.hook_fixtures import SECONDS, HookOutput, TaskWorkspace
from tests.commands import environment, shiftboss

pytestmark = pytest.mark.requirement("OWN-01")

NODE = shutil.which("node")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    subprocess.run(["git", "init", "--quiet", made], check=True)
    done = shiftboss("init", "--all-agents", folder=made)
    assert done.code == 0, done.err
    return made


def committed_commands(value: Any) -> Iterator[str]:
    """The command lines in the settings of an agent, wherever they are."""
    if isinstance(value, dict):
        yield from ([value["command"]] if isinstance(value.get("command"), str) else [])
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from committed_commands(item)


def run_shell(command: str, folder: Path, path: str, **variables: str) -> HookOutput:
    """As agents do: one line of shell, with the event on standard input."""
    event = {"session_id": "1", "tool_name": "Bash", "tool_input": {"command": "ls"}, "cwd": "/"}
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        input=json.dumps(event).encode(),
        env=environment(**variables) | {"PATH": path},
        cwd=folder,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    return HookOutput(done.returncode, done.stdout.decode(), done.stderr.decode())


def all_commands(repository: Path) -> list[str]:
    files = [".claude/settings.json", ".codex/hooks.json", ".gemini/settings.json"]
    settings = [json.loads((repository / name).read_text()) for name in files]
    return [command for value in settings for command in committed_commands(value)]


def test_hooks_are_silent_where_shiftboss_is_not_installed(repository: Path) -> None:
    commands = all_commands(repository)
    kinds = [kind for agent in brands() if agent.kind != "opencode" for kind in agent.hooks]
    assert len(commands) == len(kinds)
    for command in commands:
        assert run_shell(command, repository, "/usr/bin:/bin") == (0, "", ""), command


def test_hooks_are_silent_where_no_run_is(repository: Path) -> None:
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    for command in all_commands(repository):
        assert run_shell(command, repository, path) == (0, "", ""), command


def test_a_stop_hook_is_silent_when_the_run_of_its_work_tree_is_over(
    repository: Path, tmp_path: Path
) -> None:
    workspace = TaskWorkspace(tmp_path)  # whose server cannot be reached
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    (stop,) = (command for command in all_commands(repository) if command.endswith(" stop'"))
    done = run_shell(stop, workspace.tree, path, SHIFTBOSS_CONTRACT=str(workspace.contract))
    assert done == (0, "{}\n", "")
    # The hook that a run has installed asks the agent to claim its work once more.
    assert "call swarm_complete once more" in workspace.hook("stop", {"session_id": "1"}).out


@pytest.mark.skipif(NODE is None, reason="there is no node")
def test_the_opencode_plugin_is_silent_where_shiftboss_is_not_installed(repository: Path) -> None:
    plugin = repository / ".opencode/plugin/shiftboss.js"
    script = (
        f"const {{ Shiftboss }} = await import({json.dumps(str(plugin))});"
        "const hooks = await Shiftboss({ directory: process.cwd() });"
        "await hooks['tool.execute.before']({ tool: 'bash' }, { args: { command: 'ls' } });"
    )
    assert NODE is not None
    done = subprocess.run(
        [NODE, "--no-warnings", "--input-type=module", "-e", script],
        env=environment() | {"PATH": "/nowhere"},
        cwd=repository,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
