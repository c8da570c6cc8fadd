"""The plan file read: all that is wrong with it at once, each with its line and its key."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from shiftboss.errors import InvalidPlan
from shiftboss.protocol.plan import Plan
from shiftboss.rules.form_text import in_short, read_form, told_lines
from shiftboss.rules.plan_sense import contradictions
from shiftboss.rules.plan_warnings import plan_warnings
from shiftboss.rules.yaml_lines import Document, Problem


class PlanText(NamedTuple):
    """`document` knows the lines, for what is found out later."""

    plan: Plan
    document: Document
    warnings: list[Problem]


def read_plan(text: str, name: str, kinds: Collection[str]) -> PlanText:
    """Raises InvalidPlan with every problem as `name:line: key: what is wrong`. `kinds` are the
    adapters for agents that there are."""
    form = read_form(text, Plan, lambda data: contradictions(data, kinds))
    if form.value is None or form.problems:
        raise invalid_plan(name, form.problems)
    warnings = [form.document.problem(*one) for one in plan_warnings(form.value)]
    return PlanText(form.value, form.document, warnings)


def invalid_plan(name: str, problems: Iterable[Problem]) -> InvalidPlan:
    lines = told_lines(name, problems)
    return InvalidPlan(
        in_short(lines),
        field="plan",
        hint=f"nothing was started; `shiftboss plan check {name}` shows all problems",
        facts={"problems": lines},
    )
