"""Finding the server, or else the database, that a command in this folder is about."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from shiftboss.client.addresses import split_addresses
from shiftboss.client.local_server import find_live_server, is_this_machine
from shiftboss.defaults import ADDRESS, DATABASE_FILE, RUNS_FOLDER, STATE_FOLDER
from shiftboss.system.state_folder import read_server_file


class Target(NamedTuple):
    """The target of a command: the server at `address` or, if there is none, the `database`.

    `state` is the state folder that led to it. None: the address was given, or is the default one;
    then `looked_in` is the folder that led nowhere.
    """

    address: str
    state: Path | None = None
    database: Path | None = None
    looked_in: Path | None = None

    @property
    def is_on_this_machine(self) -> bool:
        """Whether it is one of the machine's own addresses; a name could be another one's."""
        try:
            hosts = [urlsplit(each).hostname or "" for each in split_addresses(self.address)]
        except ValueError:
            return False
        return all(map(is_this_machine, hosts))


def find_target(given_address: str | None) -> Target:
    """The given server, or what the nearest state folder has, or the default address."""
    if given_address:
        return Target(given_address)
    folder = find_state_folder()
    if folder is not None:
        server = find_live_server(folder)
        if server is not None:
            return Target(server.address, folder)
        database = _database_in(folder)
        if database is not None:
            return Target(ADDRESS, folder, database)
    return Target(ADDRESS, looked_in=_current_folder())


def find_address(given_address: str | None) -> str:
    """For commands that need a running server."""
    return find_target(given_address).address


def serve_command() -> str:
    """Starts a server for what commands here are about. SHIFTBOSS_DB may be set for one command
    alone, so its file is named."""
    database = _database_from_environment()
    if database is None:
        return "shiftboss serve"
    return f"shiftboss serve --db {shlex.quote(str(database.absolute()))}"


def here_command(command: str) -> str:
    """The command as it works when it is copied. SHIFTBOSS_DB may be set for one command alone, so
    its file is named."""
    database = _database_from_environment()
    if database is None or not command.startswith("shiftboss "):
        return command
    return f"SHIFTBOSS_DB={shlex.quote(str(database.absolute()))} {command}"


def find_state_folder() -> Path | None:
    """The state folder that all commands here are about, with a server or without one: the nearest
    in which a server or a run has left something, else the nearest; None if there is none."""
    folders = list(state_folders())
    used = (folder for folder in folders if _is_used(folder))
    return next(used, folders[0] if folders else None)


def default_database() -> str:
    """The database of runs here for which none was chosen."""
    folder = find_state_folder()
    if folder is None or folder == _current_folder() / STATE_FOLDER:
        return str(Path(STATE_FOLDER) / DATABASE_FILE)
    return str(folder / DATABASE_FILE)


def state_folders() -> Iterator[Path]:
    """The state folders that commands look in, the nearest first.

    SHIFTBOSS_DB names one, as it does for servers and runs. Those of other users are left out: a
    command sends its tokens to the server that it finds there.
    """
    database = _database_from_environment()
    if database is not None:
        chosen = database.absolute().parent
        if _is_own(chosen.resolve()):
            yield chosen
        return
    here = _current_folder()
    yield from filter(_is_own, (folder / STATE_FOLDER for folder in (here, *here.parents)))


def _current_folder() -> Path:
    """The root, if the current folder was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")


def _is_used(folder: Path) -> bool:
    return (
        _has_runs(folder)
        or _database_in(folder) is not None
        or read_server_file(folder) is not None
    )


def _has_runs(folder: Path) -> bool:
    try:
        return any((folder / RUNS_FOLDER).iterdir())
    except OSError:
        return False


def _database_in(folder: Path) -> Path | None:
    """None if SHIFTBOSS_DB names a database server: a file here is an old one then."""
    chosen = os.environ.get("SHIFTBOSS_DB", "")
    if "://" in chosen:
        return None
    database = folder / (Path(chosen).name if chosen else DATABASE_FILE)
    return database if database.is_file() else None


def _database_from_environment() -> Path | None:
    database = os.environ.get("SHIFTBOSS_DB", "")
    return Path(database) if database and "://" not in database else None


def _is_own(folder: Path) -> bool:
    try:
        status = folder.lstat()  # a link may have come with a cloned repository
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    except OSError:
        return False
