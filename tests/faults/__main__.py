"""Strike a running system at random, and compare after every round what it said with what it has.

`python -m tests.faults --rounds 200 --seed 7`. The same seed chooses the same faults.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Final

from tests.faults.postgres_world import PostgresWorld
from tests.faults.rounds import FaultTable, World, play
from tests.faults.run_world import RunWorld
from tests.faults.sqlite_world import SqliteWorld
from tests.faults.verifying_world import VerifyingWorld
from tests.memory_disk import leave_memory_disk, use_memory_disk

WORLDS: Final[dict[str, type[World]]] = {
    "sqlite": SqliteWorld,
    "postgres": PostgresWorld,
    "verification": VerifyingWorld,
    "run": RunWorld,
}
# Of a hundred rounds. The faults of a run take the longest.
SHARES: Final = {"sqlite": 35, "postgres": 35, "verification": 10, "run": 20}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--only", choices=WORLDS, action="append", help="can be repeated")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    chosen = {name: SHARES[name] for name in options.only or WORLDS}
    table = FaultTable()
    use_memory_disk()
    for name, share in chosen.items():
        rounds = max(1, round(options.rounds * share / sum(chosen.values())))
        with tempfile.TemporaryDirectory(prefix="shiftboss-faults-") as folder:
            play(WORLDS[name], Path(folder), Random(f"{options.seed}-{name}"), rounds, table)
    leave_memory_disk()
    table.show()
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
