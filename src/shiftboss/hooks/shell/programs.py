"""Which files common programs write, by their arguments. Other programs count as harmless."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from shiftboss.hooks.patches import paths_of_diff, paths_of_patch
from shiftboss.hooks.shell.effects import (
    BELOW,
    ENTRY,
    FILE,
    FOLDER,
    REMOVED,
    Arguments,
    Effect,
    Write,
    target_name,
)
from shiftboss.hooks.shell.words import Word

Words = Sequence[Word]


def _all_of(kind: str, letters: str = "", *names: str, skipped: int = 0) -> _Program:
    def program(words: Words, _stdin: str | None) -> Iterator[Effect]:
        arguments = Arguments(words, letters, names)
        # With --reference there is no operand for the mode or the owner.
        first = 0 if arguments.has("--reference") else skipped
        below = BELOW if kind == FILE and arguments.has("R", "--recursive") else kind
        return (Write(word, below) for word in arguments.operands[first:])

    return program


def _copy(words: Words, _stdin: str | None) -> Iterator[Effect]:
    arguments = Arguments(
        words, "tSgmo", ("--target-directory", "--suffix", "--group", "--mode", "--owner")
    )
    if arguments.has("d", "--directory") and not arguments.has("r", "R", "a"):
        yield from (Write(word, FOLDER) for word in arguments.operands)
        return
    kind = BELOW if arguments.has("r", "R", "a", "--recursive", "--archive") else FILE
    yield from _copies(arguments, kind)


def _plain_copy(words: Words, _stdin: str | None) -> Iterator[Effect]:
    """`cp -d` keeps links, where `install -d` makes folders."""
    arguments = Arguments(words, "tS", ("--target-directory", "--suffix"))
    kind = BELOW if arguments.has("r", "R", "a", "--recursive", "--archive") else FILE
    yield from _copies(arguments, kind)


def _move(words: Words, _stdin: str | None) -> Iterator[Effect]:
    arguments = Arguments(words, "tS", ("--target-directory", "--suffix"))
    targets = arguments.values("t", "--target-directory")
    sources = arguments.operands if targets else arguments.operands[:-1]
    yield from (Write(word, REMOVED) for word in sources)
    yield from _copies(arguments, BELOW)


def _link(words: Words, _stdin: str | None) -> Iterator[Effect]:
    arguments = Arguments(words, "tS", ("--target-directory", "--suffix"))
    targets = arguments.values("t", "--target-directory")
    alone = len(arguments.operands) == 1
    sources = arguments.operands if targets or alone else arguments.operands[:-1]
    if not arguments.has("s", "--symbolic"):
        # A hard link is a second name, through which the file could be written unnoticed.
        yield from (Write(word, FILE) for word in sources)
    if alone and not targets:
        name = target_name(arguments.operands[0])
        yield from [Write(Word(name), ENTRY)] if name else []
    else:
        yield from _copies(arguments, ENTRY)


def _copies(arguments: Arguments, kind: str) -> Iterator[Effect]:
    targets = arguments.values("t", "--target-directory")
    sources = arguments.operands if targets else arguments.operands[:-1]
    for target in targets or arguments.operands[-1:]:
        if len(arguments.operands) > 1 or targets:
            yield from (Write(target, kind, target_name(word)) for word in sources)


def _sed(words: Words, _stdin: str | None) -> Iterator[Effect]:
    in_place, has_script, operands, at = False, False, list[Word](), 0
    while at < len(words):
        text = words[at].text
        if text.startswith("--"):
            in_place = in_place or "--in-place".startswith(text.partition("=")[0])
            has_script = has_script or text.startswith(("--expression", "--file"))
            at += text in ("--expression", "--file")
        elif text.startswith("-") and len(text) > 1:
            for position, letter in enumerate(text[1:], start=2):
                if letter in "iI":
                    in_place = True
                    break
                if letter in "efl":
                    has_script = has_script or letter != "l"
                    at += position == len(text)
                    break
        else:
            operands.append(words[at])
        at += 1
    files = operands if has_script else operands[1:]
    return (Write(word) for word in files if in_place)


def _perl(words: Words, _stdin: str | None) -> Iterator[Effect]:
    in_place, has_script, operands, at = False, False, list[Word](), 0
    while at < len(words):
        text = words[at].text
        if text.startswith("-") and len(text) > 1 and not operands:
            for position, letter in enumerate(text[1:], start=2):
                if letter == "i":
                    in_place = True
                    break
                if letter in "eE":
                    has_script = True
                    at += position == len(text)
                    break
                if letter in "IMmFxC":
                    break
        else:
            operands.append(words[at])
        at += 1
    files = operands if has_script else operands[1:]
    return (Write(word) for word in files if in_place)


def _dd(words: Words, _stdin: str | None) -> Iterator[Effect]:
    return (Write(word.after(3)) for word in words if word.text.startswith("of="))


def _tar(words: Words, _stdin: str | None) -> Iterator[Effect]:
    words = list(words)
    if words and not words[0].text.startswith("-"):
        words[0] = Word(f"-{words[0].text}", known=words[0].known)
    # Bundled letters such as `xfC` take their values in turn from the words behind them.
    bundle = words[0].text[1:] if words and not words[0].text.startswith("--") else ""
    taking = [letter for letter in bundle if letter in "fC"]
    if len(bundle) > 1 and taking:
        rest = [letter for letter in bundle if letter not in taking]
        pairs = zip(taking, words[1:], strict=False)
        words = [
            Word("-" + "".join(rest)),
            *(part for letter, value in pairs for part in (Word(f"-{letter}"), value)),
            *words[1 + len(taking) :],
        ]
    arguments = Arguments(words, "fCTX", ("--file", "--directory", "--exclude"))
    if arguments.has("x", "--extract", "--get"):
        yield from (Write(word, FOLDER) for word in arguments.values("C", "--directory"))
    if arguments.has("c", "r", "u", "--create", "--append", "--update"):
        archives = arguments.values("f", "--file")
        yield from (Write(word) for word in archives if word.text != "-")


def _by_option(kind: str, letters: str, written: tuple[str, ...], *names: str) -> _Program:
    def program(words: Words, _stdin: str | None) -> Iterator[Effect]:
        arguments = Arguments(words, letters, names)
        return (Write(word, kind) for word in arguments.values(*written) if word.text != "-")

    return program


def _in_place(words: Words, _stdin: str | None) -> Iterator[Effect]:
    """For compressors: the file is replaced by the compressed word."""
    arguments = Arguments(words, "S")
    if arguments.has("c", "l", "t", "--stdout", "--list", "--test"):
        return iter(())
    return (Write(word, ENTRY) for word in arguments.operands)


def _patch(words: Words, stdin: str | None) -> Iterator[Effect]:
    arguments = Arguments(
        words, "pdioBDFVYz", ("--strip", "--directory", "--input", "--output", "--reject-file")
    )
    yield from (Write(word) for word in arguments.values("o", "--output"))
    yield from (Write(word, FOLDER) for word in arguments.values("d", "--directory"))
    yield from (Write(word) for word in arguments.operands[:1])
    strip = arguments.values("p", "--strip")
    if stdin and strip and strip[0].text.isdigit() and not arguments.has("d", "--directory"):
        yield from (Write(Word(word)) for word in paths_of_diff(stdin, int(strip[0].text)))


def _apply_patch(words: Words, stdin: str | None) -> Iterator[Effect]:
    texts = [stdin or "", *(word.text for word in words)]
    return (Write(Word(path)) for text in texts for path in paths_of_patch(text))


_Program = Callable[[Words, str | None], Iterator[Effect]]
_COMPRESSORS: Final = ("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "unzstd")
PROGRAMS: Final[dict[str, _Program]] = {
    "rm": _all_of(REMOVED),
    "unlink": _all_of(REMOVED),
    "shred": _all_of(FILE, "ns", "--iterations", "--size"),
    "rmdir": _all_of(FOLDER),
    "mkdir": _all_of(FOLDER, "m", "--mode"),
    "touch": _all_of(FILE, "drt", "--date"),
    "truncate": _all_of(FILE, "sr", "--size"),
    "tee": _all_of(FILE),
    "sponge": _all_of(FILE),
    "mkfifo": _all_of(FILE, "m"),
    "chmod": _all_of(FILE, skipped=1),
    "chown": _all_of(FILE, skipped=1),
    "chgrp": _all_of(FILE, skipped=1),
    "cp": _plain_copy,
    "install": _copy,
    "rsync": _plain_copy,
    "mv": _move,
    "ln": _link,
    "sed": _sed,
    "gsed": _sed,
    "perl": _perl,
    "dd": _dd,
    "tar": _tar,
    "patch": _patch,
    "apply_patch": _apply_patch,
    "applypatch": _apply_patch,
    "ed": _all_of(FILE, "p"),
    "ex": _all_of(FILE, "cS"),
    "sort": _by_option(FILE, "okStT", ("o", "--output"), "--output"),
    "curl": _by_option(FILE, "oHdXuAbFT", ("o", "--output"), "--output"),
    "wget": _by_option(FILE, "OPU", ("O", "--output-document"), "--output-document"),
    "unzip": _by_option(FOLDER, "dx", ("d",)),
    **dict.fromkeys(_COMPRESSORS, _in_place),
}
