"""TLS of all clients: which authorities they trust, and what a failed handshake means.

Certificates are always verified; nothing here turns that off. Imports only the standard library:
hooks use this module.
"""

from __future__ import annotations

import os
import ssl
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit

from shiftboss.defaults import CA_VARIABLE

if TYPE_CHECKING:
    from http.client import HTTPConnection

TlsFailure = Literal[
    "untrusted", "wrong_host", "expired", "not_yet_valid", "no_tls", "tls_expected", "handshake"
]

# For a Python whose OpenSSL was built for another system.
_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
# X509_V_ERR_... of OpenSSL.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_WRONG_NAMES: Final = frozenset({62, 64})
# What OpenSSL makes of an answer that is not TLS; the name depends on its version.
_NOT_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"}
)
# How our server, nginx, Go (Caddy, Traefik) and Apache answer plain HTTP on a port for TLS.
_TLS_EXPECTED: Final = (
    b'"code":"tls_required"',
    b"to HTTPS port",
    b"to an HTTPS server",
    b"to an SSL-enabled server port",
)


class TlsProblem(NamedTuple):
    failure: TlsFailure
    detail: str
    hint: str


def authorities(ca: str | None = None) -> str | None:
    """The file of the only authorities to trust. None: those of the system, or of SSL_CERT_FILE."""
    return ca or os.environ.get(CA_VARIABLE) or None


def client_context(ca: str | None = None) -> ssl.SSLContext:
    """Raises OSError if the file of authorities cannot be used; ssl.SSLError is one."""
    file = authorities(ca)
    if file is None:
        return system_context()
    status = os.stat(file)  # noqa: PTH116 - hooks do not load pathlib
    return _context_of(file, status.st_mtime_ns, status.st_size)


def system_context() -> ssl.SSLContext:
    """For servers of others, such as forges: SHIFTBOSS_CA is about our own."""
    return _system_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


# Loading the authorities of a system takes 20 ms. A file that was replaced is loaded again, so that
# a worker that runs for weeks learns of new authorities.
@lru_cache(maxsize=8)
def _context_of(file: str, _modified_ns: int, _bytes: int) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=file)
    # The file may hold the certificate of the server itself.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


@lru_cache(maxsize=8)
def _system_context(_cert_file: str | None, _cert_dir: str | None) -> ssl.SSLContext:
    """OpenSSL reads SSL_CERT_FILE and SSL_CERT_DIR itself."""
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if not (paths.cafile or paths.capath):
        bundle = next(filter(os.path.isfile, _BUNDLES), None)
        if bundle is not None:
            context.load_verify_locations(bundle)
    return context


def open_connection(url: SplitResult, seconds: float) -> HTTPConnection:
    """Connects with the first request. Raises OSError if the file of authorities cannot be used."""
    from http.client import HTTPConnection, HTTPSConnection  # most hooks need no server

    if url.scheme != "https":
        return HTTPConnection(url.hostname or "", url.port, timeout=seconds)
    return HTTPSConnection(url.hostname or "", url.port, timeout=seconds, context=client_context())


def plain_http_problem(status: int, reply: bytes) -> TlsProblem | None:
    """For a reply that says that plain HTTP came to a port for TLS. Nothing of the request was
    looked at, so it can be sent again."""
    if status != 400 or not any(words in reply for words in _TLS_EXPECTED):
        return None
    return TlsProblem(
        "tls_expected",
        "the server speaks TLS, and its address says http://",
        "use https:// in --server or SHIFTBOSS_URL",
    )


def tls_problem(error: BaseException, address: str, ca: str | None = None) -> TlsProblem | None:
    """What to say about an error while connecting. None if TLS was not the problem."""
    cause = _ssl_error(error)
    if cause is None:
        return None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _certificate_problem(cause, address, ca)
    if cause.reason in _NOT_TLS:
        return TlsProblem(
            "no_tls",
            f"what listens at {address} does not speak TLS",
            "check the port; a server without --tls-cert has an address with http://",
        )
    reason = (cause.reason or cause.strerror or str(cause)).lower().replace("_", " ")
    return TlsProblem(
        "handshake",
        f"no TLS connection to {address}: {reason}",
        "TLS 1.2 or newer is needed; the log of the server may say more",
    )


def _certificate_problem(
    error: ssl.SSLCertVerificationError, address: str, ca: str | None
) -> TlsProblem:
    host = urlsplit(address).hostname
    subject = f"the certificate of {address}"
    if error.verify_code in _WRONG_NAMES:
        return TlsProblem(
            "wrong_host",
            f"{subject} is for another name than {host}",
            "use a name that is in the certificate, with --server or SHIFTBOSS_URL; or add "
            f"{host} to the certificate",
        )
    if error.verify_code == _EXPIRED:
        return TlsProblem(
            "expired",
            f"{subject} has expired, or one above it has",
            "renew it on the server; if it is new, the clock of this machine is wrong",
        )
    if error.verify_code == _NOT_YET_VALID:
        return TlsProblem(
            "not_yet_valid",
            f"{subject} is not valid yet",
            "the clock of this machine or of the one that issued it is wrong",
        )
    return TlsProblem(
        "untrusted",
        f"{subject} is not trusted: {error.verify_message}",
        f"trusted are {_trusted(ca)}; name the file with its authority with --ca or {CA_VARIABLE}",
    )


def _trusted(ca: str | None) -> str:
    file = authorities(ca)
    if file is not None:
        return f"only the authorities in {file}"
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        if os.environ.get(name):
            return f"the authorities in {os.environ[name]} ({name})"
    return "the authorities of this system"


def _ssl_error(error: BaseException | None) -> ssl.SSLError | None:
    """The cause may be wrapped by HTTP clients, some levels deep."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return error
        error = error.__cause__ or error.__context__
    return None
