"""Goes through shell commands in their order, and gathers what they would write."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from shiftboss.hooks.shell.effects import ENTRY, PLACE, Arguments, Ban, Found, Write
from shiftboss.hooks.shell.git import GitCommand, found_in_git
from shiftboss.hooks.shell.parser import SUBSHELL_BEGINS, Reader, Simple
from shiftboss.hooks.shell.programs import PROGRAMS
from shiftboss.hooks.shell.text import Variables
from shiftboss.hooks.shell.words import Unclear, Word

_SHELLS: Final = frozenset(("bash", "sh", "zsh", "dash", "ksh", "ash"))
_DECLARES: Final = frozenset(("export", "declare", "typeset", "local", "readonly"))
_KNOWN_VARIABLES: Final = ("HOME", "TMPDIR")
_ROUNDS_MAX: Final = 20
_HARMLESS: Final = "GIT_CONFIG_NOSYSTEM"
_COMMANDS_MAX: Final = 20_000
_GIT_PLACES: Final = (["--git-dir"], ["--git-common-dir"], ["--absolute-git-dir"], ["--git-path"])
# Programs that run another one: their options with values, and how many words come before it.
_WRAPPERS: Final[dict[str, tuple[str, int]]] = {
    "env": ("uCS", 0),
    "nohup": ("", 0),
    "nice": ("n", 0),
    "ionice": ("cn", 0),
    "timeout": ("ks", 1),
    "stdbuf": ("ioe", 0),
    "time": ("f", 0),
    "exec": ("a", 0),
    "builtin": ("", 0),
    "command": ("", 0),
    "sudo": ("ugChpDRTt", 0),
    "doas": ("uC", 0),
    "setsid": ("", 0),
    "flock": ("wE", 1),
    "chronic": ("", 0),
    "busybox": ("", 0),
    "xargs": ("IiLnPsdaE", 0),
}


class ShellWrites:
    """`found` is in the order in which things would happen."""

    def __init__(
        self, folder: str, environment: Mapping[str, str], branch: str = "", base: str = ""
    ) -> None:
        self.found: list[Found] = []
        self._folder: str | None = folder
        self._variables: Variables = {
            name: environment[name] for name in _KNOWN_VARIABLES if name in environment
        }
        self._variables["PWD"] = folder
        self._branch = branch
        self._base = base
        self._rounds = 0
        self._commands = 0

    def script(self, text: str) -> None:
        """Raises Unclear for what cannot be read."""
        self._rounds += 1
        if self._rounds > _ROUNDS_MAX:
            raise Unclear("is nested too deeply")
        self._run(Reader(text, self._variables, self._in_subshell))
        self._rounds -= 1

    def argv(self, arguments: Sequence[str]) -> None:
        """A command whose words are known, as no shell would read them."""
        self._words([Word(one) for one in arguments], None, {}, piped=False)

    def _in_subshell(self, reader: Reader) -> str | None:
        before = (self._folder, dict(self._variables))
        commands = self._run(reader)
        self._back_to(before)
        return _printed(commands, self._folder)

    def _back_to(self, before: tuple[str | None, Variables]) -> None:
        self._folder = before[0]
        self._variables.clear()
        self._variables.update(before[1])

    def _run(self, reader: Reader) -> list[Simple]:
        left, commands = [], []
        for item in reader.commands():
            if isinstance(item, Simple):
                self._simple(item)
                commands.append(item)
            elif item == SUBSHELL_BEGINS:
                left.append((self._folder, dict(self._variables)))
            else:
                self._back_to(left.pop())
        return commands

    def _simple(self, command: Simple) -> None:
        self._commands += 1
        if self._commands > _COMMANDS_MAX:
            raise Unclear("is made of too many commands")
        self._add(Write(one) for one in command.writes)
        values = {name: word.text if word.known else None for name, word in command.assigned}
        if command.words:
            self._words(command.words, command.stdin, values, piped=command.piped)
        else:
            self._variables.update(values)

    def _add(self, found: Iterator[Found]) -> None:
        for one in found:
            if isinstance(one, Write):
                one.folder = self._folder
            self.found.append(one)

    def _words(
        self, words: Sequence[Word], stdin: str | None, values: Variables, *, piped: bool
    ) -> None:
        self._settings_in_environment(values)
        folder = self._folder
        words = self._unwrapped(words)
        has_moved = self._folder != folder
        if words and words[0].known:
            self._program(words, stdin, piped=piped)
        if has_moved:
            self._folder = folder

    def _program(self, words: Sequence[Word], stdin: str | None, *, piped: bool) -> None:
        name = posixpath.basename(words[0].text)
        rest = words[1:]
        if name in ("cd", "pushd", "popd"):
            if not piped:
                self._change_folder(name, rest)
        elif name in _DECLARES or name in ("read", "unset"):
            self._declare(name, rest)
        elif name in ("eval", "trap"):
            self._script_of(rest[:1] if name == "trap" else rest)
        elif name in _SHELLS or name == "su":
            self._shell(rest, stdin)
        elif name == "git":
            self._git(rest, stdin)
        elif name == "find":
            self._find(rest, stdin)
        elif name in PROGRAMS:
            self._add(PROGRAMS[name](rest, stdin))

    def _settings_in_environment(self, values: Variables) -> None:
        for name, value in values.items():
            if name.startswith("GIT_CONFIG") and name != _HARMLESS and value != "/dev/null":
                self.found.append(Ban(f"sets {name}, by which git could pass by the hooks"))
            elif name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE") and value:
                self._add(iter([Write(Word(value), PLACE)]))

    def _unwrapped(self, words: Sequence[Word]) -> Sequence[Word]:
        """Without `env A=b`, `timeout 5` and the like in front."""
        for _ in range(_ROUNDS_MAX):
            name = posixpath.basename(words[0].text) if words and words[0].known else ""
            if name not in _WRAPPERS:
                return words
            letters, skipped = _WRAPPERS[name]
            words, options = _after_options(words[1:], letters)
            if name == "command" and ("v" in options or "V" in options):
                return []
            words = words[skipped:]
            if name == "env":
                self._folder = _joined(self._folder, options.get("C", Word(".")))
                self._script_of([options["S"]] if "S" in options else [])
            while name in ("env", "sudo") and words and "=" in words[0].text:
                key, _, value = words[0].text.partition("=")
                self._settings_in_environment({key: value})
                words = words[1:]
            if name == "xargs":
                words = _with_unknowns(words, options)
        raise Unclear("is wrapped too often")

    def _change_folder(self, name: str, words: Sequence[Word]) -> None:
        operands = [one for one in words if one.text == "-" or not one.text.startswith("-")]
        if name == "popd":
            self._folder = None
        elif operands:
            self._folder = _joined(self._folder, operands[0])
        else:
            self._folder = self._variables.get("HOME")
        self._variables["PWD"] = self._folder

    def _declare(self, name: str, words: Sequence[Word]) -> None:
        for word in words:
            key, equals, value = word.text.partition("=")
            is_known = equals and word.known and name in _DECLARES
            if is_known:
                self._settings_in_environment({key: value})
            if is_known or name not in _DECLARES or equals:
                self._variables[key] = value if is_known else None

    def _script_of(self, words: Sequence[Word]) -> None:
        if words and all(one.known for one in words):
            self.script(" ".join(one.text for one in words))

    def _shell(self, words: Sequence[Word], stdin: str | None) -> None:
        arguments = Arguments(words, "oO", ("--rcfile", "--init-file", "--command"))
        given = arguments.values("--command")
        before = (self._folder, dict(self._variables))
        if given or arguments.has("c"):
            self._script_of(given or arguments.operands[:1])
        elif stdin is not None and not arguments.operands:
            self.script(stdin)
        self._back_to(before)

    def _git(self, words: Sequence[Word], stdin: str | None) -> None:
        command = GitCommand(words)
        before = self._folder
        for place in command.places:
            self._folder = _joined(self._folder, place)
        self._add(found_in_git(command, stdin, self._branch, self._base))
        self._folder = before

    def _find(self, words: Sequence[Word], stdin: str | None) -> None:
        from shiftboss.hooks.shell.find import (  # late: few commands have one
            PRINTS,
            Find,
            somewhere_below,
        )

        found = Find(words)
        for number, (name, argv) in enumerate(found.deeds):
            if name in PRINTS:
                self._add(iter([Write(one) for one in argv]))
                continue
            for start in found.starts:
                picked = found.picked(number, start)
                if name == "-delete":
                    self._add(iter([Write(picked, ENTRY)]))
                    continue
                below = somewhere_below(start)
                own = (
                    picked if one.text == "{}" else below if "{}" in one.text else one
                    for one in argv
                )
                self._words(list(own), stdin, {}, piped=True)


def _printed(commands: Sequence[Simple], folder: str | None) -> str | None:
    """Where it is asked in a common way: the folder, or something in the folder of git, which may
    lie elsewhere, but stands for the same."""
    if folder is None or len(commands) != 1 or not all(one.known for one in commands[0].words):
        return None
    texts = [one.text for one in commands[0].words]
    if texts == ["pwd"]:
        return folder
    if texts[:2] != ["git", "rev-parse"] or texts[2:3] not in _GIT_PLACES:
        return None
    return posixpath.join(folder, ".git", *(texts[3:4] if texts[2] == "--git-path" else ()))


def _joined(folder: str | None, word: Word) -> str | None:
    if not word.known or word.pattern is not None or word.text == "-":
        return None
    if word.text.startswith("/"):
        return posixpath.normpath(word.text)
    return posixpath.normpath(posixpath.join(folder, word.text)) if folder is not None else None


def _after_options(words: Sequence[Word], letters: str) -> tuple[Sequence[Word], dict[str, Word]]:
    """The words from the first operand on: what comes behind it is another program's."""
    options: dict[str, Word] = {}
    at = 0
    while at < len(words) and words[at].text.startswith("-") and len(words[at].text) > 1:
        text = words[at].text
        at += 1
        if text == "--":
            break
        letter = text[1]
        if text.startswith("--"):
            continue
        options[letter] = words[at - 1].after(2)
        if letter in letters and len(text) == 2 and at < len(words):
            options[letter] = words[at]
            at += 1
    return words[at:], options


def _with_unknowns(words: Sequence[Word], options: Mapping[str, Word]) -> list[Word]:
    """For xargs: what it reads comes at the end, or where its mark stands."""
    unknown = Word("", known=False)
    mark = options["I"].text if "I" in options else "{}" if "i" in options else None
    if mark is None:
        return [*words, unknown]
    return [
        Word(one.text.partition(mark)[0], known=False) if mark and mark in one.text else one
        for one in words
    ]
