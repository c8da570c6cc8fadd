"""The state folder of a server and of runs: the database, keys, tokens, mirrors and logs.

A server that is up keeps `server.json` there: its address, its process and when it started. That is
how commands and runs find the server of a folder. The file of a killed server stays, so readers
compare `started_at` with the one that the server at the address reports.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shlex
import stat
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.defaults import OPERATOR_TOKEN_FILE, STATE_FOLDER
from shiftboss.errors import ShiftbossError
from shiftboss.system.json_files import read_json_object
from shiftboss.system.private_files import is_private, read_private, write_once, write_private

log = logging.getLogger(__name__)

SERVER_FILE: Final = "server.json"
_SERVER_FILE_BYTES_MAX: Final = 4096


class BadStateFolder(ShiftbossError):
    code = "bad_state_folder"
    title = "The state folder cannot be used"


class ServerRecord(NamedTuple):
    """What `server.json` holds. `started_at` identifies this start of the server."""

    address: str
    pid: int
    started_at: str


def make_state_folder(folder: Path) -> Path:
    """Create the folder, for its owner only and ignored by git. Raises BadStateFolder.

    An existing folder of another name may be anything, even a repository: it gets no `.gitignore`.
    """
    is_ours = folder.name == STATE_FOLDER or not folder.exists()
    if folder.name == STATE_FOLDER:
        refuse_tracked(folder)
    make_private_folder(folder)
    keep_others_out(folder)
    ignore = folder / ".gitignore"
    if is_ours and not ignore.exists():
        try:
            write_once(ignore, b"*\n")
        except OSError as error:
            raise _unusable(folder, error.strerror) from error
    return folder


def refuse_tracked(folder: Path) -> None:
    """Raises BadStateFolder if git tracks files in the state folder: tokens, keys and records that
    came with a cloned repository are not ours."""
    if not folder.is_dir() or not any((parent / ".git").exists() for parent in folder.parents):
        return
    import subprocess  # commands load this module, and do not need it

    # The program that started us may have pointed git to another repository.
    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    argv = ["git", "-c", "core.fsmonitor=false", "ls-files", "-z", "--", folder.name]
    try:
        listed = subprocess.run(
            argv, cwd=folder.parent, env=environment, capture_output=True, check=False
        )
    except OSError:
        return
    files = [name for name in listed.stdout.decode(errors="replace").split("\0") if name]
    if any(not name.endswith("/.gitignore") for name in files):
        raise BadStateFolder(
            f"git tracks files in {folder}, such as {files[0]}: they may have come with the "
            "repository, and are not used",
            field="state",
            hint=f"look at them, then: git -C {shlex.quote(str(folder.parent))} rm -r --force "
            f"{folder.name}",
        )


def make_private_folder(folder: Path) -> None:
    """Create a folder for the owner only, unless it exists. Raises BadStateFolder if nothing can be
    written there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error.strerror) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unusable(folder, "it is read-only")


def keep_others_out(folder: Path) -> None:
    """Other users who can write to the folder can replace the database, the keys and the tokens.
    Our own folder is repaired, and another one is refused. Raises BadStateFolder.

    In a folder like /tmp nobody can replace the files of another user. Some systems give every user
    a group of their own, so a folder of the user that its group can write to is only named.
    """
    status = folder.stat()
    others = stat.S_IMODE(status.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    if not others or status.st_mode & stat.S_ISVTX:
        return
    mode = f"its mode is {stat.S_IMODE(status.st_mode):o}"
    if folder.name == STATE_FOLDER and status.st_uid == os.getuid():
        folder.chmod(0o700)
        log.warning(
            "other users could write to %s (%s): it is yours alone again. Check its "
            "contents, and replace the operator's token and the key if they may have been read",
            folder,
            mode,
        )
    elif others & stat.S_IWOTH or folder.name == STATE_FOLDER:
        raise BadStateFolder(
            f"other users can write to {folder}: {mode}",
            field="state",
            hint=f"chmod go-w {shlex.quote(str(folder))}, or choose another folder",
        )
    else:
        log.warning("the group of %s can write to it (%s)", folder, mode)


def operator_token(folder: Path) -> str:
    """The operator's token in the state folder, created at the first start. A user who can read it
    is the operator."""
    path = folder / OPERATOR_TOKEN_FILE
    if not path.exists():
        write_once(path, f"{secrets.token_urlsafe(32)}\n".encode())
    # While it is rotated, the file has several lines; the first is the newest.
    return read_private(path, "the operator's token").decode().strip().partition("\n")[0].strip()


def write_server_file(folder: Path, record: ServerRecord) -> None:
    write_private(folder / SERVER_FILE, f"{json.dumps(record._asdict())}\n")


def read_server_file(folder: Path) -> ServerRecord | None:
    """What the file says; the server may be gone. None if there is no such file, or one that a
    server of this user would not have written: a cloned repository may contain it."""
    members = read_json_object(
        folder / SERVER_FILE,
        {"address": str, "pid": int, "started_at": str},
        bytes_max=_SERVER_FILE_BYTES_MAX,
        accepts=is_private,
    )
    if members is None:
        return None
    return ServerRecord(members["address"], members["pid"], members["started_at"])


def remove_server_file(folder: Path, record: ServerRecord) -> None:
    """Unless another server has replaced it in the meantime."""
    if read_server_file(folder) == record:
        (folder / SERVER_FILE).unlink(missing_ok=True)


def _unusable(folder: Path, reason: str | None) -> BadStateFolder:
    return BadStateFolder(
        f"cannot use the folder {folder}: {reason}",
        field="state",
        hint="make it writable, or choose a database elsewhere with --db FILE",
    )
