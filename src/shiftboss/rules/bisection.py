"""Which of several changes in a row broke something, in as few looks as can be."""

from __future__ import annotations

from typing import NamedTuple


class Bisection(NamedTuple):
    """States are counted by the changes that are in them. With `good` of them it works, with `bad`
    of them it does not."""

    good: int
    bad: int

    @property
    def to_try(self) -> int | None:
        """The state to look at next; None: the change that led to `bad` is the one."""
        return None if self.bad - self.good == 1 else (self.good + self.bad) // 2

    def after(self, state: int, *, works: bool) -> Bisection:
        return self._replace(good=state) if works else self._replace(bad=state)
