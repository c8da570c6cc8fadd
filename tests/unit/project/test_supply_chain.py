"""What is installed, built and published: hashes, the audit, the secret scan, wheel and SBOM."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tools.lock_file import LOCK_FILE, ROOT, read_lock
from tools.sbom import bill_of_materials
from tools.secret_scan import scan

# Parts, so that this file holds none.
SECRETS = {
    "a private key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1234",
    "a key of Anthropic": "sk-" + "ant-api03-" + "a1B2" * 6,
    "a key of OpenAI": "sk-" + "proj-" + "a1B2" * 5 + "T3Blbk" + "FJ" + "a1B2" * 5,
    "a key of AWS": "AKIA" + "ABCDEFGH12345678",
    "a key of Google": "AIza" + "a1B2c" * 7,
    "a token of GitHub": "ghp_" + "a1B2" * 9,
    "a token of GitLab": "glpat-" + "a1B2" * 5,
    "a token of npm": "npm_" + "a1B2" * 9,
    "a token of PyPI": "pypi-" + "AgE" + "a1B2" * 13,
    "a token of Slack": "xoxb-" + "1234-" * 4 + "a1B2" * 3,
    "a key of Stripe": "sk_" + "live_" + "a1B2" * 6,
    "a JSON web token": "ey" + "J" + "a1B2" * 5 + ".ey" + "J" + "a1B2" * 5 + "." + "a1B2" * 6,
    "a password in an address": "postgresql://boss:" + "s3cr3t" + "@db/x",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_the_scan_finds_a_secret_and_does_not_repeat_it(kind: str) -> None:
    text = f"first line\n  value = '{SECRETS[kind]}'\n"
    (found,) = scan(text.encode(), "some/file")
    assert str(found) == f"some/file:2: {kind}"
    assert list(scan(text.replace("'\n", "'  # not a secret\n").encode(), "file")) == []


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", [b"://a:", b"sk-", b"eyJ" + b"a" * 20 + b".", b"-----BEGIN "])
def test_the_scan_of_a_hostile_file_ends(piece: bytes) -> None:
    assert len(list(scan(piece * 100_000, "file"))) <= 50


def test_every_locked_package_has_hashes_and_every_installation_requires_them() -> None:
    packages = read_lock(LOCK_FILE.read_text())
    assert len(packages) > 50
    assert [package.name for package in packages if not package.sha256] == []
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    installs = re.findall(r"(?:\$\(PIP\)|pip install )[^\n|]*", makefile.partition("setup:")[2])
    assert len(installs) >= 3
    for line in installs:
        # Our own package, without dependencies, is built with the locked backend.
        is_own = "--no-deps --no-build-isolation -e ." in line
        assert is_own or "--require-hashes" in line, line


class _Database(BaseHTTPRequestHandler):
    """Knows one vulnerability."""

    answer: bytes | None = None

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        results = [
            {"vulns": [{"id": "PYSEC-1"}]} if query["package"]["name"] == "uvicorn" else {}
            for query in asked
        ]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answer or json.dumps({"results": results}).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


@pytest.fixture
def database() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Database)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/querybatch"
    server.shutdown()
    thread.join()
    server.server_close()


def audit(url: str) -> tuple[int, str]:
    variables = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    done = subprocess.run(
        [sys.executable, "-m", "tools.audit"],
        cwd=ROOT,
        env=variables | {"SHIFTBOSS_AUDIT_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_audit_fails_for_a_known_vulnerability(database: str) -> None:
    code, output = audit(database)
    assert code == 1
    assert re.fullmatch(r"uvicorn [\d.]+: PYSEC-1\n", output)


@pytest.mark.parametrize("answer", [b"<html>a proxy</html>", b'{"results": []}', b"[]"])
def test_the_audit_is_skipped_with_the_reason_if_the_database_does_not_answer(
    database: str, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Database, "answer", answer)
    code, output = audit(database)
    assert code == 0
    assert output.startswith("audit skipped, the vulnerability database gives no answer: ")


def test_the_bill_of_materials_is_valid_and_complete() -> None:
    bill = bill_of_materials()
    assert bill == bill_of_materials()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None
    packages = read_lock(LOCK_FILE.read_text())
    assert len(bill["components"]) == len(packages)
    scopes = {component["name"]: component["scope"] for component in bill["components"]}
    assert {scopes[name] for name in ("uvicorn", "starlette", "psycopg")} == {"required"}
    assert {scopes[name] for name in ("pytest", "ruff", "hatchling")} == {"excluded"}


def test_the_wheel_has_the_same_bytes_wherever_and_whenever_it_is_built(tmp_path: Path) -> None:
    wheels = [
        _wheel_of_copy(tmp_path / name, seconds) for name, seconds in (("a", 0), ("b/c", 9e8))
    ]
    first, second = (hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels)
    assert wheels[0].name == wheels[1].name
    assert first == second


def _wheel_of_copy(folder: Path, seconds: float) -> Path:
    """The files of the copy are from another time, and its folder has another name."""
    folder.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(
        ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for path in folder.rglob("*"):
        os.utime(path, (1_600_000_000 + seconds, 1_600_000_000 + seconds))
    variables = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", "dist"],
        cwd=folder,
        env=variables,
        check=True,
        capture_output=True,
    )
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel
