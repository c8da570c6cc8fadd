"""The evidence of a server: collected by a process of its own, signed in the server's process.

Verifying one claim takes about forty git processes and commands. Starting a process blocks the
process that starts it, and reading its output takes the interpreter's time; neither may delay a
response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from shiftboss.errors import EvidenceUnavailable
from shiftboss.evidence.keys import KEY_FILE, KeyFile
from shiftboss.evidence.port import Evidence
from shiftboss.evidence.subprocess.connection import EvidenceConnection, start_evidence_process
from shiftboss.protocol.claims.attestations import Envelope
from shiftboss.protocol.claims.receipts import ReceiptBody, SignedReceipt
from shiftboss.rules.claims.statements import StatementBody

P = ParamSpec("P")
R = TypeVar("R")


def _forwarded(
    question: Callable[Concatenate[Evidence, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[EvidenceProxy, P], Coroutine[Any, Any, R]]:
    """The method of the port, answered by the `Inspector` in the evidence process."""

    async def forward(proxy: EvidenceProxy, /, *args: P.args, **kwargs: P.kwargs) -> R:
        connection = await proxy.connect()
        answer: R = await connection.call(question.__name__, *args, **kwargs)
        return answer

    return forward


class EvidenceProxy:
    """The first question starts the process, and so does the next one after the process was
    killed; questions that were under way then fail with EvidenceUnavailable. The process ends with
    the server, however the server ends."""

    def __init__(self, folder: Path, own_repo: str | None, key_file: Path | None = None) -> None:
        """`key_file` is the signing key; None: that of the folder."""
        self.own_repo = own_repo
        self._folder = folder
        self._key_file = key_file
        self._keys = KeyFile(key_file or folder / KEY_FILE)
        self._connection: asyncio.Task[EvidenceConnection] | None = None
        self._is_closed = False
        # How often the process was started.
        self.starts = 0

    survey = _forwarded(Evidence.survey)
    identity = _forwarded(Evidence.identity)
    commit_of = _forwarded(Evidence.commit_of)
    is_on_branch = _forwarded(Evidence.is_on_branch)
    is_squash_of = _forwarded(Evidence.is_squash_of)
    work_since = _forwarded(Evidence.work_since)
    diff = _forwarded(Evidence.diff)
    ci_report = _forwarded(Evidence.ci_report)
    restart_ci = _forwarded(Evidence.restart_ci)
    context_material = _forwarded(Evidence.context_material)
    find_breakage = _forwarded(Evidence.find_breakage)
    verify = _forwarded(Evidence.verify)

    @property
    def public_key(self) -> str:
        return self._keys.key.public_pem

    @property
    def problem(self) -> str | None:
        """The next question starts the process again, if it can be started."""
        if self._is_closed or self._connection is None or not _has_failed(self._connection):
            return None
        if self._connection.cancelled():
            return "the start of the evidence process was cancelled"
        error = self._connection.exception()
        if error is not None:
            return f"the evidence process cannot be started: {error}"
        return "the evidence process has ended, or was killed"

    def replace_key(self, retired: Collection[str]) -> bool:
        return self._keys.replace(retired)

    def sign(self, body: ReceiptBody) -> SignedReceipt:
        return self._keys.key.sign(body)

    def attest(self, body: StatementBody) -> Envelope:
        return self._keys.key.attest(body)

    async def connect(self) -> EvidenceConnection:
        """Start the process unless it runs. A start continues when its caller is cancelled, because
        other callers may wait for it."""
        if self._is_closed:
            raise EvidenceUnavailable("the server is stopping")
        if self._connection is None or _has_failed(self._connection):
            self.starts += 1
            starting = start_evidence_process(self._folder, self._key_file)
            self._connection = asyncio.create_task(starting)
        return await asyncio.shield(self._connection)

    async def close(self) -> None:
        """Wait until the last checkout is removed and the process has ended."""
        self._is_closed = True
        if self._connection is None:
            return
        await asyncio.wait((self._connection,))
        if self._connection.exception() is not None:
            return
        connection = self._connection.result()
        try:
            if not connection.has_ended:
                await connection.call("close")
        except EvidenceUnavailable:
            if not connection.has_ended:
                raise
        finally:
            await connection.close()


def _has_failed(connection: asyncio.Task[EvidenceConnection]) -> bool:
    return connection.done() and (
        connection.cancelled()
        or connection.exception() is not None
        or connection.result().has_ended
    )
