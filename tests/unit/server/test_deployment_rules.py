"""In what servers of one database differ, which versions work together, when one is ready."""

from __future__ import annotations

import json

import pytest

from shiftboss.cli.common.receipts import is_signed_after
from shiftboss.rules.deployment.readiness import DISK_BYTES_MIN, DiskSpace, reason_of_disk
from shiftboss.rules.deployment.records import DeploymentServer
from shiftboss.rules.deployment.servers import (
    LIVING_MS,
    facts_of,
    find_differences,
    is_living,
    polling_at,
    token_mark,
    work_together,
)

pytestmark = pytest.mark.requirement("OWN-05")


def server(name: str, version: str = "0.2.0", **facts: object) -> DeploymentServer:
    return DeploymentServer(
        name, "host", f"http://{name}", version, 1000, 1000, None, json.dumps(facts)
    )


def found(*servers: DeploymentServer, retired: tuple[str, ...] = ()) -> dict[str, str]:
    return {each.name: each.severity for each in find_differences(servers, retired)}


SAME = {"key_id": "k1", "operator_token": "aaaa", "policy": "p1"}


def test_servers_that_agree_have_no_differences() -> None:
    assert found(server("a", **SAME), server("b", **SAME)) == {}
    assert found(server("a", **SAME)) == {}


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (server("b", **SAME | {"operator_token": "bbbb"}), {"operator_token": "warning"}),
        (server("b", **SAME | {"policy": "p2"}), {"policy": "warning"}),
        (server("b", **SAME | {"key_id": "k2"}), {"key": "information"}),
        (server("b", "0.3.1", **SAME), {"version": "information"}),
        (server("b", "0.4.0", **SAME), {"version": "problem"}),
        # An older version may not say everything.
        (server("b", "0.1.0"), {"version": "information"}),
    ],
)
def test_a_difference_is_named(other: DeploymentServer, named: dict[str, str]) -> None:
    assert found(server("a", **SAME), other) == named


def test_a_retired_key_in_use_is_a_problem() -> None:
    assert found(server("a", **SAME), retired=("k1",)) == {"key": "problem"}


def test_a_difference_says_which_servers_agree_and_tells_no_digest() -> None:
    (difference,) = find_differences(
        [server("a", token="aaaa"), server("b", token="bbbb"), server("c", token="aaaa")], ()
    )
    assert "http://a, http://c; http://b" in difference.detail
    assert "aaaa" not in difference.detail
    assert "--token-file" in difference.todo


def test_a_digest_is_too_short_to_guess_by() -> None:
    digests = {token_mark([b"token %d" % number]) for number in range(300)}
    assert all(digest is not None and len(digest) == 4 for digest in digests)
    assert len(digests) > 250
    assert token_mark([]) is None


def test_a_server_that_misses_its_renewals_or_has_stopped_is_not_living() -> None:
    here = server("a")
    assert is_living(here, 1000 + LIVING_MS - 1)
    assert not is_living(here, 1000 + LIVING_MS)
    assert not is_living(here._replace(stopped_at_ms=1001), 1002)


@pytest.mark.parametrize("facts", ["", "[]", "{", "null", '"x"'])
def test_facts_that_cannot_be_read_say_nothing(facts: str) -> None:
    assert facts_of(server("a")._replace(facts=facts)) == {}


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("0.2.0", "0.2.9", True),
        ("0.2.0", "0.3.0", True),
        ("0.2.0", "0.4.0", False),
        ("0.9.0", "0.10.0", True),
        ("1.0.0", "0.9.0", False),
        ("1.2.3", "1.1.0rc1", True),
        ("dev", "dev", True),
        ("dev", "0.2.0", False),
    ],
)
def test_neighbouring_minor_versions_work_together(one: str, other: str, *, together: bool) -> None:
    assert work_together(one, other) == work_together(other, one) == together


def test_a_disk_that_is_nearly_full_is_a_reason() -> None:
    full = DiskSpace("database", "/var", DISK_BYTES_MIN - 1, 10**12)
    reason = reason_of_disk(full)
    assert reason is not None
    assert reason.name == "disk"
    assert "63 MB left (/var)" in reason.detail
    assert reason_of_disk(full._replace(free_bytes=DISK_BYTES_MIN)) is None


def test_a_receipt_that_was_accepted_after_its_key_was_retired_is_not_believed() -> None:
    assert not is_signed_after("2026-01-05T10:00:00Z", "2026-01-05T10:00:00Z")
    assert not is_signed_after("2026-01-05T10:00:59Z", "2026-01-05T10:00:00Z")
    assert is_signed_after("2026-01-05T10:01:01Z", "2026-01-05T10:00:00Z")


def test_workers_that_wait_at_any_of_the_servers_are_known() -> None:
    one = server("a", polling={"shop": ["w1", "w2"], "bank": ["w3"]})
    two = server("b", polling={"shop": ["w2", "w4"]})
    older, damaged = server("c"), server("d", polling=3)
    assert polling_at([one, two, older, damaged]) == {
        "shop": {"w1", "w2", "w4"},
        "bank": {"w3"},
    }
