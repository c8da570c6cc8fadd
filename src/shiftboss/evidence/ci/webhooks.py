"""Webhooks of forges: which commits to ask CI about now. A webhook is never proof."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from shiftboss.errors import Forbidden, InvalidRequest

_SIGNATURES: Final = {
    "github": ("x-hub-signature-256",),
    "forgejo": ("x-forgejo-signature", "x-gitea-signature", "x-hub-signature-256"),
}
_EVENTS: Final = ("x-forgejo-event", "x-gitea-event", "x-github-event")
EVENT_CHARACTERS_MAX: Final = 100
# The member with the run or the job, by event.
_SUBJECTS: Final = {
    "workflow_run": "workflow_run",
    "workflow_job": "workflow_job",
    "action_run_success": "run",
    "action_run_failure": "run",
    "action_run_recover": "run",
}
_SHA: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class ForgeWebhook(NamedTuple):
    """A signed webhook. `commits` are pairs of repository (`owner/name`) and commit; none for
    events that do not concern CI."""

    event: str
    commits: list[tuple[str, str]]

    @property
    def concerns_ci(self) -> bool:
        return self.event == "push" or self.event in _SUBJECTS


def parse_webhook(
    provider: str, headers: Mapping[str, str], body: bytes, secret: str
) -> ForgeWebhook:
    """Raises Forbidden if the body is not signed with the secret, InvalidRequest if it is no
    JSON."""
    lowered = {name.lower(): value for name, value in headers.items()}
    _check_signature(provider, lowered, body, secret)
    event = next((lowered[name] for name in _EVENTS if name in lowered), "")[:EVENT_CHARACTERS_MAX]
    webhook = ForgeWebhook(event, [])
    if not webhook.concerns_ci:
        return webhook
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("the body of the webhook is not JSON") from error
    if not isinstance(payload, dict):
        raise InvalidRequest("the body of the webhook is not an object")
    return ForgeWebhook(event, _commits(event, payload))


def _check_signature(provider: str, headers: Mapping[str, str], body: bytes, secret: str) -> None:
    """The first signature header counts. An empty secret accepts nothing."""
    names = _SIGNATURES.get(provider, ())
    given = next((headers[name] for name in names if name in headers), "")
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    signature = given.removeprefix("sha256=").strip().lower().encode(errors="replace")
    if not secret or not hmac.compare_digest(signature, expected.encode()):
        raise Forbidden(
            "the webhook is not signed with the secret of the policy",
            hint="the path must end in the name of a repo of the policy, and the forge must sign "
            "with the secret in its ci.webhook_secret_variable or ci.webhook_secret_file",
        )


def _commits(event: str, payload: dict[str, Any]) -> list[tuple[str, str]]:
    subject = payload if event == "push" else _member(payload, _SUBJECTS[event])
    repository = _member(payload, "repository") or _member(subject, "repository")
    name = repository.get("full_name")
    shas = (subject.get(name) for name in ("after", "head_sha", "commit_sha"))
    sha = next((sha.lower() for sha in shas if isinstance(sha, str)), "")
    # A push whose new commit is all zeros has deleted a branch.
    if not isinstance(name, str) or not _SHA.fullmatch(sha) or not sha.strip("0"):
        return []
    return [(name, sha)]


def _member(payload: dict[str, Any], name: str) -> dict[str, Any]:
    value = payload.get(name)
    return value if isinstance(value, dict) else {}
