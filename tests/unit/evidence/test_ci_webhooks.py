"""Webhooks of forges: which are accepted, and what they contain."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest

from shiftboss.errors import Forbidden, InvalidRequest
from shiftboss.evidence.ci.webhooks import parse_webhook

SECRET = "w3bh00k"
SHA = "7f3a2b1" + "0" * 33
REPOSITORY = {"full_name": "alpha/alphavm"}


def signature(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def heard(provider: str, event: str, payload: Any) -> list[tuple[str, str]]:
    body = json.dumps(payload).encode()
    headers = (
        {"X-GitHub-Event": event, "X-Hub-Signature-256": f"sha256={signature(body)}"}
        if provider == "github"
        else {"X-Gitea-Event": event, "X-Gitea-Signature": signature(body)}
    )
    return parse_webhook(provider, headers, body, SECRET).commits


@pytest.mark.parametrize(
    ("provider", "event", "payload"),
    [
        ("github", "workflow_run", {"workflow_run": {"head_sha": SHA}, "repository": REPOSITORY}),
        ("github", "workflow_job", {"workflow_job": {"head_sha": SHA}, "repository": REPOSITORY}),
        ("github", "push", {"after": SHA, "repository": REPOSITORY}),
        ("forgejo", "workflow_run", {"workflow_run": {"head_sha": SHA}, "repository": REPOSITORY}),
        ("forgejo", "workflow_job", {"workflow_job": {"head_sha": SHA}, "repository": REPOSITORY}),
        ("forgejo", "push", {"after": SHA.upper(), "repository": REPOSITORY}),
        *(
            ("forgejo", event, {"run": {"commit_sha": SHA, "repository": REPOSITORY}})
            for event in ("action_run_success", "action_run_failure", "action_run_recover")
        ),
    ],
)
def test_events_name_a_repository_and_a_commit(provider: str, event: str, payload: Any) -> None:
    assert heard(provider, event, payload) == [("alpha/alphavm", SHA)]


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("ping", {"zen": "Keep it logically awesome."}),
        ("issues", {"repository": REPOSITORY, "after": SHA}),
        ("push", {"after": "0" * 40, "repository": REPOSITORY}),
        ("push", {"after": "../../etc", "repository": REPOSITORY}),
        ("push", {"after": SHA}),
        ("push", {"after": 7, "repository": "alpha/alphavm"}),
        ("workflow_run", {"repository": REPOSITORY}),
        ("workflow_run", {"workflow_run": None, "repository": None}),
    ],
)
def test_events_unrelated_to_ci_are_ignored(event: str, payload: Any) -> None:
    assert heard("github", event, payload) == []


def test_forgejos_own_signature_header_is_accepted() -> None:
    body = json.dumps({"after": SHA, "repository": REPOSITORY}).encode()
    headers = {"x-forgejo-event": "push", "X-FORGEJO-SIGNATURE": signature(body)}
    assert parse_webhook("forgejo", headers, body, SECRET).commits == [("alpha/alphavm", SHA)]
    with pytest.raises(Forbidden):
        parse_webhook("github", headers, body, SECRET)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Hub-Signature-256": ""},
        {"X-Hub-Signature-256": "sha256="},
        {"X-Hub-Signature-256": "ü" * 64},
        {"X-Hub-Signature-256": f"sha256={signature(b'{}', 'another secret')}"},
        {"X-Hub-Signature-256": f"sha256={signature(b'another body')}"},
        {"X-Hub-Signature": f"sha1={signature(b'{}')}"},
    ],
)
def test_wrong_signatures_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(Forbidden) as caught:
        parse_webhook("github", {"X-GitHub-Event": "push", **headers}, b"{}", SECRET)
    assert SECRET not in f"{caught.value.detail} {caught.value.hint}"


def test_without_a_secret_every_webhook_is_refused() -> None:
    headers = {"X-GitHub-Event": "push", "X-Hub-Signature-256": signature(b"{}", "")}
    with pytest.raises(Forbidden):
        parse_webhook("github", headers, b"{}", "")


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]", b"null"])
def test_a_signed_body_must_be_an_object(body: bytes) -> None:
    headers = {"X-GitHub-Event": "push", "X-Hub-Signature-256": signature(body)}
    with pytest.raises(InvalidRequest):
        parse_webhook("github", headers, body, SECRET)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_signed_body_of_any_depth_is_refused_as_not_json(opening: bytes) -> None:
    body = opening * 60_000
    headers = {"X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={signature(body)}"}
    with pytest.raises(InvalidRequest, match="not JSON"):
        parse_webhook("github", headers, body, SECRET)
