"""Actions of the operator alone: deciding on the work of agents, and reading the operator's token.

Agents run as the user whose token it is. The commands themselves refuse to use it for an agent;
this gives the agent a reason before it tries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from shiftboss.defaults import OPERATOR_TOKEN_FILE
from shiftboss.hooks.shell.effects import Ban, Effect
from shiftboss.hooks.shell.words import Word

PROGRAM: Final = "shiftboss"
# By the first word, the second words. None: all of them.
_DECISIONS: Final[dict[str, frozenset[str] | None]] = {
    "approve": None,
    "reject": None,
    "waive": None,
    "resume": None,
    "budget": None,
    "handoff": frozenset(("amend",)),
    "scope": frozenset(("grant", "refuse")),
    "swarm": frozenset(("resume",)),
    "task": frozenset(("cancel", "retry")),
    "questions": frozenset(("answer",)),
}
# Their arguments are text, not files.
_PRINTING: Final = frozenset(("echo", "printf", "git"))
# Programs that start another one, and do nothing else that matters here.
_STARTERS: Final = ("python", "uv", "uvx", "pipx")


def operator_effects(program: str, words: Sequence[Word]) -> Iterator[Effect]:
    yield from _decision_effects(program, words)
    if program not in _PRINTING:
        yield from token_effects(words)


def _decision_effects(program: str, words: Sequence[Word]) -> Iterator[Effect]:
    """For `shiftboss ...`, `python -m shiftboss ...` and `uv run shiftboss ...`."""
    texts = [word.text if word.known else "" for word in words]
    if program.startswith(_STARTERS) and PROGRAM in texts:
        program, texts = PROGRAM, texts[texts.index(PROGRAM) + 1 :]
    if program != PROGRAM or "--help" in texts or "-h" in texts:
        return
    operands = [text for text in texts if not text.startswith("-")]
    first, second = (*operands, "", "")[:2]
    seconds = _DECISIONS.get(first, frozenset())
    if seconds is None or second in seconds:
        named = first if seconds is None else f"{first} {second}"
        yield Ban(f"runs `{PROGRAM} {named}`, which only the operator may do")


def token_effects(words: Sequence[Word]) -> Iterator[Effect]:
    """For any program: no work of an agent needs this file."""
    if any(_is_token(word.text) for word in words):
        yield Ban(f"names {OPERATOR_TOKEN_FILE}, which only the operator may read")


def _is_token(path: str) -> bool:
    """Also as the value of an option, such as `--file=PATH`, or behind the `@` of curl."""
    name = path.rpartition("=")[2].rpartition("/")[2]
    return name.removeprefix("@") == OPERATOR_TOKEN_FILE
