"""The question that a person gets after several refusals in a row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

VIOLATIONS_NAMED_MAX: Final = 10
_BEGINNING: Final = re.compile(r"\S+ was refused \d+ times in a row on ")


def refusal_question(worker: str, refusals: int, task_id: str, violations: Sequence[str]) -> str:
    named = "\n".join(f"- {violation}" for violation in violations[:VIOLATIONS_NAMED_MAX])
    return (
        f"{worker} was refused {refusals} times in a row on {task_id}:\n{named}\n"
        "Answer with instructions, change the contract, or cancel the task."
    )


def asks_about_refusals(question: str) -> bool:
    return _BEGINNING.match(question) is not None
