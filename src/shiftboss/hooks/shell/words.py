"""The words of a shell command: what is known of each before it is run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

# Letters that mean something outside of quotes, as code points that no text may hold.
OPEN, COMMA, CLOSE, STAR, ASK, BRACKET = "\ufdd0\ufdd1\ufdd2\ufdd3\ufdd4\ufdd5"
MEANING: Final = {"{": OPEN, ",": COMMA, "}": CLOSE, "*": STAR, "?": ASK, "[": BRACKET}
_PLAIN: Final = str.maketrans({mark: letter for letter, mark in MEANING.items()})
_GLOBS: Final = (STAR, ASK, BRACKET)
_AS_GLOB: Final = str.maketrans(
    {"*": "[*]", "?": "[?]", "[": "[[]"} | {mark: letter for letter, mark in MEANING.items()}
)
_BRACES_MAX: Final = 100
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f"}
_CODES: Final = {"x": (16, 2), "u": (16, 4), "U": (16, 8)}


class Unclear(Exception):
    """The command cannot be read to its end; to be read after "the command"."""


class Word:
    """`known` False: `text` is how it begins, and the rest is known to the shell alone. `pattern`:
    it stands for the files that fit, as for `glob.glob`. `picks`: it stands for what lies below the
    folder `text` and is picked, by the path from there and by whether it is a folder."""

    __slots__ = ("known", "pattern", "picks", "text")

    def __init__(
        self,
        text: str,
        *,
        known: bool = True,
        pattern: str | None = None,
        picks: Callable[[str, bool], bool] | None = None,
    ) -> None:
        self.text = text
        self.known = known
        self.pattern = pattern
        self.picks = picks

    def __repr__(self) -> str:
        return f"Word({self.text!r}{'' if self.known else ', known=False'})"

    def after(self, count: int) -> Word:
        """Without its first letters, such as an option that is joined with its value."""
        pattern = self.pattern[count:] if self.pattern is not None else None
        return Word(self.text[count:], known=self.known, pattern=pattern)


class WordBuilder:
    """A word while it is read. What comes after the first unknown part is dropped."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._known = True
        self.quoted = False
        self.started = False

    def literal(self, text: str) -> None:
        self.started = True
        if self._known:
            self._parts.append(text)

    def plain(self, letter: str) -> None:
        """Outside of quotes."""
        self.literal(MEANING.get(letter, letter))

    def variable(self, value: str | None, *, in_quotes: bool) -> None:
        splits = value is not None and not in_quotes and any(one in value for one in " \t\n*?[")
        if value is None or splits:
            self.unknown()
        else:
            self.literal(value)

    def unknown(self) -> None:
        self.started = True
        self._known = False

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def words(self) -> list[Word]:
        """More than one, where there are braces."""
        return [_word(one, known=self._known) for one in _without_braces(self.text)]


def _word(marked: str, *, known: bool) -> Word:
    pattern = None
    if any(mark in marked for mark in _GLOBS):
        pattern = marked.translate(_AS_GLOB)
    return Word(marked.translate(_PLAIN), known=known, pattern=pattern)


def _without_braces(text: str) -> list[str]:
    """`{a,b}/c` as the shell writes it out. What is no list stays as it is."""
    if text.count(OPEN) > _BRACES_MAX:
        raise Unclear("has braces that stand for too many words")
    done: list[str] = []
    waiting = [text]
    while waiting:
        one = waiting.pop()
        found = _first_list(one)
        if found is None:
            done.append(one)
        else:
            before, parts, after = found
            waiting += [f"{before}{part}{after}" for part in reversed(parts)]
        if len(waiting) + len(done) > _BRACES_MAX:
            raise Unclear("has braces that stand for too many words")
    return done


def _first_list(text: str) -> tuple[str, list[str], str] | None:
    start = text.find(OPEN)
    while start >= 0:
        depth, cuts = 0, [start]
        for at in range(start, len(text)):
            if text[at] == OPEN:
                depth += 1
            elif text[at] == COMMA and depth == 1:
                cuts.append(at)
            elif text[at] == CLOSE:
                depth -= 1
                if depth == 0:
                    cuts.append(at)
                    break
        if depth == 0 and len(cuts) > 2:
            parts = [text[a + 1 : b] for a, b in pairwise(cuts)]
            return text[:start], parts, text[cuts[-1] + 1 :]
        start = text.find(OPEN, start + 1)
    return None


def escaped(text: str, at: int) -> tuple[str, int]:
    """Of `$'…'`: the letter for what follows a backslash, and where it ends."""
    letter = text[at : at + 1]
    if letter in _CODES:
        base, longest = _CODES[letter]
        return _number(text, at + 1, base, longest)
    if letter and letter in "01234567":
        return _number(text, at, 8, 3)
    return _ESCAPES.get(letter, letter), at + 1


def _number(text: str, at: int, base: int, longest: int) -> tuple[str, int]:
    end = at
    digits = "0123456789abcdef"[:base]
    while end < at + longest and text[end : end + 1].lower() in digits and end < len(text):
        end += 1
    value = int(text[at:end] or "0", base)
    return (chr(value) if value < 0x110000 else ""), end
