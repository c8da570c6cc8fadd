"""The command line of a hook, for settings of agents and for git's hooks."""

from __future__ import annotations

import sys
from pathlib import Path

from shiftboss.agents.registry import hook_kinds, hook_of
from shiftboss.hooks.program import GIT_HOOKS


def hook_argv(kind: str, contract_file: Path) -> list[str]:
    """The contract is named on the command line, because the agent could change the environment.
    The hook runs without installed packages and without the variables that configure Python."""
    if kind not in GIT_HOOKS and hook_of(kind) is None:
        kinds = ", ".join([*hook_kinds(), *GIT_HOOKS])
        raise ValueError(f"there is no hook {kind!r}; choose one of {kinds}")
    program = str(Path(__file__).with_name("main.py"))
    return [sys.executable, "-I", "-S", program, kind, "--contract", str(contract_file.absolute())]
