"""The end of a process: what was not delivered is left to a courier."""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
from pathlib import Path

from shiftboss.worker.outbox import Outbox
from shiftboss.worker.server_address import Server

log = logging.getLogger(__name__)

_watched: dict[Path, Server] = {}


def watch(outbox: Outbox, server: Server) -> None:
    """Start a courier for this outbox at the end, if something waits in it then."""
    if os.environ.get("SHIFTBOSS_COURIER") != "0":
        _watched[outbox.folder] = server


def leave(outbox: Outbox) -> None:
    """The end has come for this outbox."""
    server = _watched.pop(outbox.folder, None)
    if server is not None and outbox.files():
        _start_courier(outbox, server)


@atexit.register
def _leave_all() -> None:
    for folder in list(_watched):
        try:
            leave(Outbox(folder))
        except Exception:
            # The outboxes of the other workers still wait for their couriers.
            log.exception("reports may stay in %s", folder)


def _start_courier(outbox: Outbox, server: Server) -> None:
    # -P: the folder that this process was started in may be an agent's, with modules of its own.
    module = [sys.executable, "-P", "-m", "shiftboss.worker.courier"]
    token = {"SHIFTBOSS_TOKEN": server.token} if server.token else {}
    try:
        subprocess.run(
            [*module, str(outbox.folder), server.address],
            env=os.environ | token,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )
    except OSError as error:
        log.warning("reports stay in %s, no courier could start: %s", outbox.folder, error)
