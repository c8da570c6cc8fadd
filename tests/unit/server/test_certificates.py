"""Loading the certificate and the key of a server, and loading them again."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import pytest

from shiftboss.server.http.certificates import BadCertificate, Certificates, certificates_at
from tests.certificates import DAY, Authority, Pair

pytestmark = pytest.mark.requirement("OWN-06")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.issue()


def refused(pair: Pair) -> BadCertificate:
    with pytest.raises(BadCertificate) as raised:
        Certificates(pair.cert, pair.key)
    return raised.value


def test_without_both_files_the_server_speaks_plain_http() -> None:
    assert certificates_at(None, None) is None


def test_half_a_pair_names_the_missing_option(pair: Pair) -> None:
    with pytest.raises(BadCertificate) as raised:
        certificates_at(pair.cert, None)
    assert (raised.value.field, raised.value.hint) == ("tls_key", "add --tls-key")
    with pytest.raises(BadCertificate) as raised:
        certificates_at(None, str(pair.key))
    assert (raised.value.field, raised.value.hint) == ("tls_cert", "add --tls-cert")


@pytest.mark.parametrize("which", ["cert", "key"])
@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file"), (b"", "PEM format"), (b"rubbish", "PEM format")]
)
def test_an_unusable_file_is_named_with_its_field(
    pair: Pair, which: str, content: bytes | None, why: str
) -> None:
    file = getattr(pair, which)
    file.unlink() if content is None else file.write_bytes(content)
    error = refused(pair)
    assert error.field == f"tls_{which}"
    assert str(file) in error.detail
    assert why in error.detail


def test_a_key_of_another_certificate_is_refused(authority: Authority, pair: Pair) -> None:
    other = authority.issue("other")
    error = refused(Pair(pair.cert, other.key))
    assert error.field == "tls_key"
    assert f"not the key of the certificate in {pair.cert}" in error.detail


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_that_others_can_use_is_refused(pair: Pair, mode: int) -> None:
    pair.key.chmod(mode)
    error = refused(pair)
    assert error.field == "tls_key"
    assert error.hint == f"run: chmod 600 {pair.key}"


def test_an_encrypted_key_is_refused_without_asking_for_a_password(authority: Authority) -> None:
    error = refused(authority.issue("secret", password=b"abc"))
    assert error.field == "tls_key"
    assert "encrypted" in error.detail


@pytest.mark.parametrize("valid", [(-2 * DAY, -DAY), (DAY, 2 * DAY)])
def test_a_certificate_that_no_client_accepts_is_logged(
    authority: Authority, caplog: pytest.LogCaptureFixture, valid: tuple[object, object]
) -> None:
    pair = authority.issue("old", valid=valid)  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING):
        Certificates(pair.cert, pair.key)
    assert f"no client will accept the certificate in {pair.cert}" in caplog.text


@pytest.mark.parametrize(("days", "is_told"), [(3, True), (30, False)])
def test_a_certificate_that_expires_soon_is_logged(
    authority: Authority, caplog: pytest.LogCaptureFixture, days: int, is_told: bool
) -> None:
    pair = authority.issue(valid=(-DAY, days * DAY + DAY / 2))
    with caplog.at_level(logging.WARNING):
        Certificates(pair.cert, pair.key)
    assert (f"the certificate in {pair.cert} expires in {days} days" in caplog.text) is is_told


def test_old_versions_of_tls_are_off(pair: Pair) -> None:
    context = Certificates(pair.cert, pair.key).context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_a_reload_that_fails_keeps_the_pair_in_use(authority: Authority, pair: Pair) -> None:
    certificates = Certificates(pair.cert, pair.key)
    loaded = certificates.context
    other = authority.issue("other")
    pair.cert.write_bytes(other.cert.read_bytes())
    with pytest.raises(BadCertificate):
        certificates.reload_certificates()
    assert certificates.context is loaded
    pair.key.write_bytes(other.key.read_bytes())
    certificates.reload_certificates()
    assert certificates.context is not loaded


@pytest.mark.parametrize(
    ("hosts", "host", "name"),
    [
        (("127.0.0.1", "localhost"), "127.0.0.1", "127.0.0.1"),
        (("localhost",), "127.0.0.1", "localhost"),
        (("localhost",), "::1", "localhost"),
        (("localhost",), "10.0.0.7", "10.0.0.7"),
        (("shiftboss.example.org",), "127.0.0.1", "127.0.0.1"),
    ],
)
def test_commands_on_the_same_machine_get_a_name_of_the_certificate(
    authority: Authority, hosts: tuple[str, ...], host: str, name: str
) -> None:
    pair = authority.issue(hosts=hosts)
    assert Certificates(pair.cert, pair.key).local_name(host) == name
