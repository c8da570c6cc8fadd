"""The corpus: known ways to pass a check without doing the work, by class."""

from __future__ import annotations

from typing import Final

from shiftboss.redteam.corpus import (
    edited_tests,
    environment,
    exits_and_reports,
    go_and_rust,
    javascript,
    lying_values,
    nothing_done,
    patched_runners,
    shadowing,
    skips,
    special_cases,
)
from shiftboss.redteam.hacks import Hack

_MODULES: Final = (
    *(exits_and_reports, patched_runners, skips, lying_values, special_cases),
    *(edited_tests, shadowing, environment, nothing_done, javascript, go_and_rust),
)
HACKS: Final[tuple[Hack, ...]] = tuple(hack for module in _MODULES for hack in module.HACKS)
# The classes, in the order in which they are shown.
CLASSES: Final[tuple[str, ...]] = tuple(dict.fromkeys(hack.class_ for hack in HACKS))
