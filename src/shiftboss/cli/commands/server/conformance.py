"""shiftboss conformance: runs a worker or a server through the contracts of the documents."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftboss.cli.common.client import Client, NotShiftboss, RequestRefused
from shiftboss.cli.common.command import Output, print_output
from shiftboss.cli.common.options import CaFile, TokenFile
from shiftboss.cli.common.output import print_line
from shiftboss.cli.common.tokens import read_token
from shiftboss.errors import InvalidRequest, ShiftbossError

if TYPE_CHECKING:
    from shiftboss.conformance.checks import Check, Result
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from shiftboss.cli.common.output import printable

if TYPE_CHECKING:
    from rich.table import Table

    from shiftboss.conformance.checks import Result

Report = Callable[["Result"], None]

_PROFILES = ("auto", "bus", "packet")


class DoesNotConform(ShiftbossError):
    code = "does_not_conform"
    title = "A promise of the documents does not hold"


def conformance(
    worker: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Check the worker that this starts.")
    ] = None,
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="Check the server at this address.")
    ] = None,
    profile: Annotated[
        str, typer.Option(metavar="NAME", help="Of the worker: bus, packet, or auto.")
    ] = "auto",
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A check, a promise or a document. Repeatable."),
    ] = None,
    list_checks: Annotated[bool, typer.Option("--list", help="List the checks and exit.")] = False,
    seconds: Annotated[
        float, typer.Option(min=0.5, max=600, help="How long to wait for each thing.")
    ] = 20.0,
    token_file: TokenFile = None,
    ca: CaFile = None,  # noqa: ARG001 - exported already
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Check a worker or a server, in any language, against the documents.

    It calls no model. A worker gets a real server of its own, and tasks whose titles say what to
    do: docs/workers-in-other-languages.md has them, and complete workers.

    \b
    Examples:
      shiftboss conformance --worker "sh examples/workers/bus_worker.sh"
      shiftboss conformance --server http://127.0.0.1:7432 --only 000
    """
    if list_checks:
        print_output(_listed(only or []), as_json=as_json)
        return
    if (worker is None) == (server is None):
        raise InvalidRequest("give either --worker or --server", field="worker")
    if profile not in _PROFILES:
        raise InvalidRequest(f"profile: must be one of {', '.join(_PROFILES)}", field="profile")
    results: list[Result] = []
    report = results.append if as_json else _reporter(results)
    if worker is not None:
        subject = _check_worker(shlex.split(worker), profile, only or [], seconds, report)
    else:
        subject = "server"
        _check_server(str(server), token_file, only or [], seconds, report)
    print_output(_outcome(subject, results), as_json=as_json)


def _check_worker(
    argv: list[str], profile: Any, only: Sequence[str], seconds: float, report: Report
) -> str:
    """Returns what kind of worker it is."""
    from shiftboss.conformance.own_server import OwnServer
    from shiftboss.conformance.worker.harness import WaitLimits
    from shiftboss.conformance.worker.profiles import WorkerKit
    from shiftboss.conformance.worker_process import command_starter

    with tempfile.TemporaryDirectory(prefix="shiftboss-conformance-") as folder:
        own_server = OwnServer(Path(folder, "server")).start()
        try:
            start = command_starter(_absolute(argv))
            kit = WorkerKit(start, own_server, Path(folder, "worker"), WaitLimits(seconds))
            profile_name = kit.detect() if profile == "auto" else profile
            kit.run(profile_name, only, report)
        finally:
            own_server.kill()
    return f"{profile_name} worker"


def _check_server(
    address: str, token_file: Path | None, only: Sequence[str], seconds: float, report: Report
) -> None:
    from shiftboss.client.server_address import Server
    from shiftboss.conformance.server.kit import check_server

    server = Server.at(address, read_token(token_file))
    _check_is_reachable(server.address)
    check_server(server, only, seconds, report)


