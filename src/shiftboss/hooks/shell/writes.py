"""Goes through the commands of a shell script and collects what they would write."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from shiftboss.hooks.shell.effects import ENTRY, PLACE, Arguments, Ban, Effect, Write
from shiftboss.hooks.shell.git import GitCommand, git_effects
from shiftboss.hooks.shell.operator import operator_effects, token_effects
from shiftboss.hooks.shell.parser import SUBSHELL_BEGINS, CommandReader, SimpleCommand
from shiftboss.hooks.shell.programs import PROGRAMS
from shiftboss.hooks.shell.word_reader import Variables
from shiftboss.hooks.shell.words import Unclear, Word

_SHELLS: Final = frozenset(("bash", "sh", "zsh", "dash", "ksh", "ash"))
_DECLARATIONS: Final = frozenset(("export", "declare", "typeset", "local", "readonly"))
_KNOWN_VARIABLES: Final = ("HOME", "TMPDIR")
_DEPTH_MAX: Final = 20
_HARMLESS_VARIABLE: Final = "GIT_CONFIG_NOSYSTEM"
_COMMANDS_MAX: Final = 20_000
_GIT_DIR_OPTIONS: Final = (
    ["--git-dir"],
    ["--git-common-dir"],
    ["--absolute-git-dir"],
    ["--git-path"],
)
# Programs that run another one: their options with values, and the number of operands in front of
# the other program.
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
    """`effects` are in the order in which they would happen."""

    def __init__(
        self, folder: str, environment: Mapping[str, str], branch: str = "", base: str = ""
    ) -> None:
        self.effects: list[Effect] = []
        self._folder: str | None = folder
        self._variables: Variables = {
            name: environment[name] for name in _KNOWN_VARIABLES if name in environment
        }
        self._variables["PWD"] = folder
        self._branch = branch
        self._base = base
        self._depth = 0
        self._commands = 0

    def script(self, text: str) -> None:
        """Raises Unclear for a script that cannot be parsed."""
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise Unclear("is nested too deeply")
        try:
            self._run(CommandReader(text, self._variables, self._in_subshell))
        except RecursionError:
            raise Unclear("is nested too deeply") from None
        self._depth -= 1

    def argv(self, arguments: Sequence[str]) -> None:
        """A command that no shell interprets."""
        self._words([Word(argument) for argument in arguments], None, {}, piped=False)

    def _in_subshell(self, reader: CommandReader) -> str | None:
        before = (self._folder, dict(self._variables))
        commands = self._run(reader)
        self._back_to(before)
        return _printed(commands, self._folder)

    def _back_to(self, before: tuple[str | None, Variables]) -> None:
        self._folder = before[0]
        self._variables.clear()
        self._variables.update(before[1])

    def _run(self, reader: CommandReader) -> list[SimpleCommand]:
        left, commands = [], []
        for item in reader.commands():
            if isinstance(item, SimpleCommand):
                self._simple(item)
                commands.append(item)
            elif item == SUBSHELL_BEGINS:
                left.append((self._folder, dict(self._variables)))
            else:
                self._back_to(left.pop())
        return commands

    def _simple(self, command: SimpleCommand) -> None:
        self._commands += 1
        if self._commands > _COMMANDS_MAX:
            raise Unclear("has too many commands")
        self._add(Write(word) for word in command.writes)
        self._add(token_effects(command.reads))
        values = {name: word.text if word.known else None for name, word in command.assigned}
        if command.words:
            self._words(command.words, command.stdin, values, piped=command.piped)
        else:
            self._variables.update(values)

    def _add(self, effects: Iterator[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Write):
                effect.folder = self._folder
            self.effects.append(effect)

    def _words(
        self, words: Sequence[Word], stdin: str | None, values: Variables, *, piped: bool
    ) -> None:
        self._settings_in_environment(values)
        folder = self._folder
        words = self._unwrapped(words)
        has_moved = self._folder != folder
        if words and words[0].known:
            self._add(operator_effects(posixpath.basename(words[0].text), words[1:]))
            self._program(words, stdin, piped=piped)
        if has_moved:
            self._folder = folder

    def _program(self, words: Sequence[Word], stdin: str | None, *, piped: bool) -> None:
        name = posixpath.basename(words[0].text)
        rest = words[1:]
        if name in ("cd", "pushd", "popd"):
            if not piped:
                self._change_folder(name, rest)
        elif name in _DECLARATIONS or name in ("read", "unset"):
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
            if (
                name.startswith("GIT_CONFIG")
                and name != _HARMLESS_VARIABLE
                and value != "/dev/null"
            ):
                self.effects.append(
                    Ban(f"sets {name}, which could keep git from running the hooks")
                )
            elif name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE") and value:
                self._add(iter([Write(Word(value), PLACE)]))

    def _unwrapped(self, words: Sequence[Word]) -> Sequence[Word]:
        """Without `env A=b`, `timeout 5` and the like in front."""
        for _ in range(_DEPTH_MAX):
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
        raise Unclear("has too many programs that run other programs, such as env")

    def _change_folder(self, name: str, words: Sequence[Word]) -> None:
        operands = [word for word in words if word.text == "-" or not word.text.startswith("-")]
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
            is_known = equals and word.known and name in _DECLARATIONS
            if is_known:
                self._settings_in_environment({key: value})
            if is_known or name not in _DECLARATIONS or equals:
                self._variables[key] = value if is_known else None

    def _script_of(self, words: Sequence[Word]) -> None:
        if words and all(word.known for word in words):
            self.script(" ".join(word.text for word in words))

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
        self._add(git_effects(command, stdin, self._branch, self._base))
        self._folder = before

    def _find(self, words: Sequence[Word], stdin: str | None) -> None:
        from shiftboss.hooks.shell.find import (  # late: few commands have one
            PRINTS,
            Find,
            somewhere_below,
        )

        find = Find(words)
        for number, (name, argv) in enumerate(find.actions):
            if name in PRINTS:
                self._add(iter([Write(word) for word in argv]))
                continue
            for start in find.starts:
                picked = find.picked(number, start)
                if name == "-delete":
                    self._add(iter([Write(picked, ENTRY)]))
                    continue
                below = somewhere_below(start)
                command = [
                    picked if word.text == "{}" else below if "{}" in word.text else word
                    for word in argv
                ]
                self._words(command, stdin, {}, piped=True)


def _printed(commands: Sequence[SimpleCommand], folder: str | None) -> str | None:
    """The output of common commands: `pwd`, and `git rev-parse` for a path in the git folder. The
    real git folder may be elsewhere, but the rules for it are the same."""
    if folder is None or len(commands) != 1 or not all(word.known for word in commands[0].words):
        return None
    texts = [word.text for word in commands[0].words]
    if texts == ["pwd"]:
        return folder
    if texts[:2] != ["git", "rev-parse"] or texts[2:3] not in _GIT_DIR_OPTIONS:
        return None
    return posixpath.join(folder, ".git", *(texts[3:4] if texts[2] == "--git-path" else ()))


def _joined(folder: str | None, word: Word) -> str | None:
    if not word.known or word.pattern is not None or word.text == "-":
        return None
    if word.text.startswith("/"):
        return posixpath.normpath(word.text)
    return posixpath.normpath(posixpath.join(folder, word.text)) if folder is not None else None


def _after_options(words: Sequence[Word], letters: str) -> tuple[Sequence[Word], dict[str, Word]]:
    """The words from the first operand on, which belong to another program, and the options."""
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
    """For xargs: the arguments that it reads go to the end, or replace its placeholder."""
    unknown = Word("", known=False)
    mark = options["I"].text if "I" in options else "{}" if "i" in options else None
    if mark is None:
        return [*words, unknown]
    return [
        Word(word.text.partition(mark)[0], known=False) if mark and mark in word.text else word
        for word in words
    ]
