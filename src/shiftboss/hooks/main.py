"""The program that agents and git run: `python -I -S main.py KIND --contract FILE`.

It is run without the packages of an installation, so it says itself where this one lies.
"""

import os
import sys


def _main() -> int:
    try:
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        sys.path.append(os.path.dirname(package))
        from shiftboss.hooks.program import run

        return run(sys.argv[1:])
    except BaseException as error:  # noqa: BLE001 -- a hook that cannot be loaded refuses
        sys.stderr.write(f"Shiftboss refused this: its hook could not be loaded: {error}\n")
        sys.stderr.flush()
        return 2


if __name__ == "__main__":
    # At once: what Python tidies up at its end costs as much as the hook itself.
    os._exit(_main())
