"""Names and defaults that several packages share. Constants only: hooks load this module."""

from __future__ import annotations

from typing import Final

HOST: Final = "127.0.0.1"
PORT: Final = 7432
ADDRESS: Final = f"http://{HOST}:{PORT}"

# Where servers and runs keep their state, in the folder that they are started in.
STATE_FOLDER: Final = ".shiftboss"
DATABASE_FILE: Final = "shiftboss.db"
RUNS_FOLDER: Final = "runs"
# In the folder of an attempt: the output of its agent.
OUTPUT_LOG: Final = "output.log"
ERROR_LOG: Final = "errors.log"
# Beside the database file.
BACKUPS_FOLDER: Final = "backups"
# Of a backup, or a restored database, that is not complete yet.
PART_SUFFIX: Final = ".part"

# As plans name it.
DEFAULT_AGENT: Final = "claude"

# The names of variables and of a file, not their values.
TOKEN_VARIABLE: Final = "SHIFTBOSS_TOKEN"  # noqa: S105
TOKEN_FILE_VARIABLE: Final = "SHIFTBOSS_TOKEN_FILE"  # noqa: S105
# So that a named token is recognised where it does not belong: in a file, in a log, elsewhere.
TOKEN_PREFIX: Final = "sbt_"  # noqa: S105
OPERATOR_TOKEN_VARIABLE: Final = "SHIFTBOSS_OPERATOR_TOKEN"  # noqa: S105
OPERATOR_TOKEN_FILE: Final = "operator-token"  # noqa: S105

# A file with the authorities that clients trust for the server.
CA_VARIABLE: Final = "SHIFTBOSS_CA"

# Set for the agents of a run.
TASK_VARIABLE: Final = "SHIFTBOSS_TASK"
MCP_URL_VARIABLE: Final = "SHIFTBOSS_MCP_URL"

# The server sends a comment every 15 seconds: three missing ones mean a dead connection.
STREAM_SILENCE_SECONDS: Final = 45.0
# Of a worker's evidence that its contract is wrong.
EVIDENCE_CHARACTERS_MAX: Final = 10_000

# How many connections a server keeps open, and how many requests of one client it takes.
CONNECTIONS_MAX: Final = 20_000
REQUESTS_PER_SECOND: Final = 5_000
# How far the clock of a server's machine may be from the database's.
CLOCK_SKEW_MAX_SECONDS: Final = 300.0
