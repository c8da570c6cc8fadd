"""A process that delivers what another one left behind. It takes an outbox and a server.

It ends when the outbox is empty, or after a day.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    folder, address = sys.argv[1:]
    # A child of nobody: the process that started it can end, or go on, without collecting it.
    if os.fork():
        os._exit(0)
    # Late, so that whoever waits for the fork waits for some milliseconds only.
    from shiftboss.worker.background_delivery import deliver_left_behind

    deliver_left_behind(folder, address)


if __name__ == "__main__":
    main()
