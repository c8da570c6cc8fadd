"""Decides before an agent uses a tool whether the contract of its task allows it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from shiftboss.defaults import OPERATOR_TOKEN_FILE
from shiftboss.hooks.write_checks import BANNED, SCOPE, WriteChecker, WriteDenial

if TYPE_CHECKING:
    from shiftboss.agents.agent import ToolHook
    from shiftboss.hooks.contract import LocalContract

# Keys and tool names in use by several agents, and by MCP servers. Differences of a brand are in
# its `ToolHook`. Names are compared without regard to letter case.
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
_READING_NAMES: Final = """
    read notebookread grep glob ls list view view_image read_file read_many_files list_directory
    search_file_content grep_search codesearch lsp
"""
_READING_TOOLS: Final = frozenset(_READING_NAMES.split())
# A call of one of these is refused unless it names a file to write or a command to run.
_WRITING_NAMES: Final = """
    write edit multiedit notebookedit write_file replace edit_file create_file str_replace
    apply_patch applypatch patch
"""
_WRITING_TOOLS: Final = frozenset(_WRITING_NAMES.split())
_RUNNING_TOOLS: Final = frozenset(
    ("bash", "shell", "local_shell", "exec_command", "run_shell_command")
)
# The tool of an MCP server only reads if its name starts with one of these.
_READING_PREFIXES: Final = (
    *("read", "get", "list", "search", "find", "show", "view", "grep", "glob", "stat"),
)
_DEPTH_MAX: Final = 6


class BadInput(Exception):
    """The input of the hook is not a tool call."""


class ToolCall(NamedTuple):
    """`edits` and `reads` are paths. `commands` are shell scripts or argument lists. All of them
    are relative to `folder`."""

    tool: str
    folder: str
    edits: list[str]
    commands: list[str | list[str]]
    reads: Sequence[str] = ()


def read_call(hook: ToolHook, given: Mapping[str, Any]) -> ToolCall:
    """The files that the call edits, and the commands that it runs. Raises BadInput."""
    tool, values, folder = given.get(hook.tool_key), given.get(hook.input_key), given.get("cwd")
    if not isinstance(tool, str) or not tool:
        raise BadInput(f"{hook.tool_key}: is missing")
    if not isinstance(folder, str) or not folder.startswith("/"):
        raise BadInput("cwd: is not an absolute path")
    if not isinstance(values, dict):
        raise BadInput(f"{hook.input_key}: is not an object")
    name = tool.casefold()
    reads_only = _reads_only(name) or name in hook.reading_tools
    keys = _PATH_KEYS | hook.path_keys
    edits = [] if reads_only else list(_paths(values, keys))
    reads = [value for key, value in values.items() if key in keys and isinstance(value, str)]
    is_patch = "patch" in name
    if is_patch:
        from shiftboss.hooks.patches import paths_of_patch  # late: few calls are patches

        edits += [path for text in _strings(values) for path in paths_of_patch(text)]
    if not edits and (name in _WRITING_TOOLS or name in hook.writing_tools):
        raise BadInput(f"{hook.input_key}: names no file for {tool} to write")
    if is_patch:
        return ToolCall(tool, folder, edits, [])
    commands = list(_commands(values, (*_COMMAND_KEYS, *hook.command_keys)))
    if not commands and (name in _RUNNING_TOOLS or name in hook.running_tools):
        raise BadInput(f"{hook.input_key}: names no command for {tool} to run")
    return ToolCall(tool, _folder(folder, values), edits, commands, reads if reads_only else ())


def _reads_only(name: str) -> bool:
    if name.startswith("mcp_"):
        # `mcp__SERVER__TOOL` or `mcp_TOOL`
        return name.rpartition("__")[2].removeprefix("mcp_").startswith(_READING_PREFIXES)
    return name in _READING_TOOLS


def _folder(folder: str, values: Mapping[str, Any]) -> str:
    for key in _FOLDER_KEYS:
        value = values.get(key)
        if isinstance(value, str) and value:
            return value if value.startswith("/") else f"{folder.rstrip('/')}/{value}"
    return folder


def _commands(values: Mapping[str, Any], keys: Sequence[str]) -> Iterator[str | list[str]]:
    for key in keys:
        value = values.get(key)
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            if not all(isinstance(part, str) for part in value):
                raise BadInput(f"{key}: is not a list of strings")
            yield value


def _paths(value: Any, keys: Collection[str], depth: int = 0) -> Iterator[str]:
    """Edits in a list have a path each."""
    if depth > _DEPTH_MAX:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if key in keys:
                if not isinstance(item, str) or not item:
                    raise BadInput(f"{key}: is not a path")
                yield item
            else:
                yield from _paths(item, keys, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _paths(item, keys, depth + 1)


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth <= _DEPTH_MAX:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item, depth + 1)


def refusal(
    hook: ToolHook, given: Mapping[str, Any], contract: LocalContract, contract_file: str
) -> str | None:
    """Why the contract does not allow the tool call, for the agent to read; None if it does."""
    call = read_call(hook, given)
    denials = _denials(call, contract, contract_file)
    if not denials:
        return None
    if any(denial.rule == SCOPE for denial in denials):
        from shiftboss.hooks.server_client import newer_contract  # late: few calls are refused

        newer = newer_contract(contract, contract_file)
        if newer is not None:
            contract = newer
            denials = _denials(call, contract, contract_file)
            if not denials:
                return None
    from shiftboss.hooks.messages import refused_call

    return refused_call(denials, contract)


def _denials(call: ToolCall, contract: LocalContract, contract_file: str) -> list[WriteDenial]:
    checker = WriteChecker(contract, contract_file, os.environ)
    denials = list(checker.check_edits(call.folder, call.edits))
    denials += [
        WriteDenial(BANNED, path, "may only be read by the operator")
        for path in call.reads
        if os.path.basename(path) == OPERATOR_TOKEN_FILE
    ]
    if call.commands:
        from shiftboss.hooks.shell.words import Unclear  # late: an edit needs no shell
        from shiftboss.hooks.shell.writes import ShellWrites

        shell = ShellWrites(call.folder, os.environ, contract.branch, contract.base)
        try:
            for command in call.commands:
                shell.script(command) if isinstance(command, str) else shell.argv(command)
        except Unclear as error:
            reason = f"{error}; write it in a simpler way"
            denials.append(WriteDenial(BANNED, "the command", reason))
        denials += checker.check_effects(shell.effects)
    return list(dict.fromkeys(denials))