def _check_is_reachable(address: str) -> None:
    """Raises NoServer: once, and not in every check. A server of any kind may answer anything."""
    with contextlib.suppress(RequestRefused, NotShiftboss):
        Client(address).get("/health")


def _absolute(argv: list[str]) -> list[str]:
    """The worker runs in a folder of its own; files that the command names are of this one. Links
    stay links: by its link, a Python knows its environment."""
    if not argv:
        raise InvalidRequest("worker: is empty", field="worker")
    return [str(Path(word).absolute()) if Path(word).is_file() else word for word in argv]


def _listed(only: Sequence[str]) -> Output:
    from shiftboss.conformance.checks import chosen
    from shiftboss.conformance.server.kit import SERVER_CHECKS
    from shiftboss.conformance.worker.profiles import checks_of

    by_subject: dict[str, list[Check[Any]]] = {
        "bus worker": list(checks_of("bus")),
        "packet worker": list(checks_of("packet")),
        "server": list(SERVER_CHECKS),
    }
    picked = chosen([check for checks in by_subject.values() for check in checks], only)
    rows = [
        {
            "subject": subject,
            "check": check.name,
            "document": check.document,
            "promise": check.promise,
            "text": check.text,
            "required": check.required,
        }
        for subject, checks in by_subject.items()
        for check in checks
        if check in picked
    ]
    return Output.of({"checks": rows}, lambda: _show_list(rows))


def _show_list(rows: Sequence[dict[str, Any]]) -> None:
    from shiftboss.cli.common.output import show

    show(checks_table(rows))


def _reporter(results: list[Result]) -> Report:
    """Each line is shown when its check has ended: all of them take a while."""

    def report(result: Result) -> None:
        results.append(result)
        for line in result_lines(result):
            print_line(line)

    return report


def _outcome(subject: str, results: Sequence[Result]) -> Output:
    from shiftboss.conformance.checks import counts

    failures = [result for result in results if result.is_failure]
    error = None
    if failures:
        names = ", ".join(result.check.name for result in failures)
        error = DoesNotConform(f"does not conform: {names}")
    document = {
        "subject": subject,
        "conforms": not failures,
        **counts(results),
        "results": [result.as_json() for result in results],
    }
    return Output.of(document, lambda: print_line(f"{subject}: {summary(results)}"), error)


_MARKS: Final = {"holds": "✓", "broken": "✗", "not_offered": "–", "not_checked": "–"}
_WORDS: Final = {"not_offered": "not offered", "not_checked": "not checked"}


def result_lines(result: Result) -> Iterator[str]:
    """`✓ 001 BUS-02 registers: It registers ...`, and below a failure what was seen."""
    check = result.check
    line = f"{_MARKS[result.outcome]} {check.document} {check.promise} {check.name}: {check.text}"
    reason = printable(result.reason)
    if result.outcome in _WORDS:
        line += f" ({_WORDS[result.outcome]}: {reason})"
    yield line
    if result.outcome == "broken":
        yield f"    {reason}" + ("" if check.required else " (recommended, not required)")
        yield from (f"    | {printable(seen)}" for seen in result.wire)


def summary(results: Sequence[Result]) -> str:
    from shiftboss.conformance.checks import counts

    outcomes = counts(results)
    failures = sum(result.is_failure for result in results)
    text = f"{outcomes['holds']} hold, {failures} do not"
    if outcomes["broken"] > failures:
        text += f", {outcomes['broken'] - failures} only recommended do not"
    for name, words in _WORDS.items():
        if outcomes[name]:
            text += f", {outcomes[name]} {words}"
    return f"{text}; {sum(result.seconds for result in results):.0f} s"


def checks_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    from shiftboss.cli.common.tables import cell, plain_table

    table = plain_table("SUBJECT", "DOCUMENT", "PROMISE", "CHECK", "WHAT HOLDS")
    for row in rows:
        text = row["text"] if row["required"] else f"{row['text']} (recommended)"
        names = ("subject", "document", "promise", "check")
        table.add_row(*(cell(row[name]) for name in names), cell(text))
    return table
