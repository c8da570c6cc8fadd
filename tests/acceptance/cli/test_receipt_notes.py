"""Receipts for other tools: in-toto envelopes, and the git notes that carry them to every clone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]

from shiftboss.client.server_address import Server
from shiftboss.orchestrator.landing.receipt_notes import note_landing
from shiftboss.orchestrator.run.server_client import RunServerClient
from shiftboss.rules.runs.squash import squash_message
from tests.acceptance.bus.bus_calls import InSwarm
from tests.acceptance.cli.handoff_commands import HONEST, Handoffs
from tests.commands import Done, shiftboss
from tests.repos import ENVIRONMENT, Repo
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("OWN-18")

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to.md"
# Nothing listens there, so a command that needs a server fails.
NOWHERE = "http://127.0.0.1:1"
NOTES = "refs/notes/shiftboss"


class Landing(NamedTuple):
    """Accepted work of t-1 that landed on `main` as `squash`, with its note."""

    work: Handoffs
    commit: str
    squash: str
    receipt: dict[str, Any]


@pytest.fixture
def work(shared_server: RunningServer, tmp_path: Path) -> Handoffs:
    return accepted(shared_server, tmp_path)


@pytest.fixture(scope="module")
def landing(shared_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Landing:
    """For tests that only add notes of other commits."""
    work = accepted(shared_server, tmp_path_factory.mktemp("landing"))
    commit, squash = work.repo.head(), squashed(work)
    noted = work.json("receipt", "note", "t-1", "--landed-as", squash)
    assert (noted["commit"], noted["changed"]) == (squash, True)
    return Landing(work, commit, squash, receipt_of(work))


@pytest.fixture(scope="module")
def key(shared_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("key") / "key.pem"
    file.write_text(shiftboss("receipt", "key", url=shared_server.url).out)
    return file


def accepted(server: RunningServer, folder: Path) -> Handoffs:
    """An accepted task that is to land on `main`."""
    bus = InSwarm(server.url)
    handoffs = Handoffs(server, bus, Repo(folder / "repo"))
    handoffs.spawn("t-1", more=("--target", "main", "--landing", "squash"))
    handoffs.repo.commit("work", HONEST)
    assert handoffs.run("complete", "t-1").code == 0
    bus.close()
    return handoffs


def squashed(work: Handoffs) -> str:
    """Land the work on main as a run would; the squash. Main has moved on before."""
    repo, commit = work.repo, work.repo.head()
    repo.on_main({"README.md": "# Other\n"})
    tree = repo.git("merge-tree", "--write-tree", "main", commit).splitlines()[0]
    message = squash_message(
        "Work", bead_id="t-1", swarm_id=work.swarm, receipt_id=None, commit=commit
    )
    squash = repo.git("commit-tree", tree, "-p", "main", "-m", message)
    repo.git("update-ref", "refs/heads/main", squash)
    return squash


def receipt_of(work: Handoffs) -> dict[str, Any]:
    receipt: dict[str, Any] = work.json("receipt", "show", "t-1")["signed_receipt"]["receipt"]
    return receipt


def verify_commit(folder: Path, commit: str, key: Path, *options: str) -> Done:
    command = ("receipt", "verify", "--commit", commit, "--key", str(key), *options)
    return shiftboss(*command, url=NOWHERE, folder=folder)


def verify_file(file: Path, key: Path) -> Done:
    return shiftboss("receipt", "verify", str(file), "--key", str(key), url=NOWHERE)


def cloned(work: Handoffs, folder: Path, branch: str, *refs: str) -> Path:
    """A clone with its notes, as the docs say to fetch them."""
    clone = ["clone", "--quiet", "--single-branch", "--branch", branch]
    for command in (
        ["git", *clone, f"file://{work.repo.path}", str(folder)],
        ["git", "-C", str(folder), "fetch", "--quiet", "origin", *refs],
    ):
        subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)
    return folder


def test_an_exported_envelope_is_verified_by_another_library(
    landing: Landing, key: Path, tmp_path: Path
) -> None:
    file, receipt_id = tmp_path / "envelope.json", landing.receipt["receipt_id"]
    done = landing.work.run("receipt", "export", "t-1", "--in-toto", "--output", str(file))
    assert done == (0, f"wrote receipt {receipt_id} to {file}\n", "")
    text = file.read_text()
    envelope = Envelope.from_dict(json.loads(text))
    (key_id,) = envelope.signatures
    public = SSlibKey.from_crypto(load_pem_public_key(key.read_bytes()), key_id)
    envelope.verify([public], 1)
    statement = json.loads(envelope.payload)
    assert statement["predicate"] == landing.receipt
    assert statement["subject"][0]["digest"] == {"gitCommit": landing.commit}
    done = verify_file(file, key)
    assert done.code == 0, done
    assert done.out.startswith(f"{file} is genuine: receipt {receipt_id}, signed with key {key_id}")
    # The id of the receipt is enough, in any swarm.
    by_id = shiftboss("receipt", "export", receipt_id, "--in-toto", url=landing.work.url)
    assert json.loads(by_id.out) == json.loads(text)
    file.write_text(text.replace("application/vnd.in-toto+json", "application/json"))
    assert (
        "is not genuine: The type of the payload is application/json" in verify_file(file, key).err
    )


def test_the_commands_of_the_how_to_verify_an_envelope(
    landing: Landing, key: Path, tmp_path: Path
) -> None:
    """Without those of Shiftboss, which wrote the files."""
    section = HOW_TO.read_text().partition("check a receipt with other tools\n")[2]
    scripts = [
        re.sub(r"^shiftboss .*$", "", script, flags=re.MULTILINE)
        for script in re.findall(r"^```bash\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)[:2]
    ]
    file = tmp_path / "bd-7.intoto.json"
    landing.work.run("receipt", "export", "t-1", "--in-toto", "--out", str(file))
    shutil.copy(key, tmp_path / "key.pem")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def run(script: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-e", "-c", script]
        return subprocess.run(
            command, cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True, check=False
        )

    by_library, by_openssl = map(run, scripts)
    assert by_library.stdout == f"https://shiftboss.dev/receipt/v3 {landing.commit}\n", by_library
    assert by_openssl.returncode == 0, by_openssl
    envelope = json.loads(file.read_bytes())
    file.write_text(json.dumps(envelope | {"payload": "e30="}))
    assert [run(script).returncode for script in scripts] == [1, 1]


def test_a_clone_verifies_the_note_of_an_accepted_commit(
    landing: Landing, key: Path, tmp_path: Path
) -> None:
    clone = cloned(landing.work, tmp_path / "clone", "task", f"{NOTES}:{NOTES}")
    done = verify_commit(clone, "HEAD", key)
    assert done.code == 0, done
    first, second = done.out.splitlines()
    assert first.startswith(f"{landing.commit} is genuine: receipt {landing.receipt['receipt_id']}")
    assert second.endswith(f"commit {landing.commit}")


def test_the_note_of_a_squash_names_the_receipt_of_what_was_squashed(
    landing: Landing, key: Path, tmp_path: Path
) -> None:
    """The clone does not have the squashed commit itself."""
    clone = cloned(landing.work, tmp_path / "clone", "main", f"{NOTES}:{NOTES}")
    done = verify_commit(clone, "HEAD", key)
    assert done.code == 0, done
    first, second, third = done.out.splitlines()
    assert first.startswith(f"{landing.squash} is genuine")
    assert second.endswith(f"commit {landing.commit}")
    assert third == "it landed on main as this squash"
    facts = json.loads(verify_commit(clone, "HEAD", key, "--json").out)
    assert (facts["genuine"], facts["commit"]) == (True, landing.squash)
    (receipt,) = facts["receipts"]
    assert receipt["receipt_id"] == landing.receipt["receipt_id"]
    assert (receipt["commit"], receipt["landed_as"]) == (landing.commit, landing.squash)
    gone = verify_commit(clone, landing.commit, key)
    assert gone.err.startswith(f"there is no commit {landing.commit} in the repository")


def test_a_note_that_was_moved_to_another_commit_is_refused(landing: Landing, key: Path) -> None:
    repo = landing.work.repo
    for noted in (landing.commit, landing.squash):
        repo.git("notes", "--ref=shiftboss", "copy", "--force", noted, repo.base)
        done = verify_commit(repo.path, repo.base, key)
        assert done.code == 1
        assert done.err.startswith(
            f"{repo.base} is not genuine: The note is not about the commit {repo.base}, but about "
        )


def test_the_server_vouches_only_for_a_squash_that_it_finds(work: Handoffs, key: Path) -> None:
    other = work.repo.on_main({"README.md": "# Other\n"})
    done = work.run("receipt", "note", "t-1", "--landed-as", other)
    assert done.code == 1
    assert f"{other} is not a squash of {work.repo.head()[:12]}" in done.err
    assert work.repo.git("for-each-ref", "refs/notes") == ""
    done = verify_commit(work.repo.path, "HEAD", key)
    hint = f"notes are fetched by name: git fetch origin {NOTES}:{NOTES}"
    assert done == (1, "", f"{work.repo.head()} has no note in {NOTES}; {hint}\n")
    both = shiftboss("receipt", "verify", "a", "--commit", "b", url=NOWHERE)
    assert (both.code, "give either a file or --commit" in both.err) == (2, True)


@pytest.mark.anyio
async def test_a_note_that_fails_is_a_warning_with_the_command_that_repairs_it(
    work: Handoffs, key: Path
) -> None:
    commit = work.repo.head()
    task = {
        "bead_id": "t-1",
        "commit": commit,
        "base_commit": work.repo.base,
        "repo": str(work.repo.path),
        "receipt_id": receipt_of(work)["receipt_id"],
    }
    squash = squashed(work)
    work.repo.git("update-ref", "refs/notes/shiftboss/in-the-way", commit)
    async with RunServerClient(Server.at(work.url), work.swarm) as client:
        warning = await note_landing(client, task, squash)
        assert warning.startswith(f"its receipt is not in {NOTES}: writing notes: ")
        command = warning.rpartition("(shiftboss ")[2].removesuffix(")").split()
        assert command == ["receipt", "note", "t-1", "--swarm", work.swarm, "--landed-as", squash]
        work.repo.git("update-ref", "-d", "refs/notes/shiftboss/in-the-way")
        repaired = shiftboss(*command, url=work.url, folder=work.repo.path)
        assert (repaired.code, repaired.err) == (0, ""), repaired
        assert verify_commit(work.repo.path, squash, key).code == 0
        notes = work.repo.git("rev-parse", NOTES)
        assert await note_landing(client, task, squash) == ""
        assert work.repo.git("rev-parse", NOTES) == notes, "it was noted already"
        only_reads = {**task, "commit": work.repo.base}
        assert await note_landing(client, only_reads, work.repo.base) == ""
        assert work.repo.git("rev-parse", NOTES) == notes
