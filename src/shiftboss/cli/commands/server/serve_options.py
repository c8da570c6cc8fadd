"""The options of `shiftboss serve`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from shiftboss.defaults import DATABASE_FILE, STATE_FOLDER

DEFAULT_DB: Final = str(Path(STATE_FOLDER) / DATABASE_FILE)


class CpuChoice(StrEnum):
    AUTO = "auto"
    ALL = "all"


class Spawners(StrEnum):
    EVERYBODY = "everybody"
    OPERATOR = "operator"


Host = Annotated[
    str,
    typer.Option(
        envvar="SHIFTBOSS_HOST",
        metavar="HOST",
        help="The address to listen on. One that other machines can reach needs a token.",
    ),
]
Port = Annotated[
    int,
    typer.Option(
        envvar="SHIFTBOSS_PORT",
        metavar="PORT",
        min=0,
        max=65535,
        help="The port to listen on; 0 means any free port.",
    ),
]
ServerTokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="A file with the token that every client must send (mode 600). "
        "Without it, the token comes from SHIFTBOSS_TOKEN.",
    ),
]
Db = Annotated[
    str,
    typer.Option(
        envvar="SHIFTBOSS_DB",
        metavar="DB",
        help="A SQLite file, or postgresql://... for a PostgreSQL server.",
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="With PostgreSQL: the schema of this deployment, which is created if it is missing. "
        "Other commands take it as a part of the address: postgresql://...?schema=NAME.",
    ),
]
Processes = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        max=64,
        help="Run N server processes behind the port (PostgreSQL only). Each also listens on its "
        "own port; these follow the main port.",
    ),
]
# Of commands about a database that is there already.
ExistingDb = Annotated[
    str,
    typer.Option(
        envvar="SHIFTBOSS_DB",
        metavar="DB",
        help="A SQLite file, or postgresql://... for a PostgreSQL server. Default: that of "
        ".shiftboss here or in a parent folder.",
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The folder of the signing key, the operator's token and copies of repositories. "
        "Default: beside the database file, or .shiftboss.",
    ),
]
RequireTokens = Annotated[
    bool,
    typer.Option(
        "--require-tokens",
        envvar="SHIFTBOSS_REQUIRE_TOKENS",
        help="Refuse requests without a token, on a loopback address too: everybody needs one of "
        "`shiftboss token create`, the shared one, or the operator's.",
    ),
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        envvar="SHIFTBOSS_KEY_FILE",
        metavar="FILE",
        help="The signing key, an Ed25519 key in PEM form that only the server's user can read. "
        "Several servers may share it. Created if it does not exist. Default: in the state folder.",
    ),
]
Verifies = Annotated[
    bool,
    typer.Option(
        "--verifier/--no-verifier",
        help="Verify claims in this process, or leave them to `shiftboss verifier`.",
    ),
]
PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="The policy file. Default: shiftboss.yaml of the current folder, if it exists.",
    ),
]
SpawningBy = Annotated[
    Spawners | None,
    typer.Option(
        "--spawning",
        help="Who may give tasks their contracts, and so choose commands that run as the user of "
        "the server. Default: everybody on a loopback address if no token is set, or the operator.",
    ),
]
CpuOption = Annotated[
    CpuChoice,
    typer.Option(
        "--cpu",
        help="auto: keep the threads of the server on one core, but not in a container with a "
        "quota. all: let the system choose.",
    ),
]
PassEnvironment = Annotated[
    list[str] | None,
    typer.Option(
        envvar="SHIFTBOSS_PASS_ENVIRONMENT",
        metavar="NAME",
        help="An environment variable that contracts may pass to their commands. May be repeated; "
        "in SHIFTBOSS_PASS_ENVIRONMENT, names are separated by commas.",
    ),
]
RetentionDays = Annotated[
    int,
    typer.Option(
        metavar="DAYS",
        min=1,
        max=36_500,
        help="How long swarms that are over are kept, and old tasks and events of the others.",
    ),
]
StatementSeconds = Annotated[
    float,
    typer.Option(
        "--db-statement-seconds",
        metavar="SECONDS",
        min=0.5,
        max=600,
        help="How long PostgreSQL may take for a statement. Without an answer 2 s later, the "
        "connection is cut.",
    ),
]
LockSeconds = Annotated[
    float,
    typer.Option(
        "--db-lock-seconds",
        metavar="SECONDS",
        min=0.1,
        max=600,
        help="How long a request waits for a lock of another connection to PostgreSQL.",
    ),
]
LeadSeconds = Annotated[
    float,
    typer.Option(
        "--db-lead-seconds",
        metavar="SECONDS",
        min=1,
        max=300,
        help="How long a silent leader of several servers on PostgreSQL keeps the lead.",
    ),
]
ClockSkewMax = Annotated[
    float,
    typer.Option(
        "--clock-skew-max",
        envvar="SHIFTBOSS_CLOCK_SKEW_MAX",
        metavar="SECONDS",
        min=0,
        max=1_000_000_000,
        help="How far the clocks of this machine and of PostgreSQL may be apart; 0 means any "
        "distance. Leases go by the clock of PostgreSQL.",
    ),
]
RateLimit = Annotated[
    int,
    typer.Option(
        "--rate-limit",
        envvar="SHIFTBOSS_RATE_LIMIT",
        metavar="N",
        min=0,
        max=10_000_000,
        help="How many requests per second one client address may send; 0 means any number.",
    ),
]
ConnectionsMax = Annotated[
    int,
    typer.Option(
        "--connections-max",
        envvar="SHIFTBOSS_CONNECTIONS_MAX",
        metavar="N",
        min=1,
        max=1_000_000,
        help="How many connections may be open, as far as the limit of open files allows.",
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(
        "--tls-cert",
        metavar="FILE",
        help="Speak TLS with the certificate in this PEM file, those of its authorities included.",
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(
        "--tls-key",
        metavar="FILE",
        help="The private key of the certificate, a PEM file that only its owner can read.",
    ),
]
PublicUrl = Annotated[
    str | None,
    typer.Option(
        "--public-url",
        envvar="SHIFTBOSS_PUBLIC_URL",
        metavar="URL",
        help="The address by which clients reach the server, such as that of a proxy.",
    ),
]
BehindProxy = Annotated[
    list[str] | None,
    typer.Option(
        "--behind-proxy",
        envvar="SHIFTBOSS_BEHIND_PROXY",
        metavar="ADDR",
        help="A proxy, or a network of proxies, whose X-Forwarded-For, -Proto and -Host are "
        "believed. Separate several by commas. Needs a token.",
    ),
]
BeadsFolder = Annotated[
    Path | None,
    typer.Option(
        envvar="SHIFTBOSS_BEADS",
        metavar="DIR",
        help="A folder with a beads tracker. A submitted task that the server does not know is "
        "looked up there with bd.",
    ),
]
Traces = Annotated[
    bool | None,
    typer.Option(
        "--traces/--no-traces",
        help="Export the traces of tasks with OpenTelemetry. By default if "
        "OTEL_EXPORTER_OTLP_ENDPOINT is set.",
        show_default=False,
    ),
]
AddressAsJson = Annotated[bool, typer.Option("--json", help="Print the address as JSON.")]
SecretsFromInput = Annotated[
    bool,
    typer.Option(
        "--secrets-from-input",
        help="Read the operator's token and the environment from the first line of standard input.",
        hidden=True,
    ),
]
AnyPortIfTaken = Annotated[
    bool,
    typer.Option(
        "--any-port-if-taken", help="If the port is taken, listen on a free one.", hidden=True
    ),
]
EndsWithInput = Annotated[
    bool,
    typer.Option("--ends-with-input", help="Stop when standard input ends.", hidden=True),
]

DesktopNotifications = Annotated[
    bool,
    typer.Option(
        "--desktop-notifications",
        hidden=True,
        help="Notify the desktop, if there are no settings of notifications.",
    ),
]
