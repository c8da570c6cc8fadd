"""How agents are started: with our tools and hooks, the user's login, and nothing else."""

from __future__ import annotations

import json
import shlex
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from shiftboss.agents.launch import Launch
from shiftboss.agents.registry import AGENTS
from shiftboss.errors import Forbidden, InvalidRequest
from shiftboss.orchestrator.attempt.workspace import AgentAssignment, Workspace
from shiftboss.protocol.plan import PlanAgent

pytestmark = pytest.mark.requirement("OWN-01")

TOKEN = "a-token-of-the-server"
PROMPT = "Do $(this) `now`; \"quoted\" 'words'\nand more.\n"
REAL = ("claude", "codex", "gemini", "opencode")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path, TOKEN)


def make_workspace(folder: Path, token: str | None) -> Workspace:
    tree, scratch, home = (folder / name for name in ("tree", "it's a scratch", "home"))
    for made in (tree, scratch, home):
        made.mkdir(mode=0o700)
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "CLAUDECODE": "1"}
    task: dict[str, Any] = {
        "swarm_id": "s",
        "bead_id": "bd-1",
        "title": "t",
        "worker": "s-1",
        "epoch": 1,
    }
    contract: dict[str, Any] = {"contract_version": 1, "handoff": {}, "contract_hash": ""}
    where: dict[str, Any] = {"repo": tree, "base": "b", "branch": "shiftboss/bd-1", "target": "m"}
    assignment = AgentAssignment(**task, **where, **contract)
    return Workspace(assignment, tree, scratch, "http://127.0.0.1:7432/", token, environment)


def start(workspace: Workspace, kind: str, chosen: str | None = None, **members: Any) -> Launch:
    return AGENTS[kind].launch(workspace, PlanAgent(kind=kind, **members), PROMPT, chosen)


def written(workspace: Workspace) -> list[Path]:
    return [
        path for path in workspace.scratch.rglob("*") if path.is_file() and not path.is_symlink()
    ]


@pytest.mark.parametrize("kind", REAL)
def test_the_prompt_is_passed_on_standard_input_and_the_token_in_the_environment(
    workspace: Workspace, kind: str
) -> None:
    launch = start(workspace, kind)
    assert launch.stdin == PROMPT.encode()
    assert launch.folder == workspace.tree
    assert "Do $(this)" not in "".join(launch.argv)
    assert launch.environment["SHIFTBOSS_TOKEN"] == TOKEN
    assert launch.environment["PWD"] == str(workspace.tree)
    assert TOKEN not in "".join(launch.argv)
    for variable, value in launch.environment.items():
        assert variable == "SHIFTBOSS_TOKEN" or TOKEN not in value
    for path in written(workspace):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert TOKEN not in path.read_text()
    assert list(workspace.tree.iterdir()) == []
    assert TOKEN not in repr(launch)


@pytest.mark.parametrize("kind", REAL)
def test_the_agent_is_configured_with_our_tools_and_hooks(workspace: Workspace, kind: str) -> None:
    launch = start(workspace, kind)
    everything = "\n".join([*launch.argv, *launch.environment.values()])
    everything += "\n".join(path.read_text() for path in written(workspace))
    assert "http://127.0.0.1:7432/mcp" in everything
    assert "SHIFTBOSS_TOKEN" in everything
    for part in ("contract.json", "hooks/main.py"):
        assert part in everything


@pytest.mark.parametrize("kind", REAL)
def test_no_token_is_passed_for_a_server_without_one(tmp_path: Path, kind: str) -> None:
    workspace = make_workspace(tmp_path, None)
    launch = start(workspace, kind)
    assert "SHIFTBOSS_TOKEN" not in launch.environment
    everything = "\n".join([*launch.argv, *launch.environment.values()])
    assert "SHIFTBOSS_TOKEN" not in everything + "".join(
        path.read_text() for path in written(workspace)
    )


@pytest.mark.parametrize("kind", REAL)
def test_the_plan_chooses_the_program_the_model_and_further_arguments(
    workspace: Workspace, kind: str
) -> None:
    members: dict[str, Any] = {"command": ["/opt/it", "--first"], "arguments": ["--last"]}
    members["model"] = "of-the-plan"
    argv = start(workspace, kind, **members).argv
    at = argv.index("/opt/it")
    assert argv[at + 1] == "--first"
    assert argv[-1] == "--last"
    assert "of-the-plan" in argv
    assert "of-the-task" in start(workspace, kind, "of-the-task", **members).argv
    assert "--model" not in start(workspace, kind).argv


@pytest.mark.parametrize("kind", REAL)
def test_starting_again_in_the_same_workspace_gives_the_same_launch(
    workspace: Workspace, kind: str
) -> None:
    (Path(workspace.environment["HOME"]) / ".gemini").mkdir()
    (Path(workspace.environment["HOME"]) / ".gemini" / "oauth_creds.json").write_text("{}")
    assert start(workspace, kind) == start(workspace, kind)


@pytest.mark.parametrize("kind", [*REAL, "command"])
def test_a_missing_program_is_named(kind: str) -> None:
    reason = AGENTS[kind].why_unavailable(
        PlanAgent(kind=kind, command=["not-to-be-found-anywhere"])
    )
    assert reason is not None
    assert "not-to-be-found-anywhere" in reason
    assert AGENTS[kind].why_unavailable(PlanAgent(kind=kind, command=[sys.executable])) is None


def test_claude_does_not_inherit_the_session_that_started_it(workspace: Workspace) -> None:
    launch = start(workspace, "claude")
    assert "CLAUDECODE" not in launch.environment
    settings = json.loads((workspace.scratch / "claude-settings.json").read_text())
    command = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    assert shlex.split(command)[-1] == str(workspace.contract_file)


