"""shiftboss fsck: checks every invariant on a snapshot of a database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftboss.cli.commands.server.serve_options import ExistingDb
from shiftboss.cli.common.command import Output, json_command
from shiftboss.cli.common.discovery import default_database
from shiftboss.cli.common.output import print_line
from shiftboss.cli.common.receipts import CannotRead
from shiftboss.errors import ShiftbossError
from shiftboss.rules.documents.wording import pluralize

if TYPE_CHECKING:
    from shiftboss.coordinator.invariants.checks import StoreReport
    from shiftboss.rules.contract.repo_graph import RepoGraph
    from shiftboss.store.snapshot_reading import SnapshotReading


class InvariantsBroken(ShiftbossError):
    code = "invariants_broken"
    title = "The database breaks its own rules"


@json_command("Print the findings as JSON.")
def fsck(
    db: ExistingDb = "",
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The public keys that receipts must verify with. Default: those in the database.",
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also check that the locked repos do not depend on each other."
        ),
    ] = None,
) -> Output:
    """Check every invariant of a database: rows, events, claims, receipts, locks.

    No row is changed. The exit code is 1 if anything is wrong. Run it while no server is running:
    otherwise it checks the state of one moment, and says so.
    """
    from shiftboss.coordinator.invariants.checks import check_store
    from shiftboss.store.snapshot_reading import read_snapshot

    db = db or default_database()
    public_key = None if key is None else _read_key(key)
    graph = _graph(policy)
    reading = read_snapshot(db, lambda tx: check_store(tx, public_key, graph))
    findings = _findings(reading)
    error = _broken(db, reading, len(findings))
    return Output.of(
        {
            "db": db,
            "findings": findings,
            "checked": _counts(reading.value),
            "receipts_verified": reading.value is not None and reading.value.receipts_verified,
            "in_use": reading.is_in_use,
        },
        lambda: _show(db, findings, reading.value),
        error,
        _notes(reading),
    )


def _read_key(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRead(f"cannot read {file}: {error}") from error


def _graph(policy: Path | None) -> RepoGraph | None:
    if policy is None:
        return None
    from shiftboss.evidence.survey.policy_file import load_policy
    from shiftboss.rules.contract.repo_graph import RepoGraph

    repos = load_policy(policy).repos
    return RepoGraph({name: repo.depends_on for name, repo in repos.items()})


def _findings(reading: SnapshotReading[StoreReport]) -> list[dict[str, Any]]:
    damage = [
        {
            "invariant": "damage",
            "swarm_id": None,
            "subject": "the database",
            "detail": text,
            "command": None,
        }
        for text in reading.damage
    ]
    broken = reading.value.broken if reading.value is not None else []
    return damage + [invariant._asdict() for invariant in broken]


def _broken(
    db: str, reading: SnapshotReading[StoreReport], findings: int
) -> InvariantsBroken | None:
    if not findings:
        return None
    hint = None
    if reading.damage and "://" not in db:
        from shiftboss.store.sqlite.damage import way_back

        hint = way_back(Path(db).resolve())
    return InvariantsBroken(f"{db}: {pluralize(findings, 'finding')}", hint=hint)


def _counts(report: StoreReport | None) -> dict[str, int] | None:
    if report is None:
        return None
    return {name: count for name, count in report._asdict().items() if type(count) is int}


def _notes(reading: SnapshotReading[StoreReport]) -> list[str]:
    notes = []
    if reading.is_in_use:
        notes.append("a server is using the database: this is its state of one moment")
    report = reading.value
    if report is not None and report.receipts and not report.receipts_verified:
        notes.append("receipts were not verified: the database has no keys; give them with --key")
    return notes


def _show(db: str, findings: list[dict[str, Any]], report: StoreReport | None) -> None:
    for finding in findings:
        swarm = f" of {finding['swarm_id']}" if finding["swarm_id"] else ""
        print_line(f"{finding['invariant']}: {finding['subject']}{swarm}: {finding['detail']}")
        if finding["command"]:
            print_line(f"  {finding['command']}")
    if report is not None and not findings:
        checked = ", ".join(
            pluralize(count, name.removesuffix("s"))
            for name, count in (_counts(report) or {}).items()
        )
        print_line(f"{db} is sound: {checked}")
