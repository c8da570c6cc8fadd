"""Reads a YAML file into a pydantic type, and reports all problems at once, each with its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from shiftboss.rules.documents.wording import did_you_mean
from shiftboss.rules.documents.yaml_lines import KeyPath, Problem, YamlDocument, read_yaml

M = TypeVar("M", bound=BaseModel)
# Finds contradictions in the parsed data, such as names that do not exist.
FindContradictions = Callable[[dict[str, Any]], Iterable[tuple[KeyPath, str]]]

_MESSAGES: Final = {
    "missing": "is missing",
    "string_type": "must be a string; put it in quotes if it looks like a number or a date",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "greater_than": "must be more than {gt}",
    "list_type": "must be a list",
    "too_short": "must have at least one entry",
    "too_long": "must have at most {max_length} entries",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
}
# Explanations of the patterns that do not describe names.
_PATTERNS: Final = {
    r"^[^\x00]*$": "must not contain NUL characters",
    r"^https?://[^\s]+$": "must be an address that starts with http:// or https://",
    r"^[^/\s]+/[^/\s]+$": "must be owner/name",
    r"\{passed\}": "must contain {passed}",
    r"^[A-Z][A-Z0-9_]*$": "must be a variable name of capital letters, digits and _",
}
# The patterns for names in our types: first character, further characters, and how many.
_NAME: Final = re.compile(r"\^\[(?P<first>[^]]+)\]\[(?P<rest>[^]]+)\]\{0,(?P<count>\d+)\}\$")
_LETTERS: Final = (
    ("A-Za-z", "letters"),
    ("a-zA-Z", "letters"),
    ("a-z", "lowercase letters"),
    ("A-Z", "uppercase letters"),
    ("0-9", "digits"),
)


class TypedFile(NamedTuple, Generic[M]):
    """`value` is None if the data does not fit the type. Use it only if there are no problems."""

    document: YamlDocument
    value: M | None
    problems: list[Problem]


def read_typed_file(
    text: str, model: type[M], find_contradictions: FindContradictions
) -> TypedFile[M]:
    document = read_yaml(text)
    value: M | None = None
    problems = list(document.problems)
    data = {} if document.data is None and not problems else document.data
    if isinstance(data, dict):
        try:
            value = model.model_validate(data)
        except ValidationError as error:
            problems += [
                _problem(document, model, details) for details in error.errors(include_url=False)
            ]
        problems += [
            document.problem(*contradiction) for contradiction in find_contradictions(data)
        ]
    elif not problems:
        problems.append(Problem(1, (), "must be a mapping at the top level"))
    return TypedFile(document, value, problems)


def problem_lines(name: str, problems: Iterable[Problem]) -> list[str]:
    """`name:line: key: what is wrong`, ordered by line."""
    return [
        f"{name}:{line}: {_key(path)}{message}"
        for line, path, message in sorted(dict.fromkeys(problems), key=_sort_key)
    ]


def _sort_key(problem: Problem) -> tuple[int, str]:
    return problem.line, problem.message


def summarize_problems(lines: list[str]) -> str:
    """The first problem, and the number of the others."""
    return f"{lines[0]} (and {len(lines) - 1} more)" if len(lines) > 1 else lines[0]


def _key(path: KeyPath) -> str:
    return f"{'.'.join(map(str, path))}: " if path else ""


def _problem(document: YamlDocument, model: type[BaseModel], error: ErrorDetails) -> Problem:
    path: KeyPath = tuple(error["loc"])
    if path and path[-1] == "[key]":
        path = path[:-1]
        return document.problem(path, f"is not a valid name: {_message(error)}")
    if error["type"] == "extra_forbidden":
        keys = _keys_at(model, path[:-1])
        return document.problem(path, f"is not a known key{did_you_mean(str(path[-1]), keys)}")
    return document.problem(path, _message(error))


def _message(error: ErrorDetails) -> str:
    facts = error.get("ctx", {})
    if error["type"] == "string_pattern_mismatch":
        return _pattern_message(str(facts.get("pattern")))
    template = _MESSAGES.get(error["type"])
    if template is not None:
        return template.format(**facts)
    message = error["msg"].removeprefix("Value error, ")
    return message.replace("Input should be ", "must be ")


def _pattern_message(pattern: str) -> str:
    if pattern in _PATTERNS:
        return _PATTERNS[pattern]
    name = _NAME.fullmatch(pattern)
    if name is None:
        return f"must match {pattern}"
    return (
        f"must consist of {_letters(name['rest'])}, start with {_letters(name['first'])}, "
        f"and have at most {int(name['count']) + 1} characters"
    )


def _letters(character_class: str) -> str:
    """`letters or digits or _` for `A-Za-z0-9_`."""
    names = []
    for letters, name in _LETTERS:
        if letters in character_class:
            character_class = character_class.replace(letters, "")
            names.append(name)
    return " or ".join([*names, *character_class])


def _keys_at(top: type[BaseModel], path: KeyPath) -> list[str]:
    """The keys that are allowed in the mapping at `path`."""
    model: type[BaseModel] | None = top
    parts = iter(path)
    for part in parts:
        fields = {} if model is None else _fields(model)
        if str(part) not in fields:
            return []
        annotation = fields[str(part)]
        model = _model_in(annotation)
        if get_origin(annotation) in (dict, list):
            next(parts, None)  # a name chosen in the file, or an index of a list
    return [] if model is None else list(_fields(model))


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    """The types of the fields by their names in the file."""
    return {info.alias or name: info.annotation for name, info in model.model_fields.items()}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for inner in get_args(annotation) if (model := _model_in(inner))), None)
