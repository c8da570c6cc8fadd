"""The commands for receipts: export, and verify with and without the server."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shiftboss.evidence.keys import SigningKey
from shiftboss.protocol.handoffs import canonical_json
from tests.acceptance.bus.bus_calls import InSwarm
from tests.acceptance.cli.handoff_commands import Handoffs
from tests.commands import shiftboss
from tests.repos import Repo
from tests.running import RunningServer

# Nothing listens there, so a command that needs a server fails.
NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def accepted(shared_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Handoffs:
    """One proven task, for tests that only read."""
    bus = InSwarm(shared_server.url)
    handoffs = Handoffs(shared_server, bus, Repo(tmp_path_factory.mktemp("proven") / "repo"))
    handoffs.accepted("t-1")
    bus.close()
    return handoffs


@pytest.fixture
def exported(accepted: Handoffs, tmp_path: Path) -> Path:
    file = tmp_path / "receipt.json"
    done = accepted.run("receipt", "export", "t-1", "--out", str(file))
    receipt_id = json.loads(file.read_bytes())["receipt"]["receipt_id"]
    assert done == (0, f"wrote receipt {receipt_id} to {file}\n", "")
    return file


@pytest.fixture
def key(accepted: Handoffs, tmp_path: Path) -> Path:
    file = tmp_path / "key.pem"
    done = shiftboss("receipt", "key", url=accepted.url)
    assert (done.code, done.err) == (0, "")
    file.write_text(done.out)
    return file


def verified(file: Path, key: Path) -> tuple[int, str, str]:
    return shiftboss("receipt", "verify", str(file), "--key", str(key), url=NOWHERE)


@pytest.mark.requirement("OWN-02")
def test_a_receipt_is_shown_and_listed(accepted: Handoffs) -> None:
    answer = accepted.json("receipt", "show", "t-1")["signed_receipt"]["receipt"]
    assert answer["commit"] == accepted.repo.head()
    shown = accepted.run("receipt", "show", "t-1").out
    assert answer["receipt_id"] in shown
    assert "It gives a token." in shown
    assert "1 file, +1 -1" in shown
    listed = shiftboss("receipt", "list", "--all", url=accepted.url).out.splitlines()
    (row,) = [line.split() for line in listed if accepted.swarm in line]
    assert row[:3] == ["t-1", accepted.swarm, answer["commit"][:12]]
    assert row[-3:] == ["Title", "of", "t-1"]
    unknown = accepted.run("receipt", "show", "t-9")
    assert unknown.err == (
        "Unknown task: t-9; `shiftboss task list` lists the existing ones; "
        "add it first if it is new\n"
    )


@pytest.mark.requirement("OWN-02")
def test_a_receipt_is_verified_without_a_server(exported: Path, key: Path) -> None:
    code, out, err = verified(exported, key)
    body = json.loads(exported.read_bytes())["receipt"]
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first.startswith(f"{exported} is genuine: receipt {body['receipt_id']}, signed with key")
    assert second == f"t-1 was accepted at {body['accepted_at']}, commit {body['commit']}"


@pytest.mark.requirement("OWN-02")
def test_without_a_key_the_servers_key_is_used_and_the_server_named(
    accepted: Handoffs, exported: Path
) -> None:
    done = shiftboss("receipt", "verify", str(exported), url=accepted.url)
    assert done.code == 0
    assert done.out.splitlines()[-1] == (
        f"the keys came from {accepted.url}; with --key you need not trust a server"
    )


@pytest.mark.requirement("OWN-02")
def test_without_a_key_and_a_server_a_key_is_asked_for(exported: Path) -> None:
    """A server that is started now would have another key."""
    nobody = shiftboss("receipt", "verify", str(exported), url=NOWHERE)
    assert (nobody.code, nobody.out) == (1, "")
    assert nobody.err == (
        f"no server at {NOWHERE}; give the public key of the server that signed it: "
        "--key key.pem (there, `shiftboss receipt key` prints it)\n"
    )


@pytest.mark.requirement("OWN-02")
def test_a_server_provides_its_key_before_the_first_receipt(server: RunningServer) -> None:
    done = shiftboss("receipt", "key", url=server.url)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("-----BEGIN PUBLIC KEY-----\n")
    assert shiftboss("receipt", "list", url=server.url).out == "no receipts\n"


def _other_commit(signed: dict[str, Any]) -> None:
    signed["receipt"]["commit"] = "0" * 40


def _no_failure(signed: dict[str, Any]) -> None:
    signed["receipt"]["checks"][-1]["subject"] = "Command passes: true"


def _further_member(signed: dict[str, Any]) -> None:
    signed["receipt"]["note"] = "trust me"


@pytest.mark.requirement("OWN-02")
@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (_other_commit, "The signature is wrong: the receipt was changed"),
        (_no_failure, "The signature is wrong: the receipt was changed"),
        (_further_member, "This is not a receipt: receipt.note: "),
        (lambda signed: signed.update(signature="AAAA"), "The signature is wrong"),
        (lambda signed: signed.clear(), "This is not a receipt: "),
    ],
    ids=["commit", "criterion", "member", "signature", "empty"],
)
def test_a_forged_receipt_is_refused_with_a_clear_message(
    exported: Path, key: Path, forge: Callable[[dict[str, Any]], None], message: str
) -> None:
    signed = json.loads(exported.read_bytes())
    forge(signed)
    exported.write_text(json.dumps(signed))
    code, out, err = verified(exported, key)
    assert (code, out) == (1, "")
    assert err.startswith(f"{exported} is not genuine: {message}")
    assert err.count("\n") == 1
    result = shiftboss("receipt", "verify", str(exported), "--key", str(key), "--json", url=NOWHERE)
    assert (result.code, json.loads(result.out)["genuine"]) == (1, False)


@pytest.mark.requirement("OWN-02")
def test_the_receipt_of_another_server_is_refused(exported: Path, tmp_path: Path) -> None:
    other = SigningKey.load_or_create(tmp_path / "other.pem")
    public = tmp_path / "public.pem"
    public.write_text(other.public_pem)
    code, _, err = verified(exported, public)
    assert code == 1
    assert f"but this key is {other.key_id}" in err


@pytest.mark.requirement("OWN-02")
def test_missing_files_are_one_line_errors(exported: Path, key: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    message = f"cannot read {missing}: No such file or directory\n"
    assert verified(missing, key) == (1, "", message)
    assert verified(exported, missing) == (1, "", message)


@pytest.mark.requirement("OWN-02")
def test_openssl_agrees_with_the_verification(exported: Path, key: Path, tmp_path: Path) -> None:
    """As described on the reference page."""
    signed = json.loads(exported.read_bytes())
    body = tmp_path / "body"
    signature = tmp_path / "signature"
    signature.write_bytes(base64.b64decode(signed["signature"]))
    check = ["openssl", "pkeyutl", "-verify", "-pubin", "-rawin", "-inkey", str(key)]
    check += ["-in", str(body), "-sigfile", str(signature)]
    body.write_bytes(b"shiftboss-receipt/3\n" + canonical_json(signed["receipt"]))
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0
    body.write_bytes(body.read_bytes().replace(b"t-1", b"t-2"))
    assert subprocess.run(check, capture_output=True, check=False).returncode != 0
