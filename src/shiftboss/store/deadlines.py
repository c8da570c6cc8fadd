"""How long a server waits for PostgreSQL before it gives up."""

from __future__ import annotations

from typing import Final, NamedTuple


class DatabaseDeadlines(NamedTuple):
    """In seconds. `statement`: for the answer to a statement, and for the next statement of a
    transaction. `lock`: for a lock that somebody else holds. `lead`: how long a silent leader keeps
    the lead. `margin`: PostgreSQL ends a statement itself; only if it hangs does the server cut the
    connection, this much later."""

    statement: float = 10.0
    lock: float = 5.0
    lead: float = 10.0
    margin: float = 2.0

    @property
    def answer(self) -> float:
        """When a connection without an answer is cut."""
        return self.statement + self.margin


DEFAULT_DEADLINES: Final = DatabaseDeadlines()
