"""The courier: a process that delivers the reports that an ended worker process left in its outbox.

`python -m shiftboss.worker.courier OUTBOX SERVER`
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    folder, address = sys.argv[1:]
    # The parent exits at once, so the process that started the courier has no child to wait for.
    if os.fork():
        os._exit(0)
    # Imported after the fork, so that the starting process waits only milliseconds.
    from shiftboss.worker.background_delivery import run_courier

    run_courier(folder, address)


if __name__ == "__main__":
    main()
