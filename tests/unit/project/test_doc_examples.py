"""The examples in the documentation are valid: data parses, plans and policies are accepted, code
compiles. Commands are checked in tests/unit/cli/test_help.py."""

from __future__ import annotations

import ast
import json

import pytest
import yaml
from pydantic import ValidationError

from shiftboss.protocol.notifications.settings import NotifySettings
from shiftboss.protocol.plan import Plan
from shiftboss.protocol.policy import Policy
from tests.doc_blocks import Block, blocks


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_json_is_valid(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_compiles(block: Block) -> None:
    compile(block.text, str(block), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_a_plan_or_a_policy_is_accepted(block: Block) -> None:
    document = yaml.safe_load(block.text)
    if "channels" in document:
        NotifySettings.model_validate(document)
        return
    if isinstance(document, list):
        document = {"tasks": document}
    if "tasks" in document or not is_policy(document):
        Plan.model_validate(A_PLAN | document)


def is_policy(document: object) -> bool:
    try:
        Policy.model_validate(document)
    except ValidationError:
        return False
    return True


# For an example that shows only a part of a plan.
A_PLAN = {
    "goal": "A goal",
    "repos": {"shop": {"path": "."}},
    "agent": "claude",
    "tasks": [
        {"id": "t", "title": "T", "files_owned": ["a"], "criteria": ["Tests pass: make test"]}
    ],
}
