"""Splits a shell script into simple commands, without running them.

This is not a shell: it knows quotes, redirections, here-documents, substitutions and the keywords
between commands. Conditions are ignored: every command counts as if it were run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from shiftboss.hooks.shell.word_reader import NAME, WordReader
from shiftboss.hooks.shell.words import Unclear, Word

SUBSHELL_BEGINS: Final = "("
SUBSHELL_ENDS: Final = ")"
_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_KEYWORDS: Final = frozenset(
    ("if", "then", "else", "elif", "fi", "while", "until", "do", "done", "esac", "{", "}", "!")
)
_REDIRECTIONS: Final = ("<<<", "<<-", "&>>", "<<", ">>", ">|", ">&", "<&", "<>", "&>", "<", ">")
_COMPOUND_KEYWORDS: Final = frozenset(("for", "select", "case", "function"))
_NEXT_CASE: Final = (";;&", ";;", ";&")
_SEPARATORS: Final = ("&&", "||", *_NEXT_CASE, "|&", ";", "|", "&", "\n")


class SimpleCommand:
    """`writes` and `reads` are the files of its redirections, `stdin` the text of a here-document.
    `piped`: it is part of a pipeline, so that changes of its shell, such as `cd`, have no effect.
    """

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.assigned: list[tuple[str, Word]] = []
        self.writes: list[Word] = []
        self.reads: list[Word] = []
        self.stdin: str | None = None
        self.piped = False

    @property
    def is_empty(self) -> bool:
        return not (self.words or self.assigned or self.writes or self.reads)


Item = SimpleCommand | str


class CommandReader(WordReader):
    """Reads the commands of a script. The text of a here-document is read with its command."""

    _after_documents = 0

    def commands(self) -> Iterator[Item]:
        """The commands in their order, with marks where a subshell begins and ends."""
        open_shells, after_pipe = 0, False
        while True:
            command = self._command()
            between = self._between()
            command.piped = after_pipe or between in ("|", "|&")
            after_pipe = between in ("|", "|&")
            if not command.is_empty:
                yield command
            if between == "(":
                open_shells += 1
                yield SUBSHELL_BEGINS
            elif between == ")":
                if open_shells == 0 and self.until_closed:
                    return
                if open_shells:
                    open_shells -= 1
                    yield SUBSHELL_ENDS
            elif between == "":
                if self.until_closed:
                    raise Unclear("has a parenthesis that is not closed")
                return

    def _between(self) -> str:
        """Read what ends a command. After the end of a line, its here-documents are skipped."""
        for mark in (*_SEPARATORS, "(", ")"):
            if self._text.startswith(mark, self.at):
                self.at += len(mark)
                if mark == "\n" and self._after_documents > self.at:
                    self.at = self._after_documents
                if mark in _NEXT_CASE:
                    self._skip_pattern()
                return mark
        return ""

    def _command(self) -> SimpleCommand:
        command = SimpleCommand()
        while True:
            self._skip_blanks()
            if self._redirection(command):
                continue
            if not command.words and self._text.startswith("((", self.at):
                self._skip_arithmetic(self.at + 2)
                continue
            if self._at_end_of_command(command):
                return command
            self._add_word(command)

    def _at_end_of_command(self, command: SimpleCommand) -> bool:
        if self.at >= len(self._text):
            return True
        letter = self._text[self.at]
        if command.words and command.words[0].text == "[[" and command.words[-1].text != "]]":
            if letter in ";&|<>()\n":  # part of the comparison
                self.at += 1
                self._skip_blanks()
                return self._at_end_of_command(command)
            return False
        is_function = len(command.words) == 1 and self._text.startswith("()", self.at)
        if is_function:  # its body is read as if it were run here
            self.at += 2
            command.words.clear()
            return False
        return letter in "\n;&|()"

    def _add_word(self, command: SimpleCommand) -> None:
        start = self.at
        built = self._word()
        raw = self._text[start : self.at]
        is_number = raw.isdigit() and self._text[self.at : self.at + 1] in ("<", ">")
        if is_number or (not built.started and raw == ""):
            return
        if not command.words:
            if raw in _KEYWORDS and not command.writes:
                return
            if raw in _COMPOUND_KEYWORDS:
                self._head(raw)
                return
            assigned = _ASSIGNED.match(raw)
            if assigned:
                self._assign(command, assigned[1], built.words()[0].after(assigned.end()))
                return
        command.words += built.words()

    def _assign(self, command: SimpleCommand, name: str, value: Word) -> None:
        if self._text.startswith("(", self.at):
            self.at += 1
            self._inner_to_parenthesis()
            value = Word("", known=False)
        command.assigned.append((name, value))

    def _head(self, keyword: str) -> None:
        if keyword == "function":
            self._skip_blanks()
            self._word()
        elif keyword == "case":
            self._skip_up_to_in()
            self._skip_pattern()
        else:
            self._loop_head()

    def _skip_up_to_in(self) -> None:
        while self.at < len(self._text):
            self._skip_blanks()
            start = self.at
            self._word()
            if self._text[start : self.at] == "in" or self.at == start:
                return

    def _skip_pattern(self) -> None:
        """Skip the pattern of a case, up to its closing parenthesis."""
        while self.at < len(self._text):
            self._skip_blanks()
            start = self.at
            self._word()
            if self._text[start : self.at] == "esac":
                self.at = start
                return
            if self.at == start:
                self.at += 1
                if self._text.startswith(")", start):
                    return

    def _loop_head(self) -> None:
        """The variable of a loop has several values in turn, so its value is not known."""
        self._skip_blanks()
        name = NAME.match(self._text, self.at)
        if name:
            self.variables[name[0]] = None
            self.at = name.end()
        self._skip_blanks()
        while self.at < len(self._text) and self._text[self.at] not in ";&|\n()<>":
            self._word()
            self._skip_blanks()

    def _skip_blanks(self) -> None:
        text = self._text
        while self.at < len(text):
            if text[self.at] in " \t\r":
                self.at += 1
            elif text.startswith("\\\n", self.at):
                self.at += 2
            elif text[self.at] == "#":
                end = text.find("\n", self.at)
                self.at = end if end >= 0 else len(text)
            else:
                return

    def _redirection(self, command: SimpleCommand) -> bool:
        if command.words and command.words[0].text == "[[" and command.words[-1].text != "]]":
            return False
        text, at = self._text, self.at
        if text.startswith(("<(", ">("), at):
            return False
        mark = next((sign for sign in _REDIRECTIONS if text.startswith(sign, at)), None)
        if mark is None:
            return False
        self.at += len(mark)
        self._skip_blanks()
        start = self.at
        words = self._word().words()
        if mark in ("<<", "<<-"):
            command.stdin = self._document(text[start : self.at], strips_tabs=mark == "<<-")
        elif mark == "<<<":
            command.stdin = words[0].text if words[0].known else None
        elif mark in ("<", "<&"):
            command.reads += words
        elif not _is_descriptor(mark, words[0]):
            command.writes += words
        return True

    def _document(self, delimiter: str, *, strips_tabs: bool) -> str:
        """The lines after this one, or after the previous here-document."""
        quoted = any(mark in delimiter for mark in "'\"\\")
        end_line = delimiter.replace("'", "").replace('"', "").replace("\\", "")
        line_end = self._text.find("\n", self.at)
        at = max(self._after_documents, line_end + 1 if line_end >= 0 else len(self._text))
        lines = []
        while at < len(self._text):
            end = self._text.find("\n", at)
            line = self._text[at : end if end >= 0 else len(self._text)]
            at = end + 1 if end >= 0 else len(self._text)
            line = line.lstrip("\t") if strips_tabs else line
            if line == end_line:
                break
            lines.append(line)
        self._after_documents = at
        body = "\n".join(lines)
        if not quoted and ("`" in body or "$(" in body):
            self._inner(body).expand_all()
        return body


def _is_descriptor(mark: str, word: Word) -> bool:
    """`2>&1` and `>&-`."""
    return mark == ">&" and (word.text.rstrip("-").isdigit() or word.text == "-")
