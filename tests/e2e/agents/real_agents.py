"""The real command lines, with a script in place of their model and a user with settings."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from shiftboss.protocol.plan import PlanAgent
from tests.e2e.agents.npm import Program
from tests.e2e.agents.scripted_model import Step, UseTool

CLAUDE_CODE: Final = "@anthropic-ai/claude-code@2.1.325"
CODEX: Final = "@openai/codex@0.166.0"
OPENCODE: Final = "opencode-ai@1.18.33"
GEMINI: Final = "@google/gemini-cli@0.61.0"


class Work(NamedTuple):
    """What the model is to do: an edit that is its own, one that is not, as often as it `insists`,
    a commit, and a claim, whose words may be known only then."""

    tree: Path
    claim: Callable[[], dict[str, Any]]
    insists: int = 1


class RealAgent(NamedTuple):
    """`user` writes the settings of a user into a home, with an MCP server that has nothing to do
    with us and leaves a file there when it is started. `steps` are the edits and the commit;
    `complete` is the name of our tool; `tree` are settings that try to do without us."""

    package: str
    model: str
    user: Callable[[Path, str], dict[str, str]]
    steps: Callable[[Path], list[UseTool]]
    complete: str
    tree: dict[str, str]
    # Whether a hook can prevent it from ending.
    stops: bool = True

    def settings(self, kind: str, home: Path, model_url: str) -> PlanAgent:
        program = Program(self.package)
        variables = {"PATH": program.environment()["PATH"], **self.user(home, model_url)}
        return PlanAgent(kind=kind, command=program.argv(kind), environment=variables)

    def script(self, work: Work) -> list[Step]:
        """An agent that can be prevented from ending tries to end before it claims."""
        own, other, commit = self.steps(work.tree)
        replies: list[UseTool | str] = [own, *[other] * work.insists, commit]
        replies += ["I am done."] if self.stops else []

        def claiming(_last: str) -> UseTool:
            return UseTool(self.complete, work.claim())

        return [*(_step(one) for one in replies), claiming, _step("It is accepted.")]


def _step(reply: UseTool | str) -> Step:
    return lambda _last: reply


COMMIT: Final = "git add src && git commit --quiet --message work"


def foreign(home: Path) -> Path:
    """Exists if the user's own MCP server was started."""
    return home / "foreign-server-was-started"


def _foreign_argv(home: Path) -> list[str]:
    return ["sh", "-c", f"touch '{foreign(home)}'"]


def _write(path: Path, text: str) -> None:
    """Atomically, because others may be reading it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)


def _claude_user(home: Path, model_url: str) -> dict[str, str]:
    command, *arguments = _foreign_argv(home)
    servers = {"other": {"type": "stdio", "command": command, "args": arguments}}
    _write(home / ".claude.json", json.dumps({"mcpServers": servers}))
    return {
        "ANTHROPIC_BASE_URL": model_url,
        "ANTHROPIC_API_KEY": "sk-of-nobody",
        "ENABLE_TOOL_SEARCH": "false",
    }


def _claude_steps(tree: Path) -> list[UseTool]:
    own, other = str(tree / "src/auth/new.py"), str(tree / "docs/foreign.md")
    return [
        UseTool("Write", {"file_path": own, "content": "x = 1\n"}),
        UseTool("Write", {"file_path": other, "content": "no\n"}),
        UseTool("Bash", {"command": COMMIT, "description": "commit"}),
    ]


def _codex_user(home: Path, model_url: str) -> dict[str, str]:
    command, *arguments = _foreign_argv(home)
    settings = f"""
        model_provider = "scripted"
        [model_providers.scripted]
        name = "scripted"
        base_url = "{model_url}/v1"
        wire_api = "responses"
        env_key = "SCRIPTED_KEY"
        [mcp_servers."the.other one"]
        command = "{command}"
        args = {json.dumps(arguments)}
        """
    _write(home / ".codex" / "config.toml", settings)
    return {"SCRIPTED_KEY": "of-nobody"}


def _codex_steps(_tree: Path) -> list[UseTool]:
    return [
        _patch("*** Add File: src/auth/new.py\n+x = 1"),
        _patch("*** Add File: docs/foreign.md\n+no"),
        UseTool("exec_command", {"cmd": COMMIT}),
    ]


def _patch(change: str) -> UseTool:
    patch = f"*** Begin Patch\n{change}\n*** End Patch"
    return UseTool("exec_command", {"cmd": f"apply_patch <<'EOF'\n{patch}\nEOF"})


def _opencode_user(home: Path, model_url: str) -> dict[str, str]:
    """Anything it installs beside the user's settings is cached, like the programs."""
    models = {"scripted": {"name": "scripted", "limit": {"context": 200_000, "output": 8192}}}
    options = {"baseURL": "{env:MODEL_URL}", "apiKey": "of-nobody"}
    npm = "@ai-sdk/openai-compatible"
    provider = {"npm": npm, "name": "scripted", "options": options, "models": models}
    servers = {"other": {"type": "local", "command": ["touch", "{env:FOREIGN}"]}}
    members = {
        "provider": {"scripted": provider},
        "small_model": "scripted/scripted",
        "mcp": servers,
    }
    folder = Program(OPENCODE).folder / "config"
    _write(folder / "opencode" / "opencode.json", json.dumps(members))
    return {
        "XDG_CONFIG_HOME": str(folder),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "MODEL_URL": f"{model_url}/v1",
        "FOREIGN": str(foreign(home)),
    }