def codex_settings(launch: Launch) -> dict[str, Any]:
    """What the command line says, read as Codex reads it."""
    settings: dict[str, Any] = {}
    for flag, override in zip(launch.argv, launch.argv[1:], strict=False):
        if flag == "--config":
            key, _, value = override.partition("=")
            settings[key] = tomllib.loads(f"value = {value}")["value"]
    return settings


def test_codex_keeps_the_users_home_but_disables_the_users_mcp_servers(
    workspace: Workspace,
) -> None:
    home = Path(workspace.environment["HOME"]) / ".codex"
    home.mkdir()
    (home / "config.toml").write_text(
        '[mcp_servers.plain]\ncommand = "x"\n[mcp_servers."with.a dot"]\nurl = "http://x"\n'
    )
    launch = start(workspace, "codex")
    settings = codex_settings(launch)
    assert "CODEX_HOME" not in launch.environment
    assert {name: server["enabled"] for name, server in settings["mcp_servers"].items()} == {
        "plain": False,
        "with.a dot": False,
        "shiftboss": True,
    }
    hook = settings["hooks.PreToolUse"][0]["hooks"][0]["command"]
    assert shlex.split(hook)[-1] == str(workspace.contract_file)


@pytest.mark.parametrize("text", ["", "[[[", "mcp_servers = 3\n", "\x00"])
def test_codex_starts_with_any_user_settings(workspace: Workspace, text: str) -> None:
    elsewhere = workspace.scratch / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "config.toml").write_text(text)
    launch = start(workspace, "codex", environment={"CODEX_HOME": str(elsewhere)})
    assert set(codex_settings(launch)["mcp_servers"]) == {"shiftboss"}
    assert launch.environment["CODEX_HOME"] == str(elsewhere)


def test_opencode_disables_the_users_mcp_servers(workspace: Workspace) -> None:
    folder = Path(workspace.environment["HOME"]) / ".config" / "opencode"
    folder.mkdir(parents=True)
    servers = {"other": {"type": "local", "command": ["x"]}}
    (folder / "opencode.json").write_text(json.dumps({"mcp": servers}))
    (folder / "opencode.jsonc").write_text('// mine\n{"mcp": {"third": {}}}')
    launch = start(workspace, "opencode")
    settings = json.loads(launch.environment["OPENCODE_CONFIG_CONTENT"])
    assert {name: server["enabled"] for name, server in settings["mcp"].items()} == {
        "other": False,
        "third": False,
        "shiftboss": True,
    }
    hook, _retries = (Path(unquote(urlsplit(uri).path)) for uri in settings["plugin"])
    assert json.dumps(str(workspace.contract_file)) in hook.read_text()


def test_gemini_gets_the_users_login_but_not_the_users_tools(workspace: Workspace) -> None:
    users = Path(workspace.environment["HOME"]) / ".gemini"
    (users / "tmp").mkdir(parents=True)
    (users / "oauth_creds.json").write_text("secret")
    mine = {
        "security": {"auth": {"selectedType": "oauth-personal"}},
        "mcpServers": {"other": {"command": "x"}},
        "hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": "other"}]}]},
        "general": {"vimMode": True},
    }
    (users / "settings.json").write_text(json.dumps(mine))
    home = Path(start(workspace, "gemini").environment["GEMINI_CLI_HOME"]) / ".gemini"
    (home / "oauth_creds.json").write_text("renewed")
    assert (users / "oauth_creds.json").read_text() == "renewed"
    assert not (home / "tmp").exists()
    settings = json.loads((home / "settings.json").read_text())
    assert settings["security"] == mine["security"]
    assert settings["general"]["vimMode"] is True
    assert set(settings["mcpServers"]) == {"shiftboss"}
    (before,) = settings["hooks"]["BeforeTool"]
    assert shlex.split(before["hooks"][0]["command"])[-1] == str(workspace.contract_file)


@pytest.mark.parametrize("hooks", [{"enabled": False}, {"disabled": ["x"]}])
def test_gemini_is_not_started_in_a_tree_that_disables_hooks(
    workspace: Workspace, hooks: dict[str, Any]
) -> None:
    (workspace.tree / ".gemini").mkdir()
    (workspace.tree / ".gemini" / "settings.json").write_text(json.dumps({"hooksConfig": hooks}))
    with pytest.raises(Forbidden, match="turns off the hooks of Gemini CLI"):
        start(workspace, "gemini")


def test_unreadable_gemini_settings_are_named(workspace: Workspace) -> None:
    users = Path(workspace.environment["HOME"]) / ".gemini"
    users.mkdir()
    (users / "settings.json").write_text("// a comment\n{}")
    with pytest.raises(InvalidRequest, match=r"settings\.json"):
        start(workspace, "gemini")


def test_placeholders_in_a_command_are_filled_in(workspace: Workspace) -> None:
    command = ["work", "--in={tree}", "{task} {worker}", "{model}", "{server}", "{prompt_file}"]
    launch = start(workspace, "command", "{tree}", command=[*command, "{unknown} {}"])
    prompt = workspace.scratch / "prompt.md"
    assert launch.argv == [
        "work",
        f"--in={workspace.tree}",
        "bd-1 s-1",
        "{tree}",
        "http://127.0.0.1:7432/",
        str(prompt),
        "{unknown} {}",
    ]
    assert prompt.read_text() == PROMPT
    assert launch.stdin == PROMPT.encode()
    assert launch.environment["SHIFTBOSS_PROMPT"] == str(prompt)


def test_a_missing_command_is_reported() -> None:
    assert AGENTS["command"].why_unavailable(PlanAgent(kind="command")) is not None
