"""The dashboard and the alerts ask for what the server shows, and name commands that exist."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import typer.main
import yaml
from promql_parser import AggregateExpr, BinaryExpr, Call, MatrixSelector, VectorSelector
from typer.core import TyperGroup

from shiftboss.cli.main import app
from shiftboss.server.metrics.catalogue import CATALOGUE, PROCESS, Metric
from tests.programs import program

pytestmark = pytest.mark.requirement("OWN-08")

FOLDER = Path(__file__).parents[3] / "examples" / "observability"
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))
GROUPS = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"]
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
# What Prometheus itself adds.
OF_SCRAPE = frozenset({"job", "instance"})
# Grafana fills these in.
VARIABLES = {"$__rate_interval": "5m", "$__range": "1h"}


def sample_names(metric: Metric) -> list[str]:
    if metric.kind == "histogram":
        return [f"{metric.shown_name}_{part}" for part in ("bucket", "sum", "count")]
    return [metric.shown_name]


LABELS = {
    **{
        name: {*metric.labels, *OF_SCRAPE, *(("le",) if name.endswith("_bucket") else ())}
        for metric in CATALOGUE.values()
        for name in sample_names(metric)
    },
    **{name: set(OF_SCRAPE) for name in ("up", *PROCESS)},
}


def expressions() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            yield panel["title"], expression
    for name, rule in ALERTS.items():
        yield name, rule["expr"]


EXPRESSIONS = list(expressions())


def children(node: Any) -> list[Any]:
    if isinstance(node, BinaryExpr):
        return [node.lhs, node.rhs]
    if isinstance(node, Call):
        return list(node.args)
    if isinstance(node, MatrixSelector):
        return [node.vector_selector]
    return [node.expr] if hasattr(node, "expr") else []


def selectors(node: Any) -> Iterator[VectorSelector]:
    if isinstance(node, VectorSelector):
        yield node
    for child in children(node):
        yield from selectors(child)


def groupings(node: Any) -> Iterator[tuple[set[str], Any]]:
    """The labels that a node keeps, and the node."""
    if isinstance(node, AggregateExpr) and node.modifier is not None:
        yield set(node.modifier.labels), node
    for child in children(node):
        yield from groupings(child)


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_every_expression_asks_for_metrics_and_labels_that_exist(
    title: str, expression: str
) -> None:
    parsed = promql_parser.parse(expression)
    used = list(selectors(parsed))
    assert used, f"{title}: it reads nothing"
    for selector in used:
        assert selector.name in LABELS, f"{title}: there is no metric {selector.name}"
        named = {matcher.name for matcher in selector.matchers.matchers}
        assert named <= LABELS[selector.name], f"{title}: {named} of {selector.name}"
    for labels, node in groupings(parsed):
        for selector in selectors(node):
            assert labels <= LABELS[str(selector.name)], f"{title}: {labels} of {selector.name}"


def test_every_metric_is_on_the_dashboard() -> None:
    titles = {panel["title"] for panel in DASHBOARD["panels"]}
    shown = {
        selector.name
        for title, expression in EXPRESSIONS
        if title in titles
        for selector in selectors(promql_parser.parse(expression))
    }
    missing = [
        metric.shown_name
        for metric in CATALOGUE.values()
        if not shown.intersection(sample_names(metric))
    ]
    assert missing == []


def test_no_panel_lies_on_another() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_names_a_command_that_exists(name: str) -> None:
    """The words of an alert are for the person whom it wakes."""
    annotations = ALERTS[name]["annotations"]
    assert {"summary", "description", "command"} == annotations.keys()
    assert ALERTS[name]["labels"]["severity"] in ("critical", "warning")
    program, *words = shlex.split(annotations["command"])
    assert program == "shiftboss"
    command = typer.main.get_command(app)
    while isinstance(command, TyperGroup):
        command = command.commands[words.pop(0)]
    assert words == []


def test_prometheus_accepts_the_rules_and_its_settings(tmp_path: Path) -> None:
    promtool = program("promtool")
    shutil.copy(FOLDER / "alerts.yml", tmp_path)
    settings = (FOLDER / "prometheus.yml").read_text(encoding="utf-8")
    token = tmp_path / "token"
    token.touch()
    file = tmp_path / "prometheus.yml"
    file.write_text(settings.replace("/etc/prometheus/shiftboss-token", str(token)))
    result = subprocess.run(
        [promtool, "check", "config", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
