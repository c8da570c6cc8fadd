"""The options for the log of commands that run for long."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


Level = Annotated[
    LogLevel,
    typer.Option(
        "--log-level",
        envvar="SHIFTBOSS_LOG_LEVEL",
        help="The log level: info adds changes by operators and others, debug every request.",
    ),
]
Format = Annotated[
    LogFormat,
    typer.Option(
        "--log-format",
        envvar="SHIFTBOSS_LOG_FORMAT",
        help="Lines for people, or one JSON object per line.",
    ),
]
LogFile = Annotated[
    Path | None,
    typer.Option(
        "--log-file",
        envvar="SHIFTBOSS_LOG_FILE",
        metavar="FILE",
        help="The file to log to, instead of stderr. It may be moved away at any time.",
    ),
]
AuditFile = Annotated[
    Path | None,
    typer.Option(
        "--audit-log",
        envvar="SHIFTBOSS_AUDIT_LOG",
        metavar="FILE",
        help="A file that gets every audit line as JSON, whatever the log level: who changed what, "
        "and what was refused.",
    ),
]
AccessLogged = Annotated[
    bool,
    typer.Option("--access-log", help="Log every request, also at other levels than debug."),
]
