"""The command line of a hook, for settings of agents and for the hooks of git."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

KINDS: Final = (
    "pre-tool-use",
    "stop",
    "codex-pre-tool-use",
    "codex-stop",
    "gemini-before-tool",
    "gemini-after-agent",
    "opencode-before-tool",
    "pre-commit",
    "pre-push",
)


def hook_argv(kind: str, contract_file: Path) -> list[str]:
    """The contract is in the command line, for the environment is the agent's to change. Without
    the packages of the installation, and without the variables that steer Python."""
    if kind not in KINDS:
        raise ValueError(f"there is no hook {kind!r}; choose one of {', '.join(KINDS)}")
    program = str(Path(__file__).with_name("main.py"))
    return [sys.executable, "-I", "-S", program, kind, "--contract", str(contract_file.absolute())]


def opencode_plugin(contract_file: Path) -> str:
    """The text of the plugin for opencode, with the command line of its hook in it."""
    import json  # late: the hooks themselves do not need it from here

    text = Path(__file__).with_name("opencode_plugin.js").read_text(encoding="utf-8")
    return text.replace(
        '"@HOOK_ARGV@"', json.dumps(hook_argv("opencode-before-tool", contract_file))
    )
