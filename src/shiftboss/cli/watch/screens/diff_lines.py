"""A diff as lines: each file with its scope, each hunk, what was added and removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.text import Text

from shiftboss.cli.common.output import printable

Members = Mapping[str, Any]
_LINES_MAX: Final = 3000
_STYLES: Final = {"+": "green", "-": "red"}
# What the contract says about the file. What it owns needs no word.
_SCOPES: Final = {
    "outside": ("outside of the contract", "bold red"),
    "readonly": ("read only", "bold red"),
    "generated": ("generated", "yellow"),
}


def diff_lines(diff: Members) -> list[Text]:
    files = diff.get("files") or []
    if not files:
        return [Text("no changes", "dim")]
    added = sum(file.get("added") or 0 for file in files)
    removed = sum(file.get("removed") or 0 for file in files)
    names = "file" if len(files) == 1 else "files"
    lines = [Text(f"{len(files)} {names}, +{added} -{removed}{_between(diff)}")]
    for file in files:
        lines += _file_lines(file)
        if len(lines) > _LINES_MAX:
            break
    if len(lines) > _LINES_MAX or diff.get("truncated"):
        lines[_LINES_MAX:] = [
            Text("there is more: see the whole diff with `shiftboss diff`", "dim")
        ]
    return lines


def _between(diff: Members) -> str:
    base, commit = str(diff.get("base") or "")[:12], str(diff.get("commit") or "")[:12]
    return printable(f" between {base} and {commit}") if base and commit else ""


def _file_lines(file: Members) -> Iterator[Text]:
    yield Text()
    yield _file_head(file)
    if file.get("binary"):
        yield Text("  binary", "dim")
    for hunk in file.get("hunks") or ():
        yield Text(printable(hunk.get("header", "")), "cyan")
        for sign, content in hunk.get("lines") or ():
            text = "    ".join(printable(part) for part in str(content).split("\t"))
            yield Text(f"{printable(sign)}{text}", _STYLES.get(sign, ""))
    if file.get("truncated"):
        yield Text("  the rest of this file is left out", "dim")


def _file_head(file: Members) -> Text:
    old = file.get("old_path")
    name = f"{old} → {file['path']}" if old and old != file["path"] else str(file["path"])
    head = Text(printable(name), "bold")
    head.append(f"  +{file.get('added') or 0} -{file.get('removed') or 0}", "not bold")
    word, style = _SCOPES.get(str(file.get("scope")), ("", ""))
    return head.append(f"  {word}", style) if word else head
