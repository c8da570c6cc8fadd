"""The effects of a shell command that a contract has rules about: writes, and banned actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from shiftboss.hooks.shell.words import Word

# The target of a write.
FILE: Final = "file"  # the contents of a file
ENTRY: Final = "entry"  # the name: the target of a link does not change
BELOW: Final = "below"  # the path and everything below it
REMOVED: Final = "removed"  # the same; it does not count if nothing is there
FOLDER: Final = "folder"  # a folder only, which git does not track
PLACE: Final = "place"  # the repository that a git command works in
PUT_BACK: Final = "put back"  # the contents become those of the base


class Write:
    """`folder` is where the command runs; None if only the shell knows. `into` is the name of the
    file if the path turns out to be a folder."""

    __slots__ = ("folder", "into", "kind", "word")

    def __init__(self, word: Word, kind: str = FILE, into: str | None = None) -> None:
        self.word = word
        self.kind = kind
        self.into = into
        self.folder: str | None = None


class Ban:
    """Something that no contract allows. "The command" and `reason` make a sentence."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


Effect = Write | Ban


class Arguments:
    """Options by their letters or long names, and operands. `letters` and `names` are the options
    that take a value. Long options may be abbreviated."""

    def __init__(self, words: Sequence[Word], letters: str = "", names: Iterable[str] = ()) -> None:
        self.options: dict[str, list[Word]] = {}
        self.operands: list[Word] = []
        self.after_dashes: list[Word] | None = None
        self._letters = letters
        self._names = tuple(names)
        at = 0
        while at < len(words):
            at = self._take(words, at)

    def has(self, *names: str) -> bool:
        return any(name in self.options for name in names)

    def values(self, *names: str) -> list[Word]:
        return [value for name in names for value in self.options.get(name, ()) if value.text]

    def _take(self, words: Sequence[Word], at: int) -> int:
        word = words[at]
        text = word.text
        if text == "--" and word.known:
            self.after_dashes = list(words[at + 1 :])
            self.operands += self.after_dashes
            return len(words)
        if text.startswith("--"):
            return self._take_long(words, at)
        if text.startswith("-") and len(text) > 1:
            return self._take_letters(words, at)
        self.operands.append(word)
        return at + 1

    def _take_long(self, words: Sequence[Word], at: int) -> int:
        name, equals, _ = words[at].text.partition("=")
        name = next((option for option in self._names if option.startswith(name)), name)
        if equals:
            value = words[at].after(words[at].text.index("=") + 1)
        elif name in self._names and at + 1 < len(words):
            at += 1
            value = words[at]
        else:
            value = Word("")
        self.options.setdefault(name, []).append(value)
        return at + 1

    def _take_letters(self, words: Sequence[Word], at: int) -> int:
        word = words[at]
        for position, letter in enumerate(word.text[1:], start=2):
            if letter not in self._letters:
                self.options.setdefault(letter, []).append(Word(""))
                continue
            value = word.after(position)
            if not value.text and value.known and at + 1 < len(words):
                at += 1
                value = words[at]
            self.options.setdefault(letter, []).append(value)
            break
        return at + 1


def target_name(word: Word) -> str | None:
    """The name that a copy of the file gets in a folder; None if it is unknown."""
    name = word.text.rstrip("/").rpartition("/")[2]
    is_single = word.known and word.pattern is None and word.picks is None
    return name if is_single and name not in ("", ".", "..") else None
