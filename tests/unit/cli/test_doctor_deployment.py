"""What the doctor makes of what a server says about itself."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.cli.common.receipts import check_not_retired
from shiftboss.doctor.deployment import check_deployment, judge_deployment
from shiftboss.doctor.findings import Finding
from shiftboss.errors import Forbidden, InvalidReceipt

SERVER = {
    "server_id": "a-1",
    "address": "http://a",
    "version": "0.2.0",
    "state": "living",
    "verifies": True,
}
VIEW: dict[str, Any] = {
    "store": "postgres",
    "servers": [SERVER],
    "leader": "a-1",
    "keys": [{"key_id": "k"}],
    "disks": [{"what": "database", "path": "/var", "free_bytes": 2**40, "total_bytes": 2**41}],
}


def judged(**members: object) -> list[Finding]:
    return [each for each in judge_deployment(VIEW | members) if each.level != "ok"]


def test_a_deployment_that_is_well_has_no_warnings() -> None:
    assert judged() == []
    findings = judge_deployment(VIEW)
    assert [each.check for each in findings] == ["servers", "keys", "disk"]
    assert findings[0].message == "1 server of version 0.2.0, led by http://a"


@pytest.mark.parametrize(
    ("members", "check", "level", "words"),
    [
        ({"reasons": [{"name": "disk", "detail": "full"}]}, "servers", "problem", "(disk): full"),
        (
            {"differences": [{"severity": "warning", "detail": "differs", "todo": "fix"}]},
            *("servers", "warning", "differs"),
        ),
        ({"leader": None}, "servers", "warning", "no server leads"),
        ({"clock_skew_ms": {"a-1": -70_000}}, "clock", "warning", "http://a differs"),
        (
            {
                "disks": [{"what": "state folder", "path": "/v", "free_bytes": 2**29}],
                "warnings": [{"name": "disk", "detail": "512 MB left", "command": "df -h /v"}],
            },
            *("disk", "warning", "512 MB left"),
        ),
        ({"credentials": ["FORGE_TOKEN is not set"]}, "credentials", "problem", "FORGE_TOKEN"),
        (
            {"servers": [SERVER | {"verifies": False}]},
            *("verifiers", "warning", "claims are not verified"),
        ),
    ],
    ids=["reason", "difference", "leader", "clock", "disk", "credentials", "verifiers"],
)
def test_what_is_wrong_is_said_with_what_to_do(
    members: dict[str, object], check: str, level: str, words: str
) -> None:
    (finding,) = judged(**members)
    assert (finding.check, finding.level) == (check, level)
    assert words in finding.message
    assert finding.todo


def test_claims_that_nobody_verifies_are_a_problem() -> None:
    claim = {"bead_id": "t", "swarm_id": "s", "asked_at": "2027-01-15T08:00:00Z"}
    (finding,) = judged(servers=[SERVER | {"verifies": False}], waiting_claims=[claim])
    assert (finding.check, finding.level) == ("verifiers", "problem")


def test_without_the_token_of_the_operator_the_server_is_not_asked() -> None:
    def refuse(_operation: str) -> bytes:
        raise Forbidden("only the operator may do this")

    (finding,) = check_deployment(refuse)
    assert (finding.check, finding.level) == ("servers", "warning")
    assert "SHIFTBOSS_OPERATOR_TOKEN" in finding.todo


def test_a_receipt_that_was_signed_with_a_retired_key_is_refused() -> None:
    keys = [{"key_id": "k", "retired_at": "2026-01-05T10:00:00Z"}, {"key_id": "other"}]
    before = {"key_id": "k", "accepted_at": "2026-01-05T09:59:00Z"}
    after = {"key_id": "k", "accepted_at": "2026-01-05T11:00:00Z"}
    check_not_retired([before, after | {"key_id": "other"}], keys)
    with pytest.raises(InvalidReceipt, match="was retired at 2026-01-05T10:00:00Z"):
        check_not_retired([before, after], keys)
