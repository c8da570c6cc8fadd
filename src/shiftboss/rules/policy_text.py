"""The policy file read: all that is wrong with it at once, each with its line and its key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from shiftboss.errors import InvalidPolicy
from shiftboss.protocol.policy import Policy
from shiftboss.rules.near_names import did_you_mean
from shiftboss.rules.policy_sense import contradictions
from shiftboss.rules.yaml_lines import Document, Path, Problem, read_yaml

_WORDS: Final = {
    "missing": "is missing",
    "string_type": "must be a text; put it in quotes if it looks like something else",
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
}


def read_policy(text: str, name: str) -> Policy:
    """Raises InvalidPolicy with every problem as `name:line: key: what is wrong`."""
    document = read_yaml(text)
    policy: Policy | None = None
    problems = list(document.problems)
    data = {} if document.data is None and not problems else document.data
    if isinstance(data, dict):
        try:
            policy = Policy.model_validate(data)
        except ValidationError as error:
            problems += [_told(document, one) for one in error.errors(include_url=False)]
        problems += [document.problem(*one) for one in contradictions(data)]
    elif not problems:
        problems.append(Problem(1, (), "must be a mapping at the top"))
    if policy is None or problems:
        raise _invalid(name, problems)
    return policy


def effective(policy: Policy) -> str:
    """Every value that is in force, as a policy file."""
    return yaml.safe_dump(policy.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _invalid(name: str, problems: Iterable[Problem]) -> InvalidPolicy:
    lines = [
        f"{name}:{line}: {_key(path)}{message}"
        for line, path, message in sorted(set(problems), key=lambda one: (one.line, one.message))
    ]
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return InvalidPolicy(
        f"{lines[0]}{more}",
        hint="nothing was applied; `shiftboss policy check` shows all problems",
        facts={"problems": lines},
    )


def _key(path: Path) -> str:
    return f"{'.'.join(map(str, path))}: " if path else ""


def _told(document: Document, error: ErrorDetails) -> Problem:
    path: Path = tuple(error["loc"])
    if path and path[-1] == "[key]":
        path = path[:-1]
        return document.problem(path, f"is not a name that can be used here: {_plain(error)}")
    if error["type"] == "extra_forbidden":
        known = _keys_at(path[:-1])
        return document.problem(path, f"is not a key here{did_you_mean(str(path[-1]), known)}")
    return document.problem(path, _WORDS.get(error["type"]) or _plain(error))


def _plain(error: ErrorDetails) -> str:
    message = error["msg"].removeprefix("Value error, ")
    return message.replace("Input should be ", "must be ").replace("String should ", "should ")


def _keys_at(path: Path) -> list[str]:
    """The keys that the mapping at `path` can have."""
    model: type[BaseModel] | None = Policy
    parts = iter(path)
    for part in parts:
        info = None if model is None else model.model_fields.get(str(part))
        if info is None:
            return []
        model = _model_in(info.annotation)
        if get_origin(info.annotation) is dict:
            next(parts, None)  # a name that the file chose
    return [] if model is None else list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for one in get_args(annotation) if (model := _model_in(one))), None)
