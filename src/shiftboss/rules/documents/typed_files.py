"""A file that people write, read as one of our types: all that is wrong at once, each problem with
its line and its key, in words of ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from shiftboss.rules.documents.wording import did_you_mean
from shiftboss.rules.documents.yaml_lines import Document, Path, Problem, read_yaml

M = TypeVar("M", bound=BaseModel)
# What cannot hold although its form is right, found in the raw data.
Sense = Callable[[dict[str, Any]], Iterable[tuple[Path, str]]]

_WORDS: Final = {
    "missing": "is missing",
    "string_type": "must be a text; put it in quotes if it looks like something else",
    "string_too_short": "must not be empty",
    "string_too_long": "is longer than {max_length} characters",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number that is not infinite",
    "bool_type": "must be true or false",
    "greater_than": "must be more than {gt}",
    "list_type": "must be a list",
    "too_short": "must have at least one entry",
    "too_long": "has more than {max_length} entries",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
}
# What is meant by the patterns that describe no name.
_PATTERNS: Final = {
    r"^[^\x00]*$": "holds a NUL",
    r"^https?://[^\s]+$": "must be an address that begins with http:// or https://",
    r"^[^/\s]+/[^/\s]+$": "must be owner/name",
    r"^[A-Z][A-Z0-9_]*$": "must be the name of a variable: capital letters, digits and _",
}
# How names are described in our types: what they begin with, what follows, and how much of it.
_NAME: Final = re.compile(r"\^\[(?P<first>[^]]+)\]\[(?P<rest>[^]]+)\]\{0,(?P<count>\d+)\}\$")
_LETTERS: Final = (
    ("A-Za-z", "letters"),
    ("a-zA-Z", "letters"),
    ("a-z", "small letters"),
    ("A-Z", "capital letters"),
    ("0-9", "digits"),
)


class Form(NamedTuple, Generic[M]):
    """`value` is None where the form is wrong; it counts only if there are no problems."""

    document: Document
    value: M | None
    problems: list[Problem]


def read_form(text: str, model: type[M], sense: Sense) -> Form[M]:
    document = read_yaml(text)
    value: M | None = None
    problems = list(document.problems)
    data = {} if document.data is None and not problems else document.data
    if isinstance(data, dict):
        try:
            value = model.model_validate(data)
        except ValidationError as error:
            problems += [_told(document, model, one) for one in error.errors(include_url=False)]
        problems += [document.problem(*one) for one in sense(data)]
    elif not problems:
        problems.append(Problem(1, (), "must be a mapping at the top"))
    return Form(document, value, problems)


def told_lines(name: str, problems: Iterable[Problem]) -> list[str]:
    """`name:line: key: what is wrong`, by line."""
    return [
        f"{name}:{line}: {_key(path)}{message}"
        for line, path, message in sorted(dict.fromkeys(problems), key=_place)
    ]


def _place(problem: Problem) -> tuple[int, str]:
    return problem.line, problem.message


def in_short(lines: list[str]) -> str:
    return f"{lines[0]} (and {len(lines) - 1} more)" if len(lines) > 1 else lines[0]


def _key(path: Path) -> str:
    return f"{'.'.join(map(str, path))}: " if path else ""


def _told(document: Document, model: type[BaseModel], error: ErrorDetails) -> Problem:
    path: Path = tuple(error["loc"])
    if path and path[-1] == "[key]":
        path = path[:-1]
        return document.problem(path, f"is not a name that can be used here: {_plain(error)}")
    if error["type"] == "extra_forbidden":
        known = _keys_at(model, path[:-1])
        return document.problem(path, f"is not a key here{did_you_mean(str(path[-1]), known)}")
    return document.problem(path, _plain(error))


def _plain(error: ErrorDetails) -> str:
    facts = error.get("ctx", {})
    if error["type"] == "string_pattern_mismatch":
        return _unlike(str(facts.get("pattern")))
    known = _WORDS.get(error["type"])
    if known is not None:
        return known.format(**facts)
    message = error["msg"].removeprefix("Value error, ")
    return message.replace("Input should be ", "must be ")


def _unlike(pattern: str) -> str:
    if pattern in _PATTERNS:
        return _PATTERNS[pattern]
    name = _NAME.fullmatch(pattern)
    if name is None:
        return f"must be like {pattern}"
    return (
        f"must be of {_letters(name['rest'])}, begin with {_letters(name['first'])}, "
        f"and have {int(name['count']) + 1} characters at the most"
    )


def _letters(of: str) -> str:
    words = []
    for letters, word in _LETTERS:
        if letters in of:
            of = of.replace(letters, "")
            words.append(word)
    return " or ".join([*words, *of])


def _keys_at(top: type[BaseModel], path: Path) -> list[str]:
    """The keys that the mapping at `path` can have."""
    model: type[BaseModel] | None = top
    parts = iter(path)
    for part in parts:
        fields = {} if model is None else _fields(model)
        if str(part) not in fields:
            return []
        annotation = fields[str(part)]
        model = _model_in(annotation)
        if get_origin(annotation) in (dict, list):
            next(parts, None)  # a name that the file chose, or a place in a list
    return [] if model is None else list(_fields(model))


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    """By their names in the file."""
    return {info.alias or name: info.annotation for name, info in model.model_fields.items()}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for one in get_args(annotation) if (model := _model_in(one))), None)
