"""What a shell command would do that a contract has a say in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from shiftboss.hooks.shell.words import Word

FILE: Final = "file"  # its words
ENTRY: Final = "entry"  # its name: what a link leads to stays as it is
BELOW: Final = "below"  # it, and everything below it
REMOVED: Final = "removed"  # the same, and it is of no account if there is nothing
FOLDER: Final = "folder"  # a folder alone, which git does not see
PLACE: Final = "place"  # whatever a command changes where it runs
PUT_BACK: Final = "put back"  # its words become those of the base


class Write:
    """`folder` is where the command runs; None: only the shell knows. `into`: the name that it gets
    there, should the path be a folder."""

    __slots__ = ("folder", "into", "kind", "word")

    def __init__(self, word: Word, kind: str = FILE, into: str | None = None) -> None:
        self.word = word
        self.kind = kind
        self.into = into
        self.folder: str | None = None


class Ban:
    """Something that no contract allows. `reason` is read after "the command"."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


Found = Write | Ban


class Arguments:
    """Options by their letters or long names, and operands. `letters` and `names` are the options
    that take a value. A long option may be cut short, as everywhere."""

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
        return any(one in self.options for one in names)

    def values(self, *names: str) -> list[Word]:
        return [value for one in names for value in self.options.get(one, ()) if value.text]

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
        name = next((one for one in self._names if one.startswith(name)), name)
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


def last_name(word: Word) -> str | None:
    """The name that a copy gets in a folder. None: unknown."""
    name = word.text.rstrip("/").rpartition("/")[2]
    is_one = word.known and word.pattern is None and word.picks is None
    return name if is_one and name not in ("", ".", "..") else None
