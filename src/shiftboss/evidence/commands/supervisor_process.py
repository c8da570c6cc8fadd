"""Starting the supervisor of a command, as a process that `fork_server.py` forks."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import socket
import sys
import threading
from typing import Final

from shiftboss.evidence.commands.fork_server import NUMBER_BYTES
from shiftboss.system.processes.child_process import prepare_start
from shiftboss.system.processes.descendants import module_argv, send_signal, start_ticks
from shiftboss.system.processes.orphans import ORPHANS

_FORK_SERVER: Final = "shiftboss.evidence.commands.fork_server"
# A fork server that takes longer was stopped from outside, perhaps by a command.
_START_SECONDS: Final = 20.0
_CHUNK_BYTES: Final = 256 * 1024


class SupervisorProcess:
    """A running supervisor: its input is a lifeline, its output is one answer."""

    def __init__(
        self,
        pid: int,
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        status: socket.socket,
    ) -> None:
        self.pid = pid
        self._started = start_ticks(pid)
        self._reader, self._writer = connection
        self._status = status

    async def ask(self, job: bytes) -> bytes:
        """Its answer; empty if it was killed. Its input stays open: when that ends, the supervisor
        ends the command."""
        try:
            self._writer.write(job)
            await self._writer.drain()
            return await self._reader.read()
        except ConnectionError:
            return b""

    async def release(self, seconds: float) -> int:
        """Let it end, kill it after some seconds, and return its exit code."""
        try:
            async with asyncio.timeout(seconds):
                await self._end_input()
                code = await _receive_number(self._status)
        except TimeoutError:
            self.kill()
            code = None
        if code is None:  # killed, or the fork server was
            self.kill()
            code = -signal.SIGKILL
        self._status.close()
        self._writer.close()
        return code

    def kill(self) -> None:
        """Its process id belongs to another process if it has ended already."""
        if self._started is not None and start_ticks(self.pid) == self._started:
            send_signal(self.pid, signal.SIGKILL)

    async def _end_input(self) -> None:
        """It may still print its answer, and would fail if that was not read."""
        try:
            self._writer.write_eof()
            while await self._reader.read(_CHUNK_BYTES):
                pass
        except ConnectionError:
            pass  # it was killed


async def start_supervisor() -> SupervisorProcess:
    """If the caller is cancelled, the supervisor gets no job and ends at once."""
    try:
        return await _start()
    except ConnectionError:  # the fork server was stopped or killed from outside
        return await _start()


async def _start() -> SupervisorProcess:
    connection, its_connection = socket.socketpair()
    status, its_status = socket.socketpair()
    try:
        with its_connection, its_status:
            server = FORK_SERVER.request(its_connection, its_status)
        status.setblocking(False)
        pid = await _receive_pid(status, server)
        streams = await asyncio.open_unix_connection(sock=connection)
        return SupervisorProcess(pid, streams, status)
    except BaseException:
        connection.close()
        status.close()
        raise


async def _receive_pid(status: socket.socket, server: int) -> int:
    try:
        async with asyncio.timeout(_START_SECONDS):
            pid = await _receive_number(status)
        if pid is not None:
            return pid
    except TimeoutError:
        pass
    FORK_SERVER.replace(server)
    raise ConnectionResetError("the fork server of supervisors does not answer")


async def _receive_number(status: socket.socket) -> int | None:
    """A process id or an exit code; None if the fork server has ended."""
    try:
        data = await asyncio.get_running_loop().sock_recv(status, NUMBER_BYTES)
    except ConnectionError:
        return None
    return int.from_bytes(data, sys.byteorder, signed=True) if data else None


class ForkServerProcess:
    """The fork server of this process. It is started by the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: socket.socket | None = None
        self._pid = 0

    def request(self, connection: socket.socket, status: socket.socket) -> int:
        """Ask for a supervisor; the process id of the fork server."""
        with self._lock:
            if not self._send(connection, status):
                self._end()
                self._requests = self._start()
                if not self._send(connection, status):
                    raise ConnectionResetError("the fork server of supervisors was killed")
            return self._pid

    def replace(self, pid: int) -> None:
        """Let the next request start another one. Supervisors that run are not affected."""
        with self._lock:
            if pid == self._pid:
                self._end()

    def close(self) -> None:
        """It ends when its input does."""
        with self._lock:
            if self._requests is not None:
                self._requests.close()
                self._requests = None

    def _send(self, *sockets: socket.socket) -> bool:
        """False if there is no fork server, it was killed, or was stopped long ago."""
        if self._requests is None:
            return False
        try:
            socket.send_fds(self._requests, [b"+"], [sock.fileno() for sock in sockets])
        except (ConnectionError, BlockingIOError):
            return False
        return True

    def _end(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None
            send_signal(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            ORPHANS.forget(self._pid)

    def _start(self) -> socket.socket:
        """Without an environment: a command could read it, and it may contain secrets."""
        ours, theirs = socket.socketpair()
        prepare_start()
        with theirs, ORPHANS.starting():
            self._pid = os.posix_spawn(
                sys.executable,
                module_argv(_FORK_SERVER),
                {},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                # Signals to our process group must not reach it.
                setsid=sys.platform == "linux",
            )
            ORPHANS.keep(self._pid)
        ours.setblocking(False)
        return ours


# One per process, because it ends with the process.
FORK_SERVER: Final = ForkServerProcess()
atexit.register(FORK_SERVER.close)
