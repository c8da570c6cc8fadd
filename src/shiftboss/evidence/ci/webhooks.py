"""What a forge tells by itself: which commits are worth a look now. It is never proof."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final

from shiftboss.errors import Forbidden, InvalidRequest
from shiftboss.protocol.policy import CiPolicy

_SIGNATURES: Final = {
    "github": ("x-hub-signature-256",),
    "forgejo": ("x-forgejo-signature", "x-gitea-signature", "x-hub-signature-256"),
}
_EVENTS: Final = ("x-forgejo-event", "x-gitea-event", "x-github-event")
# The member with the run or the job, by event.
_SUBJECTS: Final = {
    "workflow_run": "workflow_run",
    "workflow_job": "workflow_job",
    "action_run_success": "run",
    "action_run_failure": "run",
    "action_run_recover": "run",
}
_SHA: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def secret_of(policy: CiPolicy) -> str:
    """Empty: there is none, and nothing is signed with it."""
    return os.environ.get(policy.webhook_secret_variable or "", "")


def parse_webhook(
    provider: str, headers: Mapping[str, str], body: bytes, secret: str
) -> list[tuple[str, str]]:
    """Pairs of repository (`owner/name`) and commit; none for events that say nothing about CI.

    Raises Forbidden for what is not signed with the secret, InvalidRequest for what is not JSON.
    """
    said = {name.lower(): value for name, value in headers.items()}
    _check_signature(provider, said, body, secret)
    event = next((said[name] for name in _EVENTS if name in said), "")
    if event != "push" and event not in _SUBJECTS:
        return []
    try:
        payload = json.loads(body)
    except ValueError as error:
        raise InvalidRequest("the body of the webhook is not JSON") from error
    if not isinstance(payload, dict):
        raise InvalidRequest("the body of the webhook is not an object")
    return _commits(event, payload)


def _check_signature(provider: str, said: Mapping[str, str], body: bytes, secret: str) -> None:
    """The first signature that is there decides; an empty secret fits nothing."""
    names = _SIGNATURES.get(provider, ())
    given = next((said[name] for name in names if name in said), "")
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    sound = given.removeprefix("sha256=").strip().lower().encode(errors="replace")
    if not secret or not hmac.compare_digest(sound, expected.encode()):
        raise Forbidden(
            "the webhook is not signed with our secret",
            hint="the path ends in the name of a repo of the policy, and the forge signs with the "
            "secret that its ci.webhook_secret_variable names",
        )


def _commits(event: str, payload: dict[str, Any]) -> list[tuple[str, str]]:
    subject = payload if event == "push" else _member(payload, _SUBJECTS[event])
    repository = _member(payload, "repository") or _member(subject, "repository")
    name = repository.get("full_name")
    shas = (subject.get(one) for one in ("after", "head_sha", "commit_sha"))
    sha = next((one.lower() for one in shas if isinstance(one, str)), "")
    # A push of zeros has deleted a branch.
    if not isinstance(name, str) or not _SHA.fullmatch(sha) or not sha.strip("0"):
        return []
    return [(name, sha)]


def _member(payload: dict[str, Any], name: str) -> dict[str, Any]:
    value = payload.get(name)
    return value if isinstance(value, dict) else {}
