"""A fake forge: a real HTTP server that answers like Forgejo, Gitea and GitHub, and misbehaves like
them on request."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qs, urlsplit

from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.policy import CiPolicy

# old: Forgejo 8 to 11 and Gitea 1.23, which only list tasks. runs: Forgejo 12 to 15, with runs and
# without jobs. new: Forgejo 16. The others have runs and jobs in the shape of GitHub.
Flavour = Literal["forgejo-old", "forgejo-runs", "forgejo-new", "gitea", "github"]

REPOSITORY = "alpha/alphavm"
TOKEN = "t0p-s3cret-token"
CREATED = "2026-01-09T10:00:00Z"

_ENDED = ("success", "failure", "cancelled", "skipped")


class Reply(NamedTuple):
    status: int
    body: Any = None
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


@dataclass
class Run:
    """`jobs` are states by name; `old_tasks` are the earlier tasks of restarted jobs."""

    id: int
    number: int
    sha: str
    workflow: str
    event: str
    jobs: dict[str, str]
    branch: str = "main"
    # The full name of the ref; default: that of the branch.
    ref: str = ""
    is_fork: bool = False
    attempt: int = 1
    old_tasks: list[tuple[str, str]] = field(default_factory=list)
    # How many more requests see it uncancelled; None: it was not cancelled.
    called_off_in: int | None = None

    @property
    def pretty_ref(self) -> str:
        """What Forgejo and Gitea show: the name of a branch or a tag, the number of a pull
        request."""
        match self.ref.split("/", 3):
            case ["refs", "pull", number, *_]:
                return f"#{number}"
            case ["refs", "tags", *name]:
                return "/".join(name)
        return self.branch

    @property
    def status(self) -> str:
        states = set(self.jobs.values())
        if states <= {"waiting"}:
            return "waiting"
        if states & {"waiting", "running"}:
            return "running"
        return next(
            (state for state in ("failure", "cancelled", "success") if state in states), "skipped"
        )

    def restart(self, **jobs: str) -> None:
        """Restart jobs, which then have these states."""
        self.attempt += 1
        self.old_tasks += [(name, self.jobs[name]) for name in jobs]
        self.jobs |= jobs


class Forge(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, flavour: Flavour) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.flavour = flavour
        self.runs: list[Run] = []
        # The branch that is pushed to.
        self.branch = "main"
        self.logs: dict[int, str] = {}
        self.tips: dict[str, str] = {}
        self.accepted_token: str | None = TOKEN
        # The number of requests by path, and their Authorization headers.
        self.requests: Counter[str] = Counter()
        self.authorizations: list[str | None] = []
        self.not_modified = 0
        # The actions it was asked for: `cancel` or `rerun` with the id of the run.
        self.told: list[str] = []
        # How it misbehaves.
        self.instead: list[Reply] = []
        self.is_down = False
        self.has_etags = False
        self.leaves_out_shas = False
        self.has_statuses = True
        self.foreign_statuses: list[dict[str, Any]] = []
        self.declares_totals = True
        self.page_rows_max = 1000
        # It lists no more than this, whatever total it declares.
        self.listed_max = 100_000
        self.says_null = False
        self.ignores_head_sha = False
        self.headers: dict[str, str] = {}
        self.log_address: str | None = None
        self.is_slow = False
        self.may_write = True
        self.has_reruns = flavour in ("gitea", "github")
        # How many requests still see a cancelled run unchanged.
        self.cancels_after = 0
        self.gone = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def asked(self) -> int:
        return sum(self.requests.values())

    def push(
        self,
        sha: str,
        *,
        workflow: str = "ci.yml",
        event: str = "push",
        branch: str | None = None,
        ref: str = "",
        **jobs: str,
    ) -> Run:
        """Add a run with its jobs; underscores in their names mean dashes."""
        number = len(self.runs) + 89
        named = {name.replace("_", "-"): state for name, state in jobs.items()}
        run = Run(number * 10, number, sha, workflow, event, named, branch or self.branch, ref)
        self.runs.append(run)
        self.tips[self.branch] = sha
        return run

    def demand(self, **policy: Any) -> CiDemand:
        """A demand for this forge, with the token from the variable FORGE_TOKEN."""
        settings = {
            "provider": "github" if self.flavour == "github" else "forgejo",
            "url": self.url,
            "repository": REPOSITORY,
            "token_variable": "FORGE_TOKEN",
            **policy,
        }
        return CiDemand(
            repo="alphavm", repo_path="/nowhere", branch="main", policy=CiPolicy(**settings)
        )

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect: some tests do not wait for a slow response."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def reply(self, path: str, query: dict[str, str], authorization: str | None) -> Reply:
        if self.instead and not self.is_down:
            return self.instead.pop(0)
        refused = self._refused(authorization)
        if refused is not None:
            return refused
        root = "" if self.flavour == "github" else "/api/v1"
        parts = path.removeprefix(f"{root}/repos/{REPOSITORY}/").split("/")
        body = self._body(parts, query)
        if body is None:
            return Reply(404, {"message": "Not Found"})
        return Reply(200, None if self.says_null else body, self.headers)

    def act(self, path: str, authorization: str | None) -> Reply:
        """Cancel or restart a run. Like real forges, it does not restart a running one."""
        refused = self._refused(authorization)
        match path.split("/")[-4:]:
            case ["actions", "runs", number, ("cancel" | "rerun") as what] if refused is None:
                return self._acted(int(number), what)
        return refused or Reply(404, {"message": "Not Found"})

    def _acted(self, run_id: int, what: str) -> Reply:
        cancels = self.flavour in ("forgejo-new", "gitea", "github")
        run = next((run for run in self.runs if run.id == run_id), None)
        if run is None or not (cancels if what == "cancel" else self.has_reruns):
            return Reply(404, {"message": "Not Found"})
        if not self.may_write:
            return Reply(403, {"message": "Resource not accessible by personal access token"})
        if what == "rerun" and run.status in ("waiting", "running"):
            return Reply(403 if self.flavour == "github" else 400, {"message": "already running"})
        self.told.append(f"{what} {run_id}")
        if what == "rerun":
            run.restart(**dict.fromkeys(run.jobs, "waiting"))
            return Reply(201, {})
        run.called_off_in = self.cancels_after
        self._call_off(run)
        return Reply(202 if self.flavour == "github" else 200, {})

    @staticmethod
    def _call_off(run: Run) -> None:
        """End the cancelled runs that were listed often enough."""
        if run.called_off_in == 0:
            ended = {name: state for name, state in run.jobs.items() if state in _ENDED}
            run.jobs = dict.fromkeys(run.jobs, "cancelled") | ended
        if run.called_off_in is not None:
            run.called_off_in = run.called_off_in - 1 if run.called_off_in else None

    def _refused(self, authorization: str | None) -> Reply | None:
        if self.is_down:
            return Reply(502, "Bad Gateway")
        scheme = "Bearer" if self.flavour == "github" else "token"
        if self.accepted_token and authorization != f"{scheme} {self.accepted_token}":
            return Reply(401, {"message": "Bad credentials"})
        return None

    def _body(self, parts: list[str], query: dict[str, str]) -> Any:
        match parts:
            case ["actions", "tasks"] if self.flavour != "github":
                return self._listed("workflow_runs", self._tasks(), query)
            case ["actions", "runs"] if self.flavour != "forgejo-old":
                for run in self.runs:
                    self._call_off(run)
                rows = [self._run(run) for run in reversed(self.runs) if self._fits(run, query)]
                return self._listed("workflow_runs", rows, query)
            case ["actions", "runs", number, "jobs"] if self._has_jobs:
                return self._listed("jobs", self._jobs(int(number)), query)
            case ["commits", sha, "status"] if self.flavour != "github":
                return self._statuses(sha, query)
            case ["branches", name]:
                return {"name": name, "commit": {"id": self.tips.get(name)}}
            case ["actions", "jobs", number, "logs"] if int(number) in self.logs:
                return self.logs[int(number)]
        return None

    def _listed(
        self, member: str, rows: list[dict[str, Any]], query: dict[str, str]
    ) -> dict[str, Any]:
        total = {"total_count": len(rows)} if self.declares_totals else {}
        return {member: self._page(rows, query), **total}

    def _page(self, rows: list[dict[str, Any]], query: dict[str, str]) -> list[dict[str, Any]]:
        """Like real forges, it may send fewer rows than asked for."""
        size = int(query.get("limit") or query.get("per_page") or 30)
        size = min(size, self.page_rows_max)
        start = (int(query.get("page", 1)) - 1) * size
        return rows[: self.listed_max][start : start + size]

    @property
    def _has_jobs(self) -> bool:
        return self.flavour in ("forgejo-new", "gitea", "github")

    def _fits(self, run: Run, query: dict[str, str]) -> bool:
        return self.ignores_head_sha or query.get("head_sha") in (None, run.sha)

    def _sha(self, run: Run) -> str:
        return "" if self.leaves_out_shas else run.sha

    def _tasks(self) -> list[dict[str, Any]]:
        """The tasks of jobs that a runner has taken, newest first."""
        rows: list[dict[str, Any]] = []
        for run in self.runs:
            taken = [job for job in run.jobs.items() if job[1] not in ("waiting", "skipped")]
            for name, status in [*run.old_tasks, *taken]:
                row = {
                    "id": 1000 + len(rows),
                    "name": name,
                    "head_branch": run.pretty_ref,
                    "head_sha": self._sha(run),
                    "run_number": run.number,
                    "event": run.event,
                    "display_title": "work",
                    "status": status,
                    "workflow_id": run.workflow,
                    "url": f"{self.url}/{REPOSITORY}/actions/runs/{run.number}",
                    "created_at": CREATED,
                    "updated_at": CREATED,
                    "run_started_at": CREATED,
                }
                rows.append(row)
        return rows[::-1]

    def _run(self, run: Run) -> dict[str, Any]:
        if self.flavour in ("forgejo-runs", "forgejo-new"):
            return {
                "id": run.id,
                "title": "work",
                "workflow_id": run.workflow,
                "index_in_repo": run.number,
                "prettyref": run.pretty_ref,
                "is_fork_pull_request": run.is_fork,
                "commit_sha": self._sha(run),
                "event": run.event,
                "trigger_event": run.event,
                "status": run.status,
                "created": CREATED,
                "updated": f"2026-01-09T10:00:{run.attempt:02}Z",
                "html_url": f"{self.url}/{REPOSITORY}/actions/runs/{run.number}",
            }
        is_gitea, ref = self.flavour == "gitea", run.ref or f"refs/heads/{run.branch}"
        return {
            "id": run.id,
            "name": "CI",
            "run_number": run.number,
            "run_attempt": run.attempt,
            "head_sha": self._sha(run),
            "head_branch": run.branch if ref.startswith("refs/heads/") or not is_gitea else "",
            "event": run.event,
            "path": f"{run.workflow}@{ref}"
            if is_gitea
            else f".github/workflows/{run.workflow}@refs/tags/v1",
            "repository": {"id": 1, "full_name": REPOSITORY},
            "head_repository": {"id": 2 if run.is_fork else 1, "full_name": REPOSITORY},
            "html_url": f"{self.url}/{REPOSITORY}/actions/runs/{run.id}",
            "created_at": CREATED,
            "updated_at": CREATED,
            **_status_fields(run.status),
        }

    def _jobs(self, run_id: int) -> list[dict[str, Any]]:
        (run,) = [run for run in self.runs if run.id == run_id]
        is_plain = self.flavour == "forgejo-new"
        states = [
            (name, {"status": state} if is_plain else _status_fields(state))
            for name, state in run.jobs.items()
        ]
        return [
            {"id": run_id * 100 + at, "name": name, "html_url": self.url, **fields}
            for at, (name, fields) in enumerate(states)
        ]

    def _statuses(self, sha: str, query: dict[str, str]) -> dict[str, Any] | None:
        """Forgejo lists a skipped job as a success here. The last status of each context counts."""
        statuses_of = {"waiting": "pending", "running": "pending", "skipped": "success"}
        rows = {}
        for run in self.runs:
            if run.sha != sha or run.event != "push" or not self.has_statuses:
                continue
            for at, (name, state) in enumerate(run.jobs.items()):
                context = f"{run.workflow} / {name} ({run.event})"
                rows[context] = {
                    "status": statuses_of.get(state, "failure" if state == "cancelled" else state),
                    "context": context,
                    "target_url": f"/{REPOSITORY}/actions/runs/{run.number}/jobs/{at}",
                }
        statuses = self._page([*self.foreign_statuses, *rows.values()], query) or None
        total = len(statuses or [])
        return {"state": "pending", "sha": sha, "total_count": total, "statuses": statuses}


class _Handler(BaseHTTPRequestHandler):
    server: Forge
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        forge = self.server
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        forge.requests[parts.path] += 1
        forge.authorizations.append(self.headers["Authorization"])
        if forge.is_slow:
            forge.gone.wait()
            return
        if parts.path.endswith("/logs") and forge.log_address is not None:
            self._say(Reply(302, "", {"Location": f"{forge.log_address}{parts.path}"}), b"")
            return
        reply = forge.reply(parts.path, query, self.headers["Authorization"])
        text = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
        self._say(reply, text.encode())

    def do_POST(self) -> None:
        forge = self.server
        forge.requests[self.path] += 1
        forge.authorizations.append(self.headers["Authorization"])
        reply = forge.act(self.path, self.headers["Authorization"])
        self._say(reply, json.dumps(reply.body).encode())

    def _say(self, reply: Reply, content: bytes) -> None:
        etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        has_etag = self.server.has_etags and reply.status == 200
        if has_etag and self.headers["If-None-Match"] == etag:
            self.server.not_modified += 1
            reply, content = Reply(304, None, reply.headers), b""
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if has_etag:
            self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


def _status_fields(state: str) -> dict[str, Any]:
    """The status and the conclusion in the format of GitHub and Gitea."""
    if state in _ENDED:
        return {"status": "completed", "conclusion": state}
    return {"status": {"waiting": "queued", "running": "in_progress"}[state], "conclusion": None}


@contextmanager
def running_forge(flavour: Flavour) -> Iterator[Forge]:
    forge = Forge(flavour)
    thread = threading.Thread(target=forge.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield forge
    finally:
        forge.gone.set()
        forge.shutdown()
        thread.join()
        forge.server_close()
