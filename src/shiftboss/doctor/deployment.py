"""Asks the server about itself and the other servers on its database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from shiftboss.doctor.findings import Finding, ok, problem, warning
from shiftboss.errors import ShiftbossError
from shiftboss.rules.deployment.readiness import DISK_BYTES_LOW, DOCTOR, megabytes
from shiftboss.rules.documents.wording import pluralize

# Calls an operation that only the operator may use.
CallOperator = Callable[[str], bytes]
Members = Mapping[str, Any]

CLOCK_SKEW_MS_MAX: Final = 1000
_CREDENTIAL_TODO: Final = (
    "give it to every server; a file is read again by itself, a variable needs a restart"
)
_LOG: Final = "look into the log of the server"


def check_deployment(call: CallOperator) -> list[Finding]:
    try:
        view = json.loads(call("show_deployment"))
    except ShiftbossError as error:
        todo = error.hint or "run it in the folder of the server, or set SHIFTBOSS_OPERATOR_TOKEN"
        text = f"the server was not asked about itself: {error.detail}"
        return [warning("servers", text, todo)]
    return judge_deployment(view)


def judge_deployment(view: Members) -> list[Finding]:
    return [
        *_readiness(view),
        *_servers(view),
        *_keys(view),
        *_clock(view),
        *_disks(view),
        *_credentials(view),
        *_verifiers(view),
        *_webhooks(view),
    ]


def _readiness(view: Members) -> Iterator[Finding]:
    for reason in view.get("reasons", ()):
        text = f"the server is not ready ({reason['name']}): {reason['detail']}"
        yield problem("servers", text, _todo(reason))
    for degraded in view.get("warnings", ()):
        if degraded["name"] == "notifications":
            continue  # `check_notifications` says more about them
        yield warning(degraded["name"], degraded["detail"], _todo(degraded))


def _todo(finding: Members) -> str:
    """The advice, and the command that shows more, unless this is its output."""
    todo, command = finding.get("todo") or _LOG, finding.get("command")
    return f"{todo}: {command}" if command and command != DOCTOR else todo


def _servers(view: Members) -> Iterator[Finding]:
    level = {"problem": problem, "warning": warning}
    serious = [each for each in view.get("differences", ()) if each["severity"] in level]
    for each in serious:
        yield level[each["severity"]]("servers", each["detail"], each["todo"])
    if view["store"] == "postgres" and view.get("leader") is None:
        text = "no server leads: leases do not end, CI is not watched"
        yield warning("servers", text, "look again in half a minute: shiftboss servers")
    living = [server for server in view["servers"] if server["state"] == "living"]
    if not serious:
        versions = ", ".join(sorted({server["version"] for server in living}))
        text = f"{pluralize(len(living), 'server')} of version {versions}"
        leader = next((each for each in living if each["server_id"] == view.get("leader")), None)
        yield ok("servers", text if leader is None else f"{text}, led by {leader['address']}")


def _keys(view: Members) -> Iterator[Finding]:
    keys = view.get("keys", ())
    retired = sum(1 for key in keys if key.get("retired_at"))
    text = f"receipts of {pluralize(len(keys), 'key')} verify"
    yield ok("keys", f"{text}, {retired} of them retired" if retired else text)


def _clock(view: Members) -> Iterator[Finding]:
    addresses = {server["server_id"]: server["address"] for server in view["servers"]}
    for server_id, skew_ms in view.get("clock_skew_ms", {}).items():
        if abs(skew_ms) > CLOCK_SKEW_MS_MAX:
            text = (
                f"the clock of {addresses.get(server_id, server_id)} differs from that of the "
                f"database by {skew_ms / 1000:.1f} s"
            )
            yield warning("clock", text, "set it, or start time synchronisation: timedatectl")


def _disks(view: Members) -> Iterator[Finding]:
    for disk in view.get("disks", ()):
        text = f"the disk of the {disk['what']} has {megabytes(disk['free_bytes'])} left"
        if disk["free_bytes"] >= DISK_BYTES_LOW:  # else it is a reason or a warning of the server
            yield ok("disk", text)


def _credentials(view: Members) -> Iterator[Finding]:
    for text in view.get("credentials", ()):
        yield problem("credentials", text, _CREDENTIAL_TODO)


def _verifiers(view: Members) -> Iterator[Finding]:
    """Each claim that waits is listed by `check_claims`."""
    verifies = any(each["verifies"] for each in view["servers"] if each["state"] == "living")
    claims = view.get("waiting_claims", ())
    if not verifies and not view.get("verifiers"):
        yield (problem if claims else warning)(
            "verifiers",
            "claims are not verified: no server verifies, and no verifier has asked for one",
            "start one: shiftboss verifier",
        )


def _webhooks(view: Members) -> Iterator[Finding]:
    seen = view.get("webhooks", {})
    if seen:
        latest = ", ".join(f"{repo} at {at}" for repo, at in seen.items())
        yield ok("webhooks", f"last seen: {latest}")
