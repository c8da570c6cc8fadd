"""A repeated spawn request is recognised, also after an upgrade."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.protocol.handoff_requests import SpawnSubtaskRequest
from shiftboss.rules.handoffs.spawn_requests import made_contract, request_digest

pytestmark = pytest.mark.requirement("HO-01")

SHORT: dict[str, Any] = {"bead_id": "t", "files": ["a.py"]}
LONG: dict[str, Any] = {
    "swarm_id": "s",
    "bead_id": "t",
    "files": ["src/**"],
    "subtask_title": "Prüfung",
    "success_criteria": ["It works"],
    "files_readonly": [],
    "landing": "squash",
    "policy": {"setup": ["npm ci"], "command_seconds": 60},
}
# Databases have these digests, so they must not change.
DIGESTS = {
    "323b17f875785652a471ac262d0b0e393a3dadbb6403cab5f80d4844305e8ce0": SHORT,
    "de74bed3a2b0bdb6a06bca400b06b40599eacb335894d59b6c70fa4f08bdf4ca": LONG,
}
WITH_DEFAULTS = {
    "5ee85e8b65d043cbd041f06f48acab58e6296ecb5b5bfe373db196852145b3dc": SHORT,
    "04ad0e87c535271ba691c876fa78b77854b74c12aa93b2d6d26a9e2195d861e3": LONG,
}
HELD_OUT = {"files": {"tests/test_a.py": "x"}}


def request(content: dict[str, Any], **members: Any) -> SpawnSubtaskRequest:
    return SpawnSubtaskRequest(**(content | members))


@pytest.mark.parametrize(("digest", "content"), DIGESTS.items())
def test_the_digest_of_a_request_never_changes(digest: str, content: dict[str, Any]) -> None:
    assert request_digest(request(content)) == digest


def test_a_member_that_has_its_default_does_not_count() -> None:
    spawn_request = request(SHORT)
    in_full = spawn_request.model_dump(mode="json") | {"submit": True, "merges": "u"}
    assert request_digest(SpawnSubtaskRequest(**in_full)) == request_digest(spawn_request)


@pytest.mark.parametrize(("digest", "content"), WITH_DEFAULTS.items())
def test_a_digest_that_included_defaults_is_still_recognised(
    digest: str, content: dict[str, Any]
) -> None:
    assert made_contract(request(content), digest)
    others: tuple[dict[str, Any], ...] = (
        {"files": ["b.py"]},
        {"strategy": "file-based"},
        {"held_out": HELD_OUT},
        {"policy": {"canaries": "off"}},
        {"policy": {"unverifiable": "refuse"}},
    )
    for members in others:
        assert not made_contract(request(content, **members), digest)


def test_held_out_tests_are_a_part_of_the_request() -> None:
    digest = request_digest(request(SHORT, held_out=HELD_OUT))
    assert made_contract(request(SHORT, held_out=HELD_OUT), digest)
    assert not made_contract(request(SHORT), digest)
