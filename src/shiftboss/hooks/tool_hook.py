"""Before a tool of an agent is used: is it within the contract?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from shiftboss.hooks.contract import LocalContract
from shiftboss.hooks.messages import denied
from shiftboss.hooks.patches import paths_of_patch
from shiftboss.hooks.write_checks import BANNED, SCOPE, WriteChecker, WriteDenial

# The calls of tools as the agents write them: which paths they edit, which commands they run.


_PATH_KEYS: Final = frozenset(
    (
        "file_path",
        "filePath",
        "path",
        "notebook_path",
        "notebookPath",
        "absolute_path",
        "target_file",
    )
)
_FOLDER_KEYS: Final = ("workdir", "dir_path", "directory")
_COMMAND_KEYS: Final = ("command", "cmd")
_READING_WORDS: Final = """
    read notebookread grep glob ls list view view_image read_file read_many_files list_directory
    search_file_content grep_search codesearch lsp
"""
_READING: Final = frozenset(_READING_WORDS.split())
# Of which something has to be known: a file that they write, or a command that they run.
_WRITING_WORDS: Final = """
    write edit multiedit notebookedit write_file replace edit_file create_file str_replace
    apply_patch applypatch patch
"""
_WRITING: Final = frozenset(_WRITING_WORDS.split())
_RUNNING: Final = frozenset(("bash", "shell", "local_shell", "exec_command", "run_shell_command"))
_READS: Final = ("read", "get", "list", "search", "find", "show", "view", "grep", "glob", "stat")
_DEPTH_MAX: Final = 6


class BadInput(Exception):
    """What the agent handed over is no call of a tool."""


class ToolCall(NamedTuple):
    """`commands` are texts for a shell, or words. `folder` is where it all starts."""

    tool: str
    folder: str
    edits: list[str]
    commands: list[str | list[str]]


def call_of(said: Mapping[str, Any], *, tool: str, given: str) -> ToolCall:
    """`tool` and `given` are the keys under which an agent names the tool and its input. Raises
    BadInput."""
    name, values, folder = said.get(tool), said.get(given), said.get("cwd")
    if not isinstance(name, str) or not name:
        raise BadInput(f"{tool}: is not there")
    if not isinstance(folder, str) or not folder.startswith("/"):
        raise BadInput("cwd: is no absolute path")
    if not isinstance(values, dict):
        raise BadInput(f"{given}: is no object")
    edits = [] if _reads_only(name) else list(_paths(values, 0))
    is_patch = "patch" in name.casefold()
    if is_patch:
        edits += [path for text in _texts(values, 0) for path in paths_of_patch(text)]
    if not edits and name.casefold() in _WRITING:
        raise BadInput(f"{given}: names no file that {name} would write")
    if is_patch:
        return ToolCall(name, folder, edits, [])
    commands = list(_commands(values))
    if not commands and name.casefold() in _RUNNING:
        raise BadInput(f"{given}: names no command that {name} would run")
    return ToolCall(name, _folder(folder, values), edits, commands)


def _reads_only(name: str) -> bool:
    """A tool of a server is known by the last part of its name, so only its beginning counts."""
    plain = name.casefold()
    if plain.startswith("mcp_"):
        return plain.rpartition("__")[2].removeprefix("mcp_").startswith(_READS)
    return plain in _READING


def _folder(folder: str, values: Mapping[str, Any]) -> str:
    for key in _FOLDER_KEYS:
        given = values.get(key)
        if isinstance(given, str) and given:
            return given if given.startswith("/") else f"{folder.rstrip('/')}/{given}"
    return folder


def _commands(values: Mapping[str, Any]) -> Iterator[str | list[str]]:
    for key in _COMMAND_KEYS:
        given = values.get(key)
        if isinstance(given, str):
            yield given
        elif isinstance(given, list):
            if not all(isinstance(one, str) for one in given):
                raise BadInput(f"{key}: is no list of words")
            yield given


def _paths(value: Any, depth: int) -> Iterator[str]:
    """Also of edits in a list, each with its own path."""
    if depth > _DEPTH_MAX:
        return
    if isinstance(value, dict):
        for key, one in value.items():
            if key in _PATH_KEYS:
                if not isinstance(one, str) or not one:
                    raise BadInput(f"{key}: is no path")
                yield one
            elif isinstance(one, dict | list):
                yield from _paths(one, depth + 1)
    elif isinstance(value, list):
        for one in value:
            if isinstance(one, dict | list):
                yield from _paths(one, depth + 1)


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth <= _DEPTH_MAX:
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one, depth + 1)


class Form(NamedTuple):
    """Under which keys an agent names the tool and its input."""

    tool: str
    given: str


FORMS: Final = {
    "pre-tool-use": Form("tool_name", "tool_input"),
    "codex-pre-tool-use": Form("tool_name", "tool_input"),
    "gemini-before-tool": Form("tool_name", "tool_input"),
    "opencode-before-tool": Form("tool", "args"),
}


def refusal(
    kind: str, said: Mapping[str, Any], contract: LocalContract, contract_file: str
) -> str | None:
    """None: it may go on."""
    form = FORMS[kind]
    call = call_of(said, tool=form.tool, given=form.given)
    denials = _denials(call, contract, contract_file)
    if any(one.rule == SCOPE for one in denials):
        from shiftboss.hooks.server_client import newer_contract  # late: few calls are refused

        newer = newer_contract(contract, contract_file)
        if newer is not None:
            contract = newer
            denials = _denials(call, contract, contract_file)
    return denied(denials, contract) if denials else None


def _denials(call: ToolCall, contract: LocalContract, contract_file: str) -> list[WriteDenial]:
    judge = WriteChecker(contract, contract_file, os.environ)
    found = list(judge.edits(call.folder, call.edits))
    if call.commands:
        from shiftboss.hooks.shell.words import Unclear  # late: an edit needs no shell
        from shiftboss.hooks.shell.writes import ShellWrites

        shell = ShellWrites(call.folder, os.environ, contract.branch, contract.base)
        try:
            for command in call.commands:
                shell.script(command) if isinstance(command, str) else shell.argv(command)
        except Unclear as error:
            found.append(WriteDenial(BANNED, "the command", f"{error}; write it in a plainer way"))
        found += judge.found(shell.found)
    return list(dict.fromkeys(found))
