"""shiftboss doctor on a real server, real repositories, and a forge and runners that misbehave."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.handoffs.contract_fixtures import (
    PolicyServer,
    running_policy_server,
    write_policy,
)
from tests.commands import Done, shiftboss
from tests.forge import REPOSITORY, TOKEN, running_forge
from tests.repos import Repo
from tests.running import RunningServer

Findings = dict[str, list[dict[str, Any]]]

SYSTEMCTL = """#!/bin/sh
case "$1" in
list-unit-files) echo "forgejo-runner-1.service enabled"; echo "forgejo-runner-2.service enabled";;
list-units) echo "forgejo-runner-1.service loaded active running Runner";;
is-active) shift; for unit; do case $unit in *1.service) echo active;; *) echo failed;; esac; done;;
esac
"""
JOURNALCTL = "#!/bin/sh\necho 'runner: 502 Bad Gateway'\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PolicyServer]:
    with running_policy_server(tmp_path) as server:
        yield server


def found_in(done: Done) -> Findings:
    by_check: Findings = {}
    for one in json.loads(done.out)["findings"]:
        by_check.setdefault(one["check"], []).append(one)
    return by_check


def levels(findings: Findings, check: str) -> list[str]:
    return [one["level"] for one in findings[check]]


def programs(folder: Path, **scripts: str) -> str:
    """A PATH that finds these programs first."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name, text in scripts.items():
        (bin_folder / name).write_text(text)
        (bin_folder / name).chmod(0o755)
    return f"{bin_folder}:{os.environ['PATH']}"


@pytest.mark.requirement("CC-19")
def test_every_check_is_ok_on_a_fully_equipped_machine(server: PolicyServer) -> None:
    path = programs(
        server.folder,
        claude="#!/bin/sh\n",
        systemctl="#!/bin/sh\n",
        journalctl="#!/bin/sh\n",
    )
    operator = (server.folder / "state" / "operator-token").read_text().strip()
    done = server.run("doctor", PATH=path, COLUMNS="300", SHIFTBOSS_OPERATOR_TOKEN=operator)
    assert (done.code, done.err) == (0, ""), done
    rows = [line.split(maxsplit=2) for line in done.out.splitlines()[1:]]
    assert {row[1] for row in rows} == {"ok"}
    assert [row[0] for row in rows] == [
        *(
            "server",
            "store",
            "servers",
            "keys",
            "disk",
            "policy",
            "policy",
            "git",
            "repos",
            "sandbox",
            "forge",
            "runners",
            "queues",
            "claims",
            "agents",
        )
    ]
    assert rows[-1][2].strip() == "on the PATH: claude"


@pytest.mark.requirement("CC-19")
def test_without_a_server_the_other_checks_still_run(tmp_path: Path) -> None:
    done = shiftboss("doctor", "--json", url="http://127.0.0.1:9", folder=tmp_path)
    assert (done.code, done.err) == (1, "")
    findings = found_in(done)
    assert levels(findings, "server") == ["problem"]
    assert findings["server"][0]["todo"] == "start one with: shiftboss serve --port 9"
    assert levels(findings, "git") == ["ok"]
    assert "queues" not in findings


@pytest.mark.requirement("CC-19")
def test_offline_runners_and_a_502_in_their_log_are_reported(tmp_path: Path) -> None:
    path = programs(tmp_path, systemctl=SYSTEMCTL, journalctl=JOURNALCTL)
    nowhere = "http://127.0.0.1:9"
    done = shiftboss("doctor", "--json", url=nowhere, folder=tmp_path, PATH=path)
    offline, gateway = found_in(done)["runners"]
    assert offline["level"] == "problem"
    assert offline["message"].startswith("forgejo-runner-2.service is offline (failed)")
    assert "sudo systemctl restart forgejo-runner-2.service" in offline["todo"]
    assert gateway["level"] == "warning"
    assert "502 Bad Gateway" in gateway["message"]