def _opencode_steps(tree: Path) -> list[UseTool]:
    own, other = str(tree / "src/auth/new.py"), str(tree / "docs/foreign.md")
    return [
        UseTool("write", {"filePath": own, "content": "x = 1\n"}),
        UseTool("write", {"filePath": other, "content": "no\n"}),
        UseTool("bash", {"command": COMMIT, "description": "commit"}),
    ]


def _gemini_user(home: Path, model_url: str) -> dict[str, str]:
    command, *arguments = _foreign_argv(home)
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "mcpServers": {"other": {"command": command, "args": arguments}},
    }
    _write(home / ".gemini" / "settings.json", json.dumps(settings))
    return {"GEMINI_API_KEY": "of-nobody", "GOOGLE_GEMINI_BASE_URL": model_url}


def _gemini_steps(tree: Path) -> list[UseTool]:
    own, other = str(tree / "src/auth/new.py"), str(tree / "docs/foreign.md")
    return [
        UseTool("write_file", {"file_path": own, "content": "x = 1\n"}),
        UseTool("write_file", {"file_path": other, "content": "no\n"}),
        UseTool("run_shell_command", {"command": COMMIT}),
    ]


# Otherwise it would add the URL of the schema.
_OPENCODE_TREE: Final = {
    "$schema": "https://opencode.ai/config.json",
    "plugin": [],
    "permission": {"edit": "ask"},
}

AGENTS: Final = {
    "claude": RealAgent(
        package=CLAUDE_CODE,
        model="claude-sonnet-4-5",
        user=_claude_user,
        steps=_claude_steps,
        complete="mcp__shiftboss__swarm_complete",
        tree={".claude/settings.json": json.dumps({"disableAllHooks": True})},
    ),
    "codex": RealAgent(
        package=CODEX,
        model="scripted",
        user=_codex_user,
        steps=_codex_steps,
        complete="mcp__shiftboss/swarm_complete",
        tree={".codex/config.toml": "[features]\nhooks = false\n"},
    ),
    "opencode": RealAgent(
        package=OPENCODE,
        model="scripted/scripted",
        user=_opencode_user,
        steps=_opencode_steps,
        complete="shiftboss_swarm_complete",
        tree={"opencode.json": json.dumps(_OPENCODE_TREE)},
        stops=False,
    ),
    "gemini": RealAgent(
        package=GEMINI,
        model="gemini-2.5-flash",
        user=_gemini_user,
        steps=_gemini_steps,
        complete="mcp_shiftboss_swarm_complete",
        tree={".gemini/settings.json": json.dumps({"hooks": {"BeforeTool": []}})},
    ),
}
