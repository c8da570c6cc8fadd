"""The signing key as a file: created once, readable only by its owner."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from shiftboss.errors import EvidenceUnavailable
from shiftboss.evidence.keys import SigningKey

pytestmark = pytest.mark.requirement("OWN-02")

_START = """
import sys
from pathlib import Path
from shiftboss.evidence.keys import SigningKey
print("ready", flush=True)
sys.stdin.readline()
print(SigningKey.load_or_create(Path(sys.argv[1])).key_id)
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_key_is_created_once_and_readable_only_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "signing.pem"
    made = SigningKey.load_or_create(path)
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert list(path.parent.iterdir()) == [path]
    content = path.read_bytes()
    again = SigningKey.load_or_create(path)
    assert (again.key_id, again.public_pem) == (made.key_id, made.public_pem)
    assert path.read_bytes() == content
    assert SigningKey.load_or_create(tmp_path / "other.pem").key_id != made.key_id


@pytest.mark.parametrize("wrong", [0o644, 0o640, 0o604, 0o620])
def test_a_key_that_others_can_access_is_refused(tmp_path: Path, wrong: int) -> None:
    path = tmp_path / "signing.pem"
    SigningKey.load_or_create(path)
    path.chmod(wrong)
    with pytest.raises(EvidenceUnavailable, match=f"{wrong:04o}") as refused:
        SigningKey.load_or_create(path)
    assert f"chmod 600 {path}" in str(refused.value.hint)


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_a_damaged_key_is_refused_and_not_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "signing.pem"
    path.touch(0o600)
    path.write_bytes(content)
    with pytest.raises(EvidenceUnavailable, match="not an Ed25519 key"):
        SigningKey.load_or_create(path)
    assert path.read_bytes() == content


def test_servers_that_start_together_share_one_key(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "signing.pem"
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", _START, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for starter in starters:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "ready\n"
    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write("go\n")
        starter.stdin.flush()
    key_ids = {starter.communicate(timeout=20)[0] for starter in starters}
    assert key_ids == {f"{SigningKey.load_or_create(path).key_id}\n"}
    assert list(path.parent.iterdir()) == [path]
