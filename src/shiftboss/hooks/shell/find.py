"""Which files a `find` selects, as far as names, types and depths decide.

Other tests (times, sizes, owners) leave a file in doubt, and a file in doubt counts as selected,
because a find may delete many files at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from shiftboss.hooks.shell.words import Word

RUNS: Final = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
PRINTS: Final = frozenset(("-fprint", "-fls", "-fprint0", "-fprintf"))
_ORS: Final = ("-o", "-or", ",")
_ACTIONS: Final = frozenset((*RUNS, *PRINTS, "-delete"))
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
        self.actions: set[int] = set()
        self.is_pruned = False


# The result is True, False, or None if in doubt. The last argument says whether the test is certain
# to be evaluated at all.
_Test = Callable[[_Entry, _FindState, bool], bool | None]


class Find:
    """`actions` are the actions with their arguments; `starts` are the folders it searches."""

    def __init__(self, words: Sequence[Word]) -> None:
        words = _without_options(words)
        first = next(
            (at for at, word in enumerate(words) if word.text[:1] in ("-", "(", "!")), None
        )
        self.starts = list(words[:first]) or [Word(".")]
        self.actions: list[tuple[str, list[Word]]] = []
        self._words = list(words[first:]) if first is not None else []
        self._depths = {"-mindepth": 0, "-maxdepth": 1_000_000}
        texts = {word.text for word in self._words}
        self._prunes = texts.isdisjoint(("-delete", "-depth", "-d"))
        self._at = 0
        self._test = self._any()

    def picked(self, action: int, start: Word) -> Word:
        """A word that stands for everything below the start that the action is applied to."""
        if not start.known:
            return somewhere_below(start)

        def picks(inside: str, is_folder: bool) -> bool:
            return self._picks(action, start.text.rstrip("/") or "/", inside, is_folder)

        return Word(start.text, pattern=start.pattern, picks=picks)

    def _picks(self, action: int, start: str, inside: str, is_folder: bool) -> bool:
        parts = [part for part in inside.split("/") if part]
        if not self._depths["-mindepth"] <= len(parts) <= self._depths["-maxdepth"]:
            return False
        for count in range(len(parts)):
            if self._visit("/".join((start, *parts[:count])), is_folder=True).is_pruned:
                return False
        return action in self._visit("/".join((start, *parts)), is_folder=is_folder).actions

    def _visit(self, path: str, *, is_folder: bool) -> _FindState:
        state = _FindState()
        self._test(_Entry(path, is_folder), state, True)
        return state

    def _any(self) -> _Test:
        parts = [self._all()]
        while self._peek() in _ORS:
            if self._next().text == ",":  # the expression behind it is always evaluated
                parts = [_doubtful(part) for part in parts]
            parts.append(self._all())

        def test(entry: _Entry, state: _FindState, is_sure: bool) -> bool | None:
            result: bool | None = False
            for part in parts:
                value = part(entry, state, is_sure)
                if value:
                    return True
                if value is None:
                    result, is_sure = None, False
            return result

        return test

    def _all(self) -> _Test:
        parts = []
        while self._peek() not in ("", ")", *_ORS):
            if self._peek() in ("-a", "-and"):
                self._at += 1
            else:
                parts.append(self._primary())

        def test(entry: _Entry, state: _FindState, is_sure: bool) -> bool | None:
            result: bool | None = True
            for part in parts:
                value = part(entry, state, is_sure)
                if value is False:
                    return False
                if value is None:
                    result, is_sure = None, False
            return result

        return test

    def _primary(self) -> _Test:
        text = self._next().text
        if text in _NOTS:
            return _opposite(self._primary())
        if text == "(":
            inner = self._any()
            self._at += 1
            return inner
        if text == "-prune":
            return self._prune
        if text in _ACTIONS:
            return self._action(text)
        if text in _TRUE or text == "-false":
            return _always(text != "-false")
        if text in _IN_DOUBT or not text.startswith("-"):
            return _always(None)
        return self._with_value(text)

    def _with_value(self, text: str) -> _Test:
        # An unknown test may have no value.
        value = self._next() if self._peek() not in _ACTIONS else Word("", known=False)
        if text in self._depths and value.text.isdigit():
            self._depths[text] = int(value.text)
        if text in _TRUE_WITH_VALUE:
            return _always(True)
        return _named(text, value.text) if value.known else _always(None)

    def _action(self, text: str) -> _Test:
        number = len(self.actions)
        self.actions.append((text, list(self._words_of(text))))

        def test(_entry: _Entry, state: _FindState, _is_sure: bool) -> bool | None:
            state.actions.add(number)
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

    def _prune(self, entry: _Entry, state: _FindState, is_sure: bool) -> bool:
        state.is_pruned = state.is_pruned or (is_sure and self._prunes and entry.is_folder)
        return True

    def _peek(self) -> str:
        """The next word; empty at the end. An empty or unknown word is not an operator."""
        return (self._words[self._at].text or "?") if self._at < len(self._words) else ""

    def _next(self) -> Word:
        self._at += 1
        return self._words[self._at - 1] if self._at <= len(self._words) else Word("", known=False)


def somewhere_below(start: Word) -> Word:
    below = f"{start.text.rstrip('/')}/" if start.text else ""
    return Word(below, known=False)


def _without_options(words: Sequence[Word]) -> list[Word]:
    """Without the options of find itself, which come before the folders."""
    at = 0
    while at < len(words) and words[at].text[:2] in ("-H", "-L", "-P", "-O", "-D"):
        at += 2 if words[at].text == "-D" else 1
    return list(words[at:])


def _always(value: bool | None) -> _Test:
    return lambda _entry, _state, _is_sure: value


def _opposite(inner: _Test) -> _Test:
    def test(entry: _Entry, state: _FindState, is_sure: bool) -> bool | None:
        value = inner(entry, state, is_sure)
        return None if value is None else not value

    return test


def _doubtful(inner: _Test) -> _Test:
    def test(entry: _Entry, state: _FindState, is_sure: bool) -> bool | None:
        inner(entry, state, is_sure)
        return None

    return test


def _named(text: str, value: str) -> _Test:
    """Tests of the name, path or type; everything else is in doubt."""

    def test(entry: _Entry, _state: _FindState, _is_sure: bool) -> bool | None:
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
