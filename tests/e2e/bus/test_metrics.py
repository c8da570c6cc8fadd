"""GET /metrics, read with the parsers of the Prometheus client."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

import httpx2
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from shiftboss.server.metrics.catalogue import CATALOGUE, PREFIX
from tests.programs import program
from tests.running import RunningServer
from tests.waiting import wait_until

OPEN_METRICS = {"accept": "application/openmetrics-text; version=1.0.0"}

CYCLE: tuple[tuple[str, dict[str, object]], ...] = (
    ("add_task", {"bead_id": "t", "title": "T"}),
    ("submit_task", {"bead_id": "t"}),
    ("register_worker", {"name": "w"}),
    ("poll_task", {"name": "w", "timeout_ms": 0}),
)


def value(families: Iterable[Metric], name: str, **labels: str) -> float:
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    (found,) = [sample.value for sample in samples if sample.labels.items() >= labels.items()]
    return found


def test_the_work_of_a_server_is_counted(tmp_path: Path) -> None:
    server = RunningServer(tmp_path / "metrics.db").start()
    try:
        with httpx2.Client(base_url=server.url, trust_env=False) as client:
            for operation, body in CYCLE:
                assert client.post(f"/bus/{operation}", json=body).status_code == 200
            plain = client.get("/metrics")
            opened = client.get("/metrics", headers=OPEN_METRICS)
    finally:
        server.stop()
    assert plain.headers["content-type"].startswith("text/plain")
    families = list(parse_plain(plain.text))
    assert value(families, "shiftboss_tasks", status="active") == 1
    assert value(families, "shiftboss_leases", state="live") == 1
    assert value(families, "shiftboss_events_total", kind="task_assigned") == 1
    assert value(families, "shiftboss_dispatch_wait_seconds_count") == 1
    assert value(families, "shiftboss_delivery_wait_seconds_count") == 1
    assert value(families, "shiftboss_http_requests_total", route="bus", result="2xx") == 4
    assert value(families, "shiftboss_ready") == 1
    assert value(families, "shiftboss_notification_attempts_total", result="failed") == 0
    shown = {family.name for family in parse_open(opened.text)}  # type: ignore[no-untyped-call]
    assert {f"{PREFIX}{name}" for name in CATALOGUE} <= shown
    assert {name for name in shown if name.startswith(PREFIX)} <= {
        f"{PREFIX}{name}" for name in CATALOGUE
    }


def test_promtool_finds_nothing_wrong_with_names_units_and_help(tmp_path: Path) -> None:
    promtool = program("promtool")
    server = RunningServer(tmp_path / "metrics.db").start()
    try:
        scraped = httpx2.get(f"{server.url}/metrics", trust_env=False).text
    finally:
        server.stop()
    done = subprocess.run(
        [promtool, "check", "metrics"],
        input=scraped,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_database_that_was_deleted_is_not_up(tmp_path: Path) -> None:
    """Its file can be read for as long as the server has it open: `/health` knows better."""
    server = RunningServer(tmp_path / "metrics.db").start()
    try:
        with httpx2.Client(base_url=server.url, trust_env=False) as client:
            Path(server.database).unlink()
            wait_until(lambda: client.get("/health").status_code == 503, "the loss is noticed")
            families = list(parse_plain(client.get("/metrics").text))
    finally:
        server.stop()
    assert value(families, "shiftboss_database_up") == 0
    assert value(families, "shiftboss_ready") == 0
    assert "shiftboss_tasks" not in {family.name for family in families}
