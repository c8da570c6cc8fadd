"""Reading tokens from files and the environment, never from the command line."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.cli.common.discovery import Target, state_folders
from shiftboss.client.token_files import find_token
from shiftboss.defaults import (
    OPERATOR_TOKEN_FILE,
    OPERATOR_TOKEN_VARIABLE,
    TASK_VARIABLE,
    TOKEN_PREFIX,
    TOKEN_VARIABLE,
)
from shiftboss.errors import ShiftbossError
from shiftboss.system.token_files import BadToken, checked_token, read_token_file

# The environment of a process, which Linux limits to a quarter of its stack: 2 MB by default.
_SECRETS_BYTES_MAX: Final = 16 << 20
_CHUNK_BYTES: Final = 65_536


class AgentIsNotOperator(ShiftbossError):
    code = "agent_is_not_operator"
    title = "Agents cannot act as the operator"

    def __init__(self) -> None:
        super().__init__(
            f"agents cannot act as the operator: {TASK_VARIABLE} is set",
            hint="ask a person to do this, in a shell that no agent has started",
        )


def is_agent() -> bool:
    """Whether this command was started by an agent of a run. Agents run as the same user, so they
    could read the file with the operator's token."""
    return bool(os.environ.get(TASK_VARIABLE))


def read_token(token_file: Path | None) -> str | None:
    """The token of a client, from the file or else from the environment; None without both."""
    return find_token(token_file).token


def read_server_token(token_file: Path | None) -> str | None:
    """The token of a server: SHIFTBOSS_TOKEN_FILE is for clients only."""
    return _read(token_file, TOKEN_VARIABLE)


def read_operator_token(token_file: Path | None, target: Target) -> str:
    """The operator's token. Raises BadToken if there is none."""
    token = find_operator_token(token_file, target)
    if token is None:
        raise BadToken(
            "only the operator may do this, and there is no operator's token here",
            hint=f"set {OPERATOR_TOKEN_VARIABLE} or --operator-token-file; a server keeps it in "
            f"{OPERATOR_TOKEN_FILE} beside its database",
        )
    return token


def find_operator_token(token_file: Path | None, target: Target) -> str | None:
    """From the file, the environment, the state folder of the server, or the nearest one; or None.
    That of a folder is for the servers of this machine: no other one is told it.

    A token in the environment comes first: a server that has it from there writes no file. An agent
    must have been given the token: raises AgentIsNotOperator instead of looking for the file.
    """
    token = _read(token_file, OPERATOR_TOKEN_VARIABLE)
    if token is not None:
        return token
    files = (folder / OPERATOR_TOKEN_FILE for folder in _folders_of(target))
    file = next((file for file in files if _is_own_file(file)), None)
    if file is None:
        return None
    if is_agent():
        raise AgentIsNotOperator
    return read_token_file(file)


def _folders_of(target: Target) -> Iterable[Path]:
    if target.state is not None:
        return [target.state]
    return state_folders() if target.is_on_this_machine else []


def operator_token_file(state: Path | None) -> Path | None:
    """The file of the server whose state folder this is, if the caller may use it."""
    if state is None or is_agent():
        return None
    file = state / OPERATOR_TOKEN_FILE
    return file if _is_own_file(file) else None


def operator_token_beside(token: str | None, token_file: Path | None, target: Target) -> str | None:
    """The operator's token for a caller that has `token`. Raises BadToken if there is none at all.

    A named token says who acts, and its role decides: then no file is looked for. One that is given
    on purpose still counts.
    """
    if token is None:
        return read_operator_token(token_file, target)
    if token.startswith(TOKEN_PREFIX):
        return _read(token_file, OPERATOR_TOKEN_VARIABLE)
    return find_operator_token(token_file, target)


def _is_own_file(path: Path) -> bool:
    """Not a link: a cloned repository could contain one, to any file of this user."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid()


def operator_token_from_environment() -> str | None:
    """For a server: the token from the environment, or None to generate one."""
    return _read(None, OPERATOR_TOKEN_VARIABLE)


class ServerSecrets(NamedTuple):
    """The secrets that a run sends to its server. `database` is an address with a password, or
    None."""

    operator_token: str
    environment: dict[str, str]
    database: str | None


def read_secrets(descriptor: int) -> ServerSecrets:
    """For the server of a run: the first line of its input, which no other process can read."""
    received = bytearray()
    while not received.endswith(b"\n") and len(received) <= _SECRETS_BYTES_MAX:
        chunk = os.read(descriptor, _CHUNK_BYTES)
        if not chunk:
            break
        received += chunk
    try:
        secrets = ServerSecrets(**json.loads(received))
    except (ValueError, TypeError) as error:
        raise BadToken("standard input holds no secrets of a run") from error
    return secrets._replace(operator_token=checked_token(secrets.operator_token, "standard input"))


def _read(token_file: Path | None, variable: str) -> str | None:
    if token_file is not None:
        return read_token_file(token_file)
    token = os.environ.get(variable, "").strip()
    return checked_token(token, variable) if token else None
