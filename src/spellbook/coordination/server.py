"""`python -m spellbook.coordination.server --port 7432`: the same as `shiftboss serve`."""

from __future__ import annotations

import sys

from shiftboss.cli.main import main

if __name__ == "__main__":
    main(["serve", *sys.argv[1:]])
