"""The keys, with their names in the footer and in the help."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.text import Text

VIEWS: Final = {"1": "board", "2": "task", "3": "log", "4": "inbox", "5": "workers"}
ACTION_WORDS: Final = {
    "a": "answer",
    "y": "approve",
    "n": "reject",
    "s": "scope",
    "b": "budget",
    "r": "retry",
    "c": "cancel",
    "p": "pause",
}
_HELP: Final = (
    ("Look", ""),
    ("↑ ↓ j k", "select, or scroll"),
    ("← →", "the next group of the board, part of a task, attempt of a log"),
    ("g G home end", "the first, the last"),
    ("enter", "open the selected task"),
    ("esc", "back; end the filter"),
    ("1 … 5, tab", "board, task, log, inbox, workers"),
    ("/", "filter the board by id, title, agent, state or reason"),
    ("w", "watch another swarm"),
    ("Decide", ""),
    ("a", "answer the question of a task"),
    ("y  n", "approve accepted work, so that it lands; reject it"),
    ("s", "grant or refuse the files that a task asks for"),
    ("b", "raise the budget that is used up"),
    ("r", "retry a task, or the verification of a claim"),
    ("c", "cancel a task"),
    ("p", "pause the swarm, or resume it"),
    ("", ""),
    ("?  q", "this help; quit. Runs keep running."),
)


def help_text() -> Text:
    text = Text()
    for keys, meaning in _HELP:
        if not meaning:
            text.append(f"{keys}\n", "bold")
        else:
            text.append(f"  {keys:<14}", "cyan").append(f"{meaning}\n")
    text.rstrip()
    return text


def footer_text(keys: Iterable[str], *, is_paused: bool) -> Text:
    """The keys that apply to the selection, and those that always do."""
    labels = ACTION_WORDS | {"p": "resume" if is_paused else "pause"}
    shown = [(key, labels[key]) for key in (*keys, "p")]
    shown += [("/", "filter"), ("w", "swarm"), ("?", "help"), ("q", "quit")]
    text = Text(" ", no_wrap=True, overflow="ellipsis")
    for key, word in shown:
        text.append(key, "bold cyan").append(f" {word}  ")
    return text


def tabs_text(current: str, inbox: int) -> Text:
    text = Text(" ", no_wrap=True, overflow="ellipsis")
    for key, name in VIEWS.items():
        count = f" {inbox}" if name == "inbox" and inbox else ""
        style = "bold reverse" if name == current else ""
        text.append(f" {key} {name.capitalize()}{count} ", style).append(" ")
    return text
