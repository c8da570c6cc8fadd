"""Which files a `find` picks: its expression, read as far as names, kinds and depths go.

What else it looks at (times, sizes, owners) is left in doubt, and a file in doubt counts as picked:
a find deletes many at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from shiftboss.hooks.shell.words import Word

RUNS: Final = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
PRINTS: Final = frozenset(("-fprint", "-fls", "-fprint0", "-fprintf"))
_ORS: Final = ("-o", "-or", ",")
_DEEDS: Final = frozenset((*RUNS, *PRINTS, "-delete"))
_NOTS: Final = ("!", "-not")
_TRUE_WORDS: Final = """
    -print -print0 -ls -true -depth -d -xdev -mount -daystart -follow -noleaf -quit -warn -nowarn
    -ignore_readdir_race -noignore_readdir_race
"""
_TRUE: Final = frozenset(_TRUE_WORDS.split())
_IN_DOUBT: Final = frozenset(
    ("-empty", "-executable", "-readable", "-writable", "-nouser", "-nogroup")
)
_TRUE_WITH_VALUE: Final = ("-printf", "-regextype", "-mindepth", "-maxdepth")


class _Entry(NamedTuple):
    """A file or folder as find would print it."""

    path: str
    is_folder: bool


class _FindState:
    def __init__(self) -> None:
        self.deeds: set[int] = set()
        self.is_pruned = False


# True, False, or None for doubt. The last argument: whether it is sure to be asked at all.
_Test = Callable[[_Entry, _FindState, bool], bool | None]


class Find:
    """`deeds` are the words of its actions, by number; `starts` are the folders it looks into."""

    def __init__(self, words: Sequence[Word]) -> None:
        words = _without_options(words)
        first = next((at for at, one in enumerate(words) if one.text[:1] in ("-", "(", "!")), None)
        self.starts = list(words[:first]) or [Word(".")]
        self.deeds: list[tuple[str, list[Word]]] = []
        self._words = list(words[first:]) if first is not None else []
        self._depths = {"-mindepth": 0, "-maxdepth": 1_000_000}
        texts = {one.text for one in self._words}
        self._prunes = texts.isdisjoint(("-delete", "-depth", "-d"))
        self._at = 0
        self._test = self._any()

    def picked(self, deed: int, start: Word) -> Word:
        """Stands for all that the deed is done to below the start."""
        if not start.known:
            return somewhere_below(start)

        def picks(inside: str, is_folder: bool) -> bool:
            return self._picks(deed, start.text.rstrip("/") or "/", inside, is_folder)

        return Word(start.text, pattern=start.pattern, picks=picks)

    def _picks(self, deed: int, start: str, inside: str, is_folder: bool) -> bool:
        parts = [one for one in inside.split("/") if one]
        if not self._depths["-mindepth"] <= len(parts) <= self._depths["-maxdepth"]:
            return False
        for count in range(len(parts)):
            if self._seen("/".join((start, *parts[:count])), is_folder=True).is_pruned:
                return False
        return deed in self._seen("/".join((start, *parts)), is_folder=is_folder).deeds

    def _seen(self, path: str, *, is_folder: bool) -> _FindState:
        seen = _FindState()
        self._test(_Entry(path, is_folder), seen, True)
        return seen

    def _any(self) -> _Test:
        parts = [self._all()]
        while self._peek() in _ORS:
            if self._next().text == ",":  # what comes behind it is done in any case
                parts = [_doubtful(one) for one in parts]
            parts.append(self._all())

        def test(entry: _Entry, seen: _FindState, is_sure: bool) -> bool | None:
            found: bool | None = False
            for part in parts:
                value = part(entry, seen, is_sure)
                if value:
                    return True
                if value is None:
                    found, is_sure = None, False
            return found

        return test

    def _all(self) -> _Test:
        parts = []
        while self._peek() not in ("", ")", *_ORS):
            if self._peek() in ("-a", "-and"):
                self._at += 1
            else:
                parts.append(self._one())

        def test(entry: _Entry, seen: _FindState, is_sure: bool) -> bool | None:
            found: bool | None = True
            for part in parts:
                value = part(entry, seen, is_sure)
                if value is False:
                    return False
                if value is None:
                    found, is_sure = None, False
            return found

        return test

    def _one(self) -> _Test:
        text = self._next().text
        if text in _NOTS:
            return _opposite(self._one())
        if text == "(":
            inner = self._any()
            self._at += 1
            return inner
        if text == "-prune":
            return self._prune
        if text in _DEEDS:
            return self._deed(text)
        if text in _TRUE or text == "-false":
            return _always(text != "-false")
        if text in _IN_DOUBT or not text.startswith("-"):
            return _always(None)
        return self._with_value(text)

    def _with_value(self, text: str) -> _Test:
        # One that we do not know may have no value.
        value = self._next() if self._peek() not in _DEEDS else Word("", known=False)
        if text in self._depths and value.text.isdigit():
            self._depths[text] = int(value.text)
        if text in _TRUE_WITH_VALUE:
            return _always(True)
        return _named(text, value.text) if value.known else _always(None)

    def _deed(self, text: str) -> _Test:
        number = len(self.deeds)
        self.deeds.append((text, list(self._words_of(text))))

        def test(_entry: _Entry, seen: _FindState, _is_sure: bool) -> bool | None:
            seen.deeds.add(number)
            return None if text in RUNS else True

        return test

    def _words_of(self, text: str) -> Iterator[Word]:
        if text in RUNS:
            while self._peek() not in ("", ";", "+"):
                yield self._next()
            self._at += 1
        elif text in PRINTS:
            yield self._next()
            self._at += text == "-fprintf"

    def _prune(self, entry: _Entry, seen: _FindState, is_sure: bool) -> bool:
        seen.is_pruned = seen.is_pruned or (is_sure and self._prunes and entry.is_folder)
        return True

    def _peek(self) -> str:
        """Empty at the end; a word that is empty itself, or unknown, is none of the operators."""
        return (self._words[self._at].text or "?") if self._at < len(self._words) else ""

    def _next(self) -> Word:
        self._at += 1
        return self._words[self._at - 1] if self._at <= len(self._words) else Word("", known=False)


def somewhere_below(start: Word) -> Word:
    below = f"{start.text.rstrip('/')}/" if start.text else ""
    return Word(below, known=False)


def _without_options(words: Sequence[Word]) -> list[Word]:
    """Of find itself: they come before the folders."""
    at = 0
    while at < len(words) and words[at].text[:2] in ("-H", "-L", "-P", "-O", "-D"):
        at += 2 if words[at].text == "-D" else 1
    return list(words[at:])


def _always(value: bool | None) -> _Test:
    return lambda _entry, _seen, _is_sure: value


def _opposite(inner: _Test) -> _Test:
    def test(entry: _Entry, seen: _FindState, is_sure: bool) -> bool | None:
        value = inner(entry, seen, is_sure)
        return None if value is None else not value

    return test


def _doubtful(inner: _Test) -> _Test:
    def test(entry: _Entry, seen: _FindState, is_sure: bool) -> bool | None:
        inner(entry, seen, is_sure)
        return None

    return test


def _named(text: str, value: str) -> _Test:
    """By name, path or kind; everything else is in doubt."""

    def test(entry: _Entry, _seen: _FindState, _is_sure: bool) -> bool | None:
        if text == "-type":
            kinds = value.split(",")
            return "d" in kinds if entry.is_folder else bool({"f", "l"} & {*kinds})
        name = entry.path.rpartition("/")[2]
        if text == "-name":
            return fnmatchcase(name, value)
        if text == "-iname":
            return fnmatchcase(name.casefold(), value.casefold())
        if text in ("-path", "-wholename"):
            return fnmatchcase(entry.path, value)
        if text in ("-ipath", "-iwholename"):
            return fnmatchcase(entry.path.casefold(), value.casefold())
        return None

    return test
