"""What a server reads again when it gets SIGHUP, as `systemctl reload` sends it.

Each part says what has changed. A part that cannot be read is logged and keeps its old value, and
the others continue.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from shiftboss.errors import ShiftbossError
from shiftboss.system.logs import Logs
from shiftboss.system.token_files import read_token_lines

log = logging.getLogger(__name__)

# Reads a part again; what has changed, one line each.
Reload = Callable[[], Awaitable[Sequence[str]]]

LOG_LEVEL_FILE: Final = "log-level"
_LEVELS: Final = ("debug", "info", "warning", "error")


class BadLogLevel(ShiftbossError):
    code = "bad_log_level"
    title = "The log level cannot be used"


class Reloads:
    """The parts by their names, in order. A signal that arrives meanwhile is answered later."""

    def __init__(self) -> None:
        self._parts: dict[str, Reload] = {}
        self._running: asyncio.Task[None] | None = None
        self._is_asked_again = False

    def add(self, name: str, reload: Reload) -> None:
        self._parts[name] = reload

    def request(self) -> None:
        """For a signal handler of the event loop."""
        self._is_asked_again = True
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._is_asked_again:
            self._is_asked_again = False
            await self.read_again()

    async def read_again(self) -> None:
        changes = 0
        for name, reload in self._parts.items():
            try:
                lines = await reload()
            except ShiftbossError as error:
                log.error("reload: %s stays as it was: %s", name, error.detail)  # noqa: TRY400
            except Exception:
                log.exception("reload: %s stays as it was", name)
            else:
                changes += len(lines)
                for line in lines:
                    log.warning("reload: %s: %s", name, line)
        if not changes:
            log.warning("reload: nothing else has changed")


class TokenReload:
    """`replace` gets the tokens that all share, and the operator's. Those without a file never
    change."""

    def __init__(
        self,
        replace: Callable[[Sequence[str], Sequence[str]], None],
        shared: Path | Sequence[str],
        operator: Path | Sequence[str],
    ) -> None:
        """Raises BadToken."""
        self._replace = replace
        self._sources = (shared, operator)
        self._tokens = (_read(shared), _read(operator))
        replace(*self._tokens)

    async def __call__(self) -> list[str]:
        before = self._tokens
        shared, operator = [await asyncio.to_thread(_read, source) for source in self._sources]
        self._tokens = shared, operator
        self._replace(shared, operator)
        names = ("the token that all share", "the operator's token")
        return [
            _change(name, old, new)
            for name, old, new in zip(names, before, self._tokens, strict=True)
            if old != new
        ]


def _read(source: Path | Sequence[str]) -> list[str]:
    return read_token_lines(source) if isinstance(source, Path) else list(source)


def _change(name: str, old: Sequence[str], new: Sequence[str]) -> str:
    added, removed = len(set(new) - set(old)), len(set(old) - set(new))
    return f"{name}: {added} added, {removed} removed, {len(new)} accepted now"


class CertificateReload:
    """New connections get the certificate that is in the files; open ones continue."""

    def __init__(self, reload: Callable[[], None]) -> None:
        self._reload = reload

    async def __call__(self) -> list[str]:
        await asyncio.to_thread(self._reload)
        return ["read again"]


class LogReload:
    """The log files are opened again, and the file `log-level` of the state folder, if there is
    one, replaces the level that the server was started with."""

    def __init__(self, logs: Logs, folder: Path, level: str) -> None:
        self._logs = logs
        self._file = folder / LOG_LEVEL_FILE
        self._started_with = level
        self._level = level

    async def __call__(self) -> list[str]:
        await asyncio.to_thread(self._logs.reopen)
        before, self._level = self._level, await asyncio.to_thread(self._read)
        self._logs.set_level(self._level)
        return [] if self._level == before else [f"{before} -> {self._level}"]

    def _read(self) -> str:
        try:
            level = self._file.read_text(encoding="utf-8", errors="replace").strip().lower()
        except FileNotFoundError:
            return self._started_with
        except OSError as error:
            raise BadLogLevel(f"cannot read {self._file}: {error.strerror}") from error
        if level not in _LEVELS:
            raise BadLogLevel(f"{self._file} must hold one of {', '.join(_LEVELS)}")
        return level


def has_terminal() -> bool:
    """Whether this process has a controlling terminal. When that is closed, SIGHUP means that
    nobody could stop the server anymore."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
