"""The certificate and the key of a server, which can be loaded again while it runs."""

from __future__ import annotations

import ipaddress
import logging
import os
import shlex
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NoReturn

from shiftboss.coordinator.clock import system_clock
from shiftboss.errors import ShiftbossError

if TYPE_CHECKING:
    from cryptography import x509

log = logging.getLogger(__name__)

Field = Literal["tls_cert", "tls_key"]

# Automatic renewals are done by then.
_RENEWAL_TIME: Final = timedelta(days=10)
_GROUP_AND_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class BadCertificate(ShiftbossError):
    code = "bad_certificate"
    title = "The certificate or its key cannot be used"


class Certificates:
    """`context` is for the next connection; those that are open keep theirs."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self.reload_certificates()

    def reload_certificates(self) -> None:
        """Read both files again. Raises BadCertificate, and keeps what was loaded before."""
        certificate, key = self._files
        leaf = _read_leaf(certificate)
        _check_key_file(key)
        # A new context: loading half of a pair into the one in use would break it.
        self.context = _load(certificate, key)
        self._leaf = leaf
        _warn_if_invalid(leaf, certificate)

    def local_name(self, host: str) -> str:
        """What clients on this machine should call it: `host`, or localhost if only that is in the
        certificate."""
        from cryptography import x509

        try:
            names = self._leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (x509.ExtensionNotFound, ValueError):
            return host
        address = ipaddress.ip_address(host)
        if address in names.get_values_for_type(x509.IPAddress) or not address.is_loopback:
            return host
        return "localhost" if "localhost" in names.get_values_for_type(x509.DNSName) else host


def certificates_at(certificate: str | Path | None, key: str | Path | None) -> Certificates | None:
    """None: the server speaks plain HTTP. Raises BadCertificate."""
    if certificate is not None and key is not None:
        return Certificates(Path(certificate), Path(key))
    if certificate is None and key is None:
        return None
    missing, option = ("tls_key", "--tls-key") if key is None else ("tls_cert", "--tls-cert")
    raise BadCertificate(
        f"{missing}: TLS needs the certificate and its key", field=missing, hint=f"add {option}"
    )


def _read_leaf(path: Path) -> x509.Certificate:
    """The certificate of the server itself is the first of the file."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0]
    except OSError as error:
        _refuse("tls_cert", path, f"it cannot be read: {error.strerror}", error)
    except ValueError as error:
        _refuse("tls_cert", path, "it holds no certificate in PEM format", error)


def _check_key_file(path: Path) -> None:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except OSError as error:
        _refuse("tls_key", path, f"it cannot be read: {error.strerror}", error)
    if mode & _GROUP_AND_OTHERS:
        raise BadCertificate(
            f"tls_key: {path} can be read by other users (mode {mode:04o})",
            field="tls_key",
            hint=f"run: chmod 600 {shlex.quote(str(path))}",
        )


def _load(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, _no_password)
    except _EncryptedKeyError as error:
        _refuse("tls_key", key, "it is encrypted, and nobody can be asked for the password", error)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            _refuse("tls_key", key, f"it is not the key of the certificate in {certificate}", error)
        _refuse("tls_key", key, "it holds no private key in PEM format", error)
    except OSError as error:
        _refuse("tls_key", key, f"it cannot be read: {error.strerror}", error)
    return context


class _EncryptedKeyError(Exception):
    pass


def _no_password() -> str:
    """Else OpenSSL asks on the terminal, forever if there is nobody."""
    raise _EncryptedKeyError


def _refuse(field: Field, path: Path, why: str, error: Exception) -> NoReturn:
    raise BadCertificate(
        f"{field}: cannot use {path}: {why}",
        field=field,
        hint="--tls-cert is a PEM file with the certificate and those between it and its "
        "authority, --tls-key one with its private key",
    ) from error


def _warn_if_invalid(leaf: x509.Certificate, path: Path) -> None:
    now = datetime.fromtimestamp(system_clock() / 1000, UTC)
    left = leaf.not_valid_after_utc - now
    if timedelta(0) <= left < _RENEWAL_TIME:
        log.warning("the certificate in %s expires in %d days", path, left.days)
    if not leaf.not_valid_before_utc <= now <= leaf.not_valid_after_utc:
        log.warning(
            "no client will accept the certificate in %s: it is valid from %s to %s",
            path,
            leaf.not_valid_before_utc.isoformat(),
            leaf.not_valid_after_utc.isoformat(),
        )
