"""Forks a supervisor for every command.

A separate program, started once by a process that runs commands; see supervisor_process.py. It has
imported what a supervisor needs, so a supervisor takes 5 ms of processor time instead of 28. Each
byte of its input, a socket, comes with two other sockets: the input and output of a new supervisor,
and the one for its process id and, later, for its exit code. When the input ends, this program does
too. The supervisors continue: each has its own lifeline.
"""

from __future__ import annotations

import _socket
import gc
import os
import select
import signal
import sys

from shiftboss.evidence.commands import supervisor
from shiftboss.system.processes.descendants import deny_inspection, open_signal_pipe, read_available

INPUT = 0
OUTPUT = 1
DESCRIPTOR_BYTES = 4
NUMBER_BYTES = 4
FAILED = 1


class ForkServer:
    def __init__(self) -> None:
        self._requests = _socket.socket(fileno=INPUT)
        self._ended = open_signal_pipe(signal.SIGCHLD)
        self._status_of: dict[int, int] = {}

    def serve(self) -> None:
        while True:
            ready, _, _ = select.select([INPUT, self._ended], [], [])
            if self._ended in ready:
                read_available(self._ended)
                self._report_ended()
            if INPUT in ready:
                descriptors = self._receive()
                if descriptors is None:
                    return
                self._fork(*descriptors)

    def _receive(self) -> tuple[int, int] | None:
        space = _socket.CMSG_SPACE(2 * DESCRIPTOR_BYTES)
        message, passed, _, _ = self._requests.recvmsg(1, space)
        if not message:
            return None
        numbers = passed[0][2]
        first, second = numbers[:DESCRIPTOR_BYTES], numbers[DESCRIPTOR_BYTES:]
        return int.from_bytes(first, sys.byteorder), int.from_bytes(second, sys.byteorder)

    def _fork(self, connection: int, status: int) -> None:
        pid = os.fork()
        if pid == 0:
            self._become_supervisor(connection, status)
        os.close(connection)
        self._status_of[pid] = status
        _tell(status, pid)

    def _become_supervisor(self, connection: int, status: int) -> None:
        """The descriptors of the others must not stay open here, or their ends would go
        unnoticed."""
        code = FAILED
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for descriptor in (self._ended, status, *self._status_of.values()):
                os.close(descriptor)
            os.dup2(connection, INPUT)
            os.dup2(connection, OUTPUT)
            os.close(connection)
            supervisor.main()
            sys.stdout.flush()
            code = 0
        finally:
            os._exit(code)

    def _report_ended(self) -> None:
        while self._status_of:
            pid, how = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            status = self._status_of.pop(pid)
            _tell(status, os.waitstatus_to_exitcode(how))
            os.close(status)


def _tell(status: int, number: int) -> None:
    try:
        os.write(status, number.to_bytes(NUMBER_BYTES, sys.byteorder, signed=True))
    except OSError:
        pass  # nobody is waiting for it


def main() -> None:
    deny_inspection()
    gc.freeze()  # the supervisors share this memory until something touches it
    ForkServer().serve()
