"""How long a server waits for PostgreSQL before it gives up."""

from __future__ import annotations

from typing import Final, NamedTuple

# PostgreSQL ends a statement itself. Only if it hangs does the server cut the connection, later.
CUT_AFTER_SECONDS: Final = 2.0


class DatabaseDeadlines(NamedTuple):
    """In seconds. `statement`: for the answer to a statement, and for the next statement of a
    transaction. `lock`: for a lock that somebody else holds. `lead`: how long a silent leader keeps
    the lead."""

    statement: float = 10.0
    lock: float = 5.0
    lead: float = 10.0

    @property
    def answer(self) -> float:
        """When a connection without an answer is cut."""
        return self.statement + CUT_AFTER_SECONDS


DEFAULT_DEADLINES: Final = DatabaseDeadlines()
