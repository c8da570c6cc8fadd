"""Every metric of the server: its name, kind, meaning and labels. The reference lists the same.

Names and units are those of Prometheus: base units, `_total` for counters. A label has few values,
all of them known in the code: never the id of a task, a swarm, a worker or a token. They come and
go without end, and each value of a label is one more series forever. The facts about one task are
in its events, its trace and its log lines, which its trace id connects.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

PREFIX: Final = "shiftboss_"


class Metric(NamedTuple):
    """`name` is without the prefix; that of a counter is without `_total`."""

    name: str
    kind: Literal["counter", "gauge", "histogram", "info"]
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def shown_name(self) -> str:
        suffix = {"counter": "_total", "info": "_info"}.get(self.kind, "")
        return f"{PREFIX}{self.name}{suffix}"


# What is in the database: the same figures from every server on it.
DATABASE: Final = (
    Metric("database_up", "gauge", "Whether the database could be read for this scrape"),
    Metric("tasks", "gauge", "Tasks of swarms that are not complete, by status", ("status",)),
    Metric("queue_ready_tasks", "gauge", "Queued tasks that could be handed out now"),
    Metric("open_swarms", "gauge", "Swarms that are not complete"),
    Metric("leases", "gauge", "Leases of attempts, live or past their end", ("state",)),
    Metric("open_claims", "gauge", "Claims without a verdict"),
    Metric("oldest_claim_age_seconds", "gauge", "Age of the oldest claim without a verdict"),
    Metric("ci_pending_commits", "gauge", "Pushed commits whose CI is followed"),
    Metric("waiting_for_person", "gauge", "What waits for a person, by kind", ("kind",)),
)

# What this server has done since its start: add up the servers.
WORK: Final = (
    Metric("events", "counter", "Events committed by this server", ("kind",)),
    Metric(
        "dispatch_wait_seconds",
        "histogram",
        "From the moment a task is ready until a worker is assigned; 0 if one was free",
    ),
    Metric(
        "delivery_wait_seconds",
        "histogram",
        "From the assignment until a poll has received the task, where no poll was parked",
    ),
    Metric("attempts_ended", "counter", "Attempts that ended, by reason", ("reason",)),
    Metric("leases_expired", "counter", "Leases and offers that ran out", ("kind",)),
    Metric("verdicts", "counter", "Verdicts on claims", ("result",)),
    Metric("failed_checks", "counter", "Refused claims by check that failed", ("check",)),
    Metric(
        "verification_seconds", "histogram", "Time that a verifier took for a verdict", ("result",)
    ),
    Metric("ci_wait_seconds", "histogram", "From a push to the result of its CI", ("result",)),
    Metric("landing_wait_seconds", "histogram", "From the acceptance of work to its landing"),
    Metric("usage_tokens", "counter", "Tokens that agents reported", ("kind",)),
    Metric("usage_dollars", "counter", "Dollars that agents reported, where a price is known"),
)

STORE: Final = (
    Metric("store_transaction_seconds", "histogram", "Time of a transaction, commit included"),
    Metric("store_batch_wait_seconds", "histogram", "How long the first of a batch waited for it"),
    Metric("store_batch_use_cases", "histogram", "Use cases that shared one commit"),
    Metric("store_refused_batches", "counter", "Batches that the database refused"),
)

SERVER: Final = (
    Metric("http_requests", "counter", "Requests by route and result", ("route", "result")),
    Metric("parked_polls", "gauge", "Workers whose poll waits for a task on this server"),
    Metric("event_streams", "gauge", "Event streams that are open on this server"),
    Metric("open_connections", "gauge", "Open connections of clients"),
    Metric("duty_runs", "counter", "Rounds of background duties", ("duty",)),
    Metric("duty_failures", "counter", "Rounds of background duties that failed", ("duty",)),
    Metric(
        "duty_seconds_since_success",
        "gauge",
        "Seconds since the last round that succeeded, of duties that run on this server",
        ("duty",),
    ),
    Metric("effects_waiting", "gauge", "Events whose effects after the commit have not run yet"),
    Metric("effect_failures", "counter", "Effects after a commit that failed", ("effect",)),
    Metric(
        "notification_attempts", "counter", "Attempts to send a notification by result", ("result",)
    ),
    Metric("trace_spans", "counter", "Spans of traces, if they are exported", ("result",)),
    Metric("trace_export_failures", "counter", "Tries to export spans that failed"),
    Metric("evidence_process_starts", "counter", "Starts of the evidence process"),
    Metric("ready", "gauge", "Whether this server may get traffic, as /ready says"),
    Metric("problems", "gauge", "What is wrong with this server, as /health says", ("name",)),
    Metric("leader", "gauge", "Whether this server runs the duties of the leader"),
    Metric("build", "info", "Version of the server, and what it runs on", ("version", "store")),
)

# Of the process of the server, from the Prometheus client, on Linux.
PROCESS: Final = (
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
)

CATALOGUE: Final = {metric.name: metric for metric in (*DATABASE, *WORK, *STORE, *SERVER)}
