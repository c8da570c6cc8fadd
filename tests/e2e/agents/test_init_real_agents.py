"""Agents that a person starts in a repository that `shiftboss init` has set up for the server of a
team: they have our tools, and the plugin or hook is asked before they use any."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import shiftboss
from tests.e2e.agents.npm import INSTALL_SECONDS, Program
from tests.e2e.agents.real_agents import AGENTS
from tests.e2e.agents.scripted_model import UseTool, speaking
from tests.running import RunningServer

pytestmark = [pytest.mark.timeout(INSTALL_SECONDS + 180), pytest.mark.requirement("OWN-01")]

TOKEN = "a-token-that-is-long-enough-for-the-server"
RUN_SECONDS = 150.0
OUR_TOOL = {
    "claude": "mcp__shiftboss__get_status",
    "codex": "mcp__shiftboss/get_status",
    "opencode": "shiftboss_get_status",
    "gemini": "mcp_shiftboss_get_status",
}
COMMAND_LINE = {
    "claude": ["-p", "Go.", "--allowedTools", "mcp__shiftboss__*", "--output-format", "json"],
    "codex": ["exec", "--dangerously-bypass-approvals-and-sandbox", "Go."],
    "opencode": ["run", "--auto", "Go."],
    "gemini": ["--approval-mode", "yolo", "-p", "Go."],
}


@pytest.fixture
def server(sqlite_path: str) -> Iterator[RunningServer]:
    server = RunningServer(sqlite_path, token=TOKEN)
    try:
        yield server.start()
    finally:
        server.close()


@pytest.mark.parametrize("kind", AGENTS)
def test_a_real_agent_reaches_the_server_that_init_was_told_of(
    server: RunningServer, tmp_path: Path, kind: str
) -> None:
    home, repo = tmp_path / "home", tmp_path / "repo"
    home.mkdir()
    subprocess.run(["git", "init", "--quiet", "-b", "main", repo], check=True)
    token = home / "its token"
    token.touch(mode=0o600)
    token.write_text(f"{TOKEN}\n")
    arguments = ("--agent", kind, "--server", server.url, "--token-file", str(token))
    done = shiftboss("init", *arguments, folder=repo, HOME=str(home))
    assert done.code == 0, done.err
    # What is missing is said, as a command: all but Claude Code read the token from a variable.
    by_variable = "export SHIFTBOSS_TOKEN=" in done.err
    assert by_variable is (kind != "claude")

    with speaking([lambda _: UseTool(OUR_TOOL[kind], {}), lambda _: "Done."]) as model:
        variables = AGENTS[kind].user(home, model.url)
        trust(kind, home, repo)
        program = Program(AGENTS[kind].package)
        path = f"{asked_hook(tmp_path)}:{program.environment()['PATH']}"
        variables |= {"HOME": str(home), "PATH": path, "TERM": "dumb"}
        variables |= {"SHIFTBOSS_TOKEN": TOKEN} if by_variable else {}
        argv = [*program.argv(kind, *COMMAND_LINE[kind]), "--model", AGENTS[kind].model]
        ran = subprocess.run(
            argv,
            cwd=repo,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=RUN_SECONDS,
            check=False,
        )
    (result,) = model.results
    assert "workers" in result, (result, ran.stdout, ran.stderr)
    if kind == "opencode":
        assert "get_status" in (tmp_path / "asked").read_text(), "its plugin was loaded"
    for file in repo.rglob("*"):  # which does not follow links
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes(), file


def asked_hook(folder: Path) -> Path:
    """A folder with a `shiftboss` that allows everything, and notes what it was asked."""
    programs = folder / "bin"
    programs.mkdir()
    program = programs / "shiftboss"
    program.write_text(f"#!/bin/sh\ncat >> '{folder}/asked'\necho '{{}}'\n")
    program.chmod(0o755)
    return programs


def trust(kind: str, home: Path, repo: Path) -> None:
    """What the agents ask a person, or do, at the first start."""
    if kind == "claude":
        approved = {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["shiftboss"]}
        (home / ".claude.json").write_text(json.dumps({"projects": {str(repo): approved}}))
    elif kind == "codex":
        with (home / ".codex" / "config.toml").open("a") as settings:
            settings.write(f'\n[projects."{repo}"]\ntrust_level = "trusted"\n')
    elif kind == "opencode":
        # It installs a package beside its plugins, which takes half a minute. Beside the user's
        # settings it is cached.
        cached = Path(Program(AGENTS[kind].package).folder, "config", "opencode")
        for name in ("node_modules", "package.json", "package-lock.json"):
            if (cached / name).exists():
                (repo / ".opencode" / name).symlink_to(cached / name)
    elif kind == "gemini":
        folders = home / ".gemini" / "trustedFolders.json"
        folders.write_text(json.dumps({str(repo): "TRUST_FOLDER"}))
