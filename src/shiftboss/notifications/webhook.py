"""Webhooks: one POST, signed. Redirects are not followed, what the receiver answers is not read."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from shlex import quote
from typing import Final
from urllib.parse import urlsplit

import httpx2

from shiftboss import __version__
from shiftboss.errors import EvidenceUnavailable
from shiftboss.notifications.channel import NotSent, OutgoingMessage, below
from shiftboss.protocol.notifications.settings import ChannelSettings
from shiftboss.rules.notifications.bodies import generic_body, slack_body
from shiftboss.rules.notifications.settings_file import url_problem
from shiftboss.rules.notifications.signatures import BadSecret, key_of, signed_headers
from shiftboss.system.loopback import is_loopback
from shiftboss.system.private_files import read_private
from shiftboss.system.tls import system_context

RETRY_AFTER_SECONDS_MAX: Final = 3600.0

# They log the address of every request, which is a secret of Slack's webhooks.
for _name in ("httpx2", "httpcore2", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class _Place:
    """Where a secret is: in a variable of the server, or in a file, which is read every time."""

    def __init__(
        self, what: str, value: str | None, variable: str | None, file: Path | None
    ) -> None:
        self._what = what
        self._value = value
        self._variable = variable
        self._file = file

    def read(self) -> str:
        """Raises NotSent."""
        text = self._value or ""
        if self._variable is not None:
            text = os.environ.get(self._variable, "").strip()
        if self._file is not None:
            try:
                text = (
                    read_private(self._file, f"the {self._what}").decode(errors="replace").strip()
                )
            except EvidenceUnavailable as error:
                # A hint means that others can read it, too; that of a key is about copies.
                command = f"; `chmod 600 {quote(str(self._file))}` helps" if error.hint else ""
                raise NotSent(f"{error.detail}{command}") from None
        if not text:
            raise NotSent(f"there is no {self._what} in {self._file or f'${self._variable}'}")
        return text


class WebhookChannel:
    """See `shiftboss.notifications.channel.Channel`."""

    def __init__(self, settings: ChannelSettings, folder: Path) -> None:
        self._url = _Place(
            "address of the webhook",
            settings.url,
            settings.url_variable,
            below(folder, settings.url_file),
        )
        self._secret = _Place(
            "secret of the webhook",
            None,
            settings.secret_variable,
            below(folder, settings.secret_file),
        )
        self._is_slack = settings.kind == "slack"
        self._seconds = float(settings.timeout)
        self._client: httpx2.AsyncClient | None = None

    @property
    def has_secret(self) -> bool:
        return True

    @property
    def target(self) -> str:
        try:
            return urlsplit(self._read_url()).netloc
        except NotSent:
            return "unknown"

    def problem(self) -> str | None:
        try:
            self._read_url()
            if not self._is_slack:
                self._read_key()
        except NotSent as error:
            return error.text
        return None

    async def send(self, envelope: OutgoingMessage) -> None:
        url, headers, body = await asyncio.to_thread(self._request, envelope)
        try:
            async with asyncio.timeout(self._seconds):
                await self._post(url, headers, body)
        except TimeoutError:
            raise NotSent(f"no answer within {self._seconds:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            # Its text may have the address in it.
            raise NotSent(f"the receiver was not reached ({type(error).__name__})") from None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    def _request(self, envelope: OutgoingMessage) -> tuple[str, dict[str, str], bytes]:
        message = envelope.message
        url = self._read_url()
        headers = {"content-type": "application/json", "user-agent": f"shiftboss/{__version__}"}
        if self._is_slack:
            return url, headers, slack_body(message, envelope.address)
        body = generic_body(message, envelope.address)
        key = self._read_key()
        signed = signed_headers(key, message.message_id, envelope.at_seconds, body)
        return url, headers | signed, body

    async def _post(self, url: str, headers: dict[str, str], body: bytes) -> None:
        if self._client is None:
            self._client = httpx2.AsyncClient(
                verify=system_context(),
                follow_redirects=False,
                trust_env=False,
                timeout=httpx2.Timeout(self._seconds),
            )
        # Streamed, so that the body of the answer is not read: it may have no end.
        async with self._client.stream("POST", url, headers=headers, content=body) as reply:
            if not 200 <= reply.status_code < 300:
                raise NotSent(f"HTTP {reply.status_code}", _retry_after(reply))

    def _read_url(self) -> str:
        url = self._url.read()
        problem = url_problem(url, is_loopback)
        if problem is not None:
            raise NotSent(f"the address of the webhook {problem}")
        return url

    def _read_key(self) -> bytes:
        try:
            return key_of(self._secret.read())
        except BadSecret as error:
            raise NotSent(f"the secret of the webhook cannot be used: {error}") from None


def _retry_after(reply: httpx2.Response) -> float:
    """Only seconds: receivers that are busy use these."""
    text = reply.headers.get("retry-after", "")
    return min(float(text), RETRY_AFTER_SECONDS_MAX) if text.isdecimal() else 0.0
