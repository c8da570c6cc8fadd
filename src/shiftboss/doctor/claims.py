"""Finds claims that wait for a verifier, or that no verifier can verify."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from shiftboss.doctor.findings import Finding, ok, problem, warning
from shiftboss.doctor.server import DoctorClient, call_bus
from shiftboss.errors import ShiftbossError
from shiftboss.rules.documents.wording import format_duration, pluralize

CLAIM_SECONDS: Final = 600
# Enough to see what is wrong; the rest usually has the same reason.
CLAIMS_NAMED_MAX: Final = 20

Members = Mapping[str, Any]


def check_claims(client: DoctorClient, now_ms: int) -> list[Finding]:
    """Of all swarms, as the server sees them."""
    try:
        answer = call_bus(client, "list_claims", all_swarms=True, limit=500)
    except ShiftbossError as error:
        return [problem("claims", error.detail, error.hint or "look into the log of the server")]
    return judge_claims(answer["claims"], answer["verifiers"], now_ms)


def judge_claims(
    claims: Sequence[Members], verifiers: Sequence[Members], now_ms: int
) -> list[Finding]:
    findings = [finding for claim in claims for finding in _about(claim, now_ms)][:CLAIMS_NAMED_MAX]
    if findings:
        return findings
    waiting = pluralize(len(claims), "claim")
    there = ", ".join(verifier["name"] for verifier in verifiers) or "none"
    return [ok("claims", f"{waiting} without a verdict, none for too long; verifiers: {there}")]


def _about(claim: Members, now_ms: int) -> Iterator[Finding]:
    name = f"claim {claim['claim_id']} of {claim['bead_id']} in {claim['swarm_id']}"
    retry = f"shiftboss claim retry {claim['bead_id']} --swarm {claim['swarm_id']}"
    seconds = (now_ms - claim["asked_at"]) // 1000
    if claim["escalated_at"] is not None and claim["state"] == "waiting":
        yield problem(
            "claims",
            f"{name} is stuck: {claim['why']}",
            f"make {claim['repo']} readable for a verifier, or start one where it is "
            f"(shiftboss verifier), then run: {retry}",
        )
    elif seconds > CLAIM_SECONDS and claim["why"] is None:
        yield warning(
            "claims",
            f"{name} has been with the verifier {claim['verifier']} for "
            f"{format_duration((now_ms - (claim['taken_at'] or claim['asked_at'])) // 1000)}",
            "its commands may take that long; look into the log of the server or the verifier",
        )
    elif seconds > CLAIM_SECONDS:
        yield warning(
            "claims",
            f"{name} has been waiting for {format_duration(seconds)}: {claim['why']}",
            "start more verifiers with shiftboss verifier, or start the server without "
            "--no-verifier",
        )
