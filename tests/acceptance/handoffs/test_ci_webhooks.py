"""Webhooks of forges against a real server: a signed one makes it check the commit at once."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.client import NO_CERTIFICATES
from tests.contract_server import ContractServer, repo_on_main
from tests.forge import REPOSITORY, TOKEN, Forge, Run, running_forge
from tests.repos import Repo
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("CC-03")

SECRET = "w3bh00k"
WORKER_TOKEN = "the-token-of-the-workers"


class WebhookServer:
    """The commit of `down-1` is followed, was checked once, and is not due for an hour."""

    def __init__(
        self,
        folder: Path,
        forge: Forge,
        secret_key: str = "webhook_secret_variable",
        secret_place: str = "HOOK_SECRET",
        **settings: object,
    ) -> None:
        self.forge = forge
        self.repo: Repo = repo_on_main(folder / "alphavm", {"a.txt": "1\n"})
        ci = forge.demand(poll_every=3600).policy.model_dump(mode="json", exclude_none=True)
        mute = {"path": str(self.repo.path), "ci": ci}
        (folder / "state").mkdir()
        self.contract_server = ContractServer(
            folder / "state",
            {
                "alphavm": mute | {"ci": ci | {secret_key: secret_place}},
                "mute": mute | {"path": f"{self.repo.path}-mute"},
                "unset": {
                    "path": f"{self.repo.path}-unset",
                    "ci": ci | {"webhook_secret_variable": "HOOK_UNSET"},
                },
            },
            **settings,
        )

    def follow(self, **jobs: str) -> Run:
        self.contract_server.begin("bd-1", "alphavm", "a.txt")
        self.sha = self.repo.commit("work", {"a.txt": "2\n"})
        run = self.forge.push(self.sha, **jobs)
        self.contract_server.push("bd-1", "alphavm", self.sha)
        # Stored in the same transaction that schedules the next check in an hour.
        self.contract_server.event("ci_run_found")
        return run

    def looks(self) -> int:
        return (
            self.forge.requests[f"/repos/{REPOSITORY}/actions/runs"]
            + (self.forge.requests[f"/api/v1/repos/{REPOSITORY}/actions/runs"])
        )

    def body(self, event: str = "workflow_run", **members: object) -> bytes:
        subject = {"action_run_success": "run"}.get(event, event)
        payload = {
            subject: {"head_sha": self.sha, "commit_sha": self.sha},
            "repository": {"full_name": REPOSITORY},
        }
        return json.dumps(payload | members).encode()

    def post(self, repo: str, headers: dict[str, str], body: bytes) -> httpx2.Response:
        """Without our token, under a foreign host name."""
        return httpx2.post(
            f"{self.contract_server.server.url}/ci/webhook/{repo}",
            headers={"Host": "shiftboss.example", **headers},
            content=body,
            timeout=30,
            trust_env=False,
            verify=NO_CERTIFICATES,
        )

    def tell(self, body: bytes, secret: str = SECRET, repo: str = "alphavm") -> httpx2.Response:
        return self.post(repo, signed("github", "workflow_run", body, secret), body)


def signed(forge: str, event: str, body: bytes, secret: str = SECRET) -> dict[str, str]:
    """The headers that each forge sends."""
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "github": {"X-GitHub-Event": event, "X-Hub-Signature-256": f"sha256={digest}"},
        "gitea": {
            "X-Gitea-Event": event,
            "X-Gitea-Signature": digest,
            "X-GitHub-Event": event,
            "X-Hub-Signature-256": f"sha256={digest}",
        },
        "forgejo": {
            "X-Forgejo-Event": event,
            "X-Forgejo-Signature": digest,
            "X-Gitea-Event": event,
            "X-Gitea-Signature": digest,
        },
    }[forge]


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_TOKEN", TOKEN)
    monkeypatch.setenv("HOOK_SECRET", SECRET)


@pytest.fixture
def webhooks(tmp_path: Path) -> Iterator[WebhookServer]:
    with running_forge("github") as forge:
        server = WebhookServer(tmp_path, forge)
        yield server
        server.contract_server.close()


@pytest.mark.parametrize(
    ("flavour", "event"),
    [
        ("github", "workflow_run"),
        ("gitea", "workflow_job"),
        ("forgejo-new", "action_run_success"),
    ],
)
def test_a_signed_webhook_makes_the_server_check_ci_at_once(
    tmp_path: Path, flavour: Any, event: str
) -> None:
    with running_forge(flavour) as forge:
        webhooks = WebhookServer(tmp_path, forge)
        try:
            run = webhooks.follow(test="running")
            run.jobs["test"] = "success"
            body = webhooks.body(event)
            response = webhooks.post("alphavm", signed(flavour.split("-")[0], event, body), body)
            assert (response.status_code, response.json()) == (200, {"looks": 1})
            assert webhooks.contract_server.event("ci_passed")["sha"] == webhooks.sha
        finally:
            webhooks.contract_server.close()


def test_webhooks_do_not_need_the_workers_token(tmp_path: Path) -> None:
    with running_forge("github") as forge:
        webhooks = WebhookServer(tmp_path, forge, token=WORKER_TOKEN, spawning="everybody")
        try:
            webhooks.follow(test="running").jobs["test"] = "success"
            assert webhooks.tell(webhooks.body()).json() == {"looks": 1}
            webhooks.contract_server.event("ci_passed")
            # Everything else is closed, whatever the path begins with.
            for path in ("/bus/list_repos", "/ci/webhook", "/ci/webhook/../../bus/list_repos"):
                response = httpx2.post(
                    f"{webhooks.contract_server.server.url}{path}",
                    json={},
                    timeout=30,
                    trust_env=False,
                    verify=NO_CERTIFICATES,
                )
                assert response.status_code == 401, path
        finally:
            webhooks.contract_server.close()


def test_a_redelivered_webhook_asks_the_forge_only_once(webhooks: WebhookServer) -> None:
    webhooks.follow(test="running")
    before = webhooks.looks()
    body = webhooks.body()
    assert [webhooks.tell(body).json()["looks"] for _ in range(20)] == [1] + [0] * 19
    wait_until(lambda: webhooks.looks() > before, "the look was made")
    # Another one is handled; by then the first ones would have caused all their checks.
    assert webhooks.tell(webhooks.body(action="completed")).json()["looks"] == 1
    wait_until(lambda: webhooks.looks() > before + 1, "the second look was made")
    assert webhooks.looks() == before + 2


def test_an_unsigned_webhook_changes_nothing_and_reveals_nothing(webhooks: WebhookServer) -> None:
    webhooks.follow(test="running").jobs["test"] = "success"
    before = webhooks.looks()
    body = webhooks.body()
    attempts = {
        "wrong secret": webhooks.tell(body, "guessed"),
        "another body": webhooks.post("alphavm", signed("github", "workflow_run", b"{}"), body),
        "no signature": webhooks.post("alphavm", {"X-GitHub-Event": "workflow_run"}, body),
        "unknown repo": webhooks.tell(body, repo="nothing-here"),
        "no variable": webhooks.tell(body, repo="mute"),
        "variable not set": webhooks.tell(body, "", repo="unset"),
    }
    answers = {(one.status_code, one.text) for one in attempts.values()}
    assert len(answers) == 1, {name: one.text for name, one in attempts.items()}
    problem = attempts["unknown repo"].json()
    assert (problem["status"], problem["code"]) == (403, "forbidden")
    assert "webhook_secret_variable" in problem["hint"]
    assert SECRET not in attempts["wrong secret"].text
    # All of them were answered before this one, and none made the server check CI.
    assert webhooks.tell(webhooks.body(action="completed")).json()["looks"] == 1
    webhooks.contract_server.event("ci_passed")
    assert webhooks.looks() == before + 1


def test_webhooks_unrelated_to_a_followed_commit_are_ignored(webhooks: WebhookServer) -> None:
    webhooks.follow(test="running")
    other = webhooks.body(repository={"full_name": "alpha/other"})
    elsewhere = webhooks.body(workflow_run={"head_sha": "1" * 40})
    for body, reason, detail in (
        (other, "other_repository", "alpha/other"),
        (elsewhere, "not_waiting", "1" * 12),
        (b"{}", "no_commit", "workflow_run"),
        (b"{}", "repeated", "received before"),
    ):
        answer = webhooks.tell(body).json()
        assert (answer["looks"], answer["reason"]) == (0, reason)
        assert detail in answer["detail"]
    for event in ("ping", ""):
        headers = {**signed("github", event, b'{"zen": 1}')}
        answer = webhooks.post("alphavm", headers, b'{"zen": 1}').json()
        assert answer["reason"] == ("event_ignored" if event else "repeated")
    assert webhooks.tell(b"no json").json()["code"] == "invalid_request"


def test_the_server_says_at_its_start_which_secret_it_lacks(webhooks: WebhookServer) -> None:
    server = webhooks.contract_server.server
    wait_until(lambda: "webhooks" in server.log, "the server says which secret it lacks")
    (line,) = server.log.splitlines()
    assert "there is no secret of the webhooks in $HOOK_UNSET (repo unset)" in line
    assert TOKEN not in line


def test_the_example_of_the_docs_works_with_a_secret_that_was_replaced(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    (make,) = [block for block in blocks if "openssl rand" in block]
    (send,) = [block for block in blocks if "openssl dgst" in block]
    with running_forge("github") as forge:
        webhooks = WebhookServer(tmp_path, forge, "webhook_secret_file", "../forge.secret")
        try:
            address = f"{webhooks.contract_server.server.url}/ci/webhook/alphavm"
            send = send.replace("http://127.0.0.1:7432/ci/webhook/app", address)
            send = send.replace("team/app", REPOSITORY)
            send = send.replace("$(cat forge.secret)", "$(cat ../forge.secret)")
            webhooks.follow(test="running").jobs["test"] = "success"
            assert json.loads(shell(send, webhooks.repo.path))["code"] == "forbidden"
            shell(make, tmp_path)
            assert json.loads(shell(send, webhooks.repo.path)) == {"looks": 1}
            webhooks.contract_server.event("ci_passed")
            shell(make, tmp_path)
            answer = json.loads(shell(send, webhooks.repo.path))
            assert answer["reason"] == "repeated", "the new secret counts without a restart"
        finally:
            webhooks.contract_server.close()


def shell(commands: str, folder: Path) -> str:
    return subprocess.run(
        ["bash", "-c", commands], cwd=folder, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def test_a_huge_body_is_refused(webhooks: WebhookServer) -> None:
    body = b"x" * (256 * 1024 + 1)
    response = webhooks.tell(body)
    assert (response.status_code, response.json()["code"]) == (413, "body_too_large")


def test_only_post_is_allowed(webhooks: WebhookServer) -> None:
    response = httpx2.get(
        f"{webhooks.contract_server.server.url}/ci/webhook/alphavm",
        timeout=30,
        trust_env=False,
        verify=NO_CERTIFICATES,
    )
    assert response.status_code == 405
