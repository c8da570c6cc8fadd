"""The words of a shell command, as far as they are known before it is run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

# Characters with a meaning outside of quotes are replaced by code points that no text contains.
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
    """The command cannot be parsed. "The command" and the message make a sentence."""


class Word:
    """If `known` is False, `text` is only the beginning; only the shell knows the rest. With a
    `pattern` the word stands for the files that match, as for `glob.glob`. With `picks` it stands
    for the entries below the folder `text` for which `picks(relative_path, is_folder)` is true."""

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
        """The word without its first characters, such as an option letter in front of its value."""
        pattern = self.pattern[count:] if self.pattern is not None else None
        return Word(self.text[count:], known=self.known, pattern=pattern)


class WordBuilder:
    """A word that is being read. Everything after the first unknown part is dropped."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._known = True
        self.quoted = False
        self.started = False

    def literal(self, text: str) -> None:
        self.started = True
        if self._known:
            self._parts.append(text)

    def unquoted(self, letter: str) -> None:
        """A character outside of quotes."""
        self.literal(MEANING.get(letter, letter))

    def variable(self, value: str | None, *, in_quotes: bool) -> None:
        splits = value is not None and not in_quotes and any(mark in value for mark in " \t\n*?[")
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
        """There is more than one if the word has braces."""
        return [_word(marked, known=self._known) for marked in _expand_braces(self.text)]


def _word(marked: str, *, known: bool) -> Word:
    pattern = None
    if any(mark in marked for mark in _GLOBS):
        pattern = marked.translate(_AS_GLOB)
    return Word(marked.translate(_PLAIN), known=known, pattern=pattern)


def _expand_braces(text: str) -> list[str]:
    """Expand `{a,b}/c` as the shell does. Braces without a list stay as they are."""
    if text.count(OPEN) > _BRACES_MAX:
        raise Unclear("has braces that expand to too many words")
    done: list[str] = []
    waiting = [text]
    while waiting:
        candidate = waiting.pop()
        braces = _first_list(candidate)
        if braces is None:
            done.append(candidate)
        else:
            before, parts, after = braces
            waiting += [f"{before}{part}{after}" for part in reversed(parts)]
        if len(waiting) + len(done) > _BRACES_MAX:
            raise Unclear("has braces that expand to too many words")
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
    """In `$'…'`: the character for an escape after a backslash, and where the escape ends."""
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
