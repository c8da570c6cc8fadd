"""The program that agents and git run: `python -I -S main.py KIND --contract FILE`.

It runs without installed packages, so it adds the folder of this package to the path itself.
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
    # Without Python's cleanup, which takes as long as the hook itself.
    os._exit(_main())
