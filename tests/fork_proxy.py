"""Stands in for a process of Shiftboss that a forked process starts; see `fork_server`.

`python -I -S fork_proxy.py ADDRESS ...`, with the rest of the command line of the process. Its
parent sees an ordinary child. The work is done by a process that the helper forks, with the same
descriptors, environment, folder, group and session; the two end together.

It imports only what is built in: `json`, `signal` and `socket` would take longer than the rest.
"""

import _signal as signal  # type: ignore[import-not-found]
import _socket as socket
import marshal
import os
import sys

_STATUS_BYTES = 4


def main() -> None:
    address, *arguments = sys.argv[1:]
    helper = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    helper.connect("\0" + address)
    descriptors = [one for one in _open_descriptors() if one != helper.fileno()]
    request = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": os.getcwd(),  # noqa: PTH109 - pathlib takes longer than everything else here
        "umask": os.umask(0),
        "descriptors": descriptors,
        "leads_group": os.getpgrp() == os.getpid(),
        "leads_session": os.getsid(0) == os.getpid(),
    }
    numbers = b"".join(one.to_bytes(4, sys.byteorder) for one in descriptors)
    passed = (socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)
    helper.sendmsg([marshal.dumps(request)], [passed])
    for descriptor in descriptors:
        os.close(descriptor)
    pid = _receive(helper)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    code = _receive(helper)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _open_descriptors() -> list[int]:
    """Those of this process that can be passed on: not the one that reads the folder."""
    found = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            os.fstat(int(name))
        except OSError:
            continue
        found.append(int(name))
    return sorted(found)


def _receive(helper: "socket.socket") -> int:
    data = helper.recv(_STATUS_BYTES)
    if not data:
        os._exit(1)  # the tests are gone
    return int.from_bytes(data, sys.byteorder, signed=True)


if __name__ == "__main__":
    main()
