"""The policy file read: all that is wrong with it at once, each with its line and its key."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from shiftboss.errors import InvalidPolicy
from shiftboss.protocol.policy import Policy
from shiftboss.rules.form_text import in_short, read_form, told_lines
from shiftboss.rules.policy_sense import contradictions
from shiftboss.rules.yaml_lines import Problem


def read_policy(text: str, name: str) -> Policy:
    """Raises InvalidPolicy with every problem as `name:line: key: what is wrong`."""
    form = read_form(text, Policy, contradictions)
    if form.value is None or form.problems:
        raise invalid(name, form.problems)
    return form.value


def invalid(name: str, problems: Iterable[Problem]) -> InvalidPolicy:
    lines = told_lines(name, problems)
    return InvalidPolicy(
        in_short(lines),
        hint="nothing was applied; `shiftboss policy check` shows all problems",
        facts={"problems": lines},
    )


def effective(policy: Policy) -> str:
    """Every value that is in force, as a policy file."""
    return yaml.safe_dump(policy.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