@pytest.mark.requirement("CC-19")
def test_each_unusable_repo_is_reported(tmp_path: Path) -> None:
    dirty = Repo(tmp_path / "dirty")
    dirty.write({"new.txt": "x"})
    hook = dirty.path / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    dirty.git("config", "core.hooksPath", "/elsewhere")
    Repo(tmp_path / "other-branch")
    (tmp_path / "empty").mkdir()
    Repo(tmp_path / "long", "sha256")
    write_policy(
        tmp_path,
        long={"path": "long"},
        dirty={"path": "dirty"},
        branchless={"path": "other-branch", "branch": "release"},
        gone={"path": "gone"},
        nothing={"path": "empty"},
        remote={"url": "https://forge.example.org/x.git"},
    )
    done = shiftboss("doctor", "--json", url="http://127.0.0.1:9", folder=tmp_path)
    findings = found_in(done)
    by_repo = {row["message"].split()[0].rstrip(":"): row for row in findings["repos"]}
    assert {name: one["level"] for name, one in by_repo.items()} == {
        "long": "problem",
        "dirty": "warning",
        "branchless": "problem",
        "gone": "problem",
        "nothing": "problem",
        "remote": "warning",
    }
    assert by_repo["long"]["message"].startswith("long uses SHA-256 commit ids")
    assert by_repo["branchless"]["message"] == "branchless has no branch release"
    assert by_repo["dirty"]["message"] == "dirty has uncommitted changes in 1 file"
    (shadowed,) = findings["hooks"]
    assert (
        "core.hooksPath of dirty is /elsewhere: git ignores its own pre-push"
        in (shadowed["message"])
    )


@pytest.mark.requirement("CC-19")
def test_an_unreachable_forge_and_a_revoked_token_are_reported_without_showing_the_token(
    tmp_path: Path,
) -> None:
    with running_forge("forgejo-new") as forge:
        ci = {"provider": "forgejo", "url": forge.url, "repository": REPOSITORY}
        ci["token_variable"] = "FORGE_TOKEN"
        write_policy(
            tmp_path, one={"url": "https://x", "ci": ci}, two={"url": "https://y", "ci": ci}
        )

        def look(token: str) -> tuple[list[dict[str, Any]], str]:
            done = shiftboss(
                *("doctor", "--json"), url="http://127.0.0.1:9", folder=tmp_path, FORGE_TOKEN=token
            )
            return found_in(done)["forge"], done.out + done.err

        forge.accepted_token = TOKEN
        answers, text = look(TOKEN)
        assert [one["level"] for one in answers] == ["ok"]
        assert TOKEN not in text
        revoked, text = look("an-0ld-token")
        assert [one["level"] for one in revoked] == ["problem", "problem"]
        assert "refused the token" in revoked[0]["message"]
        assert "an-0ld-token" not in text
        missing, _ = look("")
        assert "there is no token in $FORGE_TOKEN" in missing[0]["message"]
        forge.is_down = True
        down, _ = look(TOKEN)
        assert [one["level"] for one in down] == ["problem", "problem"]
        assert "answered 502" in down[0]["message"]
        assert "runners reconnect by themselves. Do not restart CI runs" in down[0]["todo"]


@pytest.mark.requirement("CC-19")
def test_the_server_is_asked_about_its_forges_and_not_the_caller(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The caller has the token, and the server does not."""
    (tmp_path / ".shiftboss").mkdir()
    with running_forge("forgejo-new") as forge:
        forge.accepted_token = TOKEN
        ci = {"provider": "forgejo", "url": forge.url, "repository": REPOSITORY}
        ci["token_variable"] = "FORGE_TOKEN"
        policy = write_policy(tmp_path, one={"url": "https://x", "ci": ci})
        server = RunningServer(tmp_path / ".shiftboss" / "shiftboss.db", policy=str(policy))
        try:
            url = server.start().url
            done = shiftboss("doctor", "--json", url=url, folder=tmp_path, FORGE_TOKEN=TOKEN)
            (finding,) = found_in(done)["forge"]
            assert "there is no token in $FORGE_TOKEN" in finding["message"]
            elsewhere = tmp_path_factory.mktemp("elsewhere")
            done = shiftboss("doctor", "--json", url=url, folder=elsewhere)
            findings = found_in(done)
            for check in ("servers", "forge"):
                assert levels(findings, check) == ["warning"]
                assert "was not asked" in findings[check][0]["message"]
        finally:
            server.close()


@pytest.mark.requirement("CC-19")
def test_a_halted_server_and_a_bad_policy_are_reported_as_problems(server: PolicyServer) -> None:
    task_id = server.spawn("core", at_work=True)
    server.ok("failure", task_id, "a key is in it", "--type", "api_key_exposed_in_commit")
    (server.folder / "bad.yaml").write_text("repos: {core: {pth: x}}\n")
    done = server.run("doctor", "--policy", "bad.yaml")
    assert done.code == 1
    text = " ".join(done.out.split())
    assert "queues problem halt 1 stops app, core: a key is in it" in text
    assert "policy problem bad.yaml:1: repos.core.pth: is not a known key" in text
    assert "-> to see all problems, run: shiftboss policy check bad.yaml" in text
    assert done.err.startswith("problems: ")
