"""shiftboss backup and restore: saves the database of a server, and brings it back."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from shiftboss.cli.commands.server.serve_options import ExistingDb
from shiftboss.cli.common.command import Output, json_command
from shiftboss.cli.common.discovery import default_database
from shiftboss.cli.common.output import print_line
from shiftboss.cli.common.tokens import AgentIsNotOperator, is_agent
from shiftboss.defaults import BACKUPS_FOLDER
from shiftboss.rules.documents.wording import pluralize

NewFile = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="The new file. Default: in backups/, beside the database."),
]
BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]


@json_command("Print what was saved as JSON.")
def backup(
    file: NewFile = None,
    db: ExistingDb = "",
    damaged: Annotated[
        bool,
        typer.Option("--damaged", help="Save what can still be read of a damaged SQLite file."),
    ] = False,
) -> Output:
    """Save the database to a file, also while servers run.

    The file contains every swarm, task, event and receipt, is readable only by its owner, and is
    verified. It does not contain the signing key, the tokens, the logs and the copies of
    repositories.

    \b
    Example:
      shiftboss backup monday.backup
    """
    _check_is_operator()
    from shiftboss.store.backups.backup import back_up

    database = db or default_database()
    now_ms = time.time_ns() // 1_000_000
    report = back_up(database, file or _new_file(database), now_ms=now_ms, damaged=damaged)

    def view() -> None:
        print_line(f"saved {_counts(report.rows)} to {report.file}; it is verified")
        if report.incomplete:
            print_line(f"not all rows could be read: {', '.join(report.incomplete)}")
        command = ["shiftboss", "restore", report.file, "--force", "--db", database]
        if "://" not in database:  # the address of a server may contain a password
            print_line(f"to bring it back, stop the server and run: {shlex.join(command)}")

    return Output.of(report.as_json(), view)


@json_command("Print what was done as JSON.")
def restore(
    file: BackupFile,
    db: ExistingDb = "",
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace a database that is not empty, and keep it aside."),
    ] = False,
) -> Output:
    """Replace the database with a backup, while no server runs.

    The database that was there is kept: a SQLite file under another name, the tables of PostgreSQL
    in another schema. Attempts that began after the backup was made are over: their reports are
    refused.

    \b
    Example:
      shiftboss restore monday.backup --force
    """
    _check_is_operator()
    from shiftboss.store.backups.backup import restore as restore_backup

    now_ms = time.time_ns() // 1_000_000
    report = restore_backup(db or default_database(), file, force=force, now_ms=now_ms)

    def view() -> None:
        print_line(f"restored {_counts(report.rows)} from {report.file}")
        if report.kept is not None:
            print_line(f"the previous database is kept: {report.kept}")
        print_line(f"new attempts have epochs above {report.epoch_floor}")

    return Output.of(report.as_json(), view)


def _check_is_operator() -> None:
    if is_agent():
        raise AgentIsNotOperator


def _new_file(database: str) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    beside = Path(default_database() if "://" in database else database)
    return beside.resolve().parent / BACKUPS_FOLDER / f"{stamp}.backup"


def _counts(rows: dict[str, int]) -> str:
    return ", ".join(pluralize(count, table[:-1]) for table, count in rows.items())
