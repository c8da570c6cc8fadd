"""Worker processes: `python -m bench.peers.worker ADAPTER one NUMBER` is one of them itself,
`ADAPTER pool COUNT` starts so many of them as the system itself does it."""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    name, kind, value = sys.argv[1:]
    adapter = importlib.import_module(f"bench.peers.adapters.{name}")
    if kind == "pool":
        adapter.work_pool(int(value))
    else:
        adapter.work(int(value))


if __name__ == "__main__":
    main()
