"""Ten repos under the completion contract: spawned bottom-up, verified by CI, synced or refused.

    python examples/multi-repo/run.py

Everything happens in a temporary folder, with its own server and CI. Every line that starts with
`$` is a command that you could type yourself. The exit code is 0 if everything went as expected.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bus_client import RefusedError, call_bus, stored_events
from worker import Worker

from repos import GRAPH, create_repos, git, write_policy

SHIFTBOSS = [sys.executable, "-m", "shiftboss.cli.main"]
WORKERS = ("hasty", "calm", "steady")
ALL_SECONDS = 120.0
PAUSE_SECONDS = 0.2
# Without the settings of another server.
ENVIRONMENT = {name: value for name, value in os.environ.items() if "SHIFTBOSS_" not in name}


class UnexpectedError(Exception):
    """The example did not go as expected."""


def print_heading(text: str) -> None:
    print(f"\n## {text}\n", flush=True)


def shiftboss(folder: Path, address: str, *arguments: str, code: int = 0) -> None:
    """Print a command, run it, and check its exit code."""
    print("$ shiftboss", *arguments, flush=True)
    environment = {**ENVIRONMENT, "SHIFTBOSS_URL": address, "COLUMNS": "120"}
    result = subprocess.run(
        [*SHIFTBOSS, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(result.stdout, flush=True)
    if result.returncode != code:
        raise UnexpectedError(f"exit code {result.returncode}, expected {code}")


@contextlib.contextmanager
def server(folder: Path) -> Iterator[str]:
    """Start a server on a free port with the policy in the folder; yields its address."""
    command = [*SHIFTBOSS, "serve", "--port", "0", "--policy", "shiftboss.yaml"]
    with subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise UnexpectedError("the server did not start")
            yield line.removeprefix("listening on ").split(";")[0]
        finally:
            process.terminate()


@contextlib.contextmanager
def workers(folder: Path, address: str) -> Iterator[list[Worker]]:
    all_workers = [Worker(name, address, folder, is_hasty=name == "hasty") for name in WORKERS]
    for worker in all_workers:
        worker.start()
    try:
        yield all_workers
    finally:
        for worker in all_workers:
            worker.stop()


def orchestrate(folder: Path, address: str, all_workers: list[Worker]) -> None:
    """Spawn what the graph and the locks allow, until everything is done."""
    waiting, done = list(GRAPH), set[str]()
    ends_at = time.monotonic() + ALL_SECONDS
    while len(done) < len(GRAPH):
        for repo in list(waiting):
            if done.issuperset(GRAPH[repo]) and spawn(address, repo):
                waiting.remove(repo)
                if repo == "alphavm":
                    show_locks(folder, address)
        done = finished(address)
        error = next((worker.error for worker in all_workers if worker.error is not None), None)
        if error is not None or time.monotonic() > ends_at:
            raise UnexpectedError(f"only {sorted(done)} are done: {error or 'timeout'}")
        time.sleep(PAUSE_SECONDS)


def spawn(address: str, repo: str) -> bool:
    """False if the repo is blocked by a lock."""
    try:
        call_bus(
            address,
            "swarm_spawn_subtask",
            bead_id=f"{repo}-greeting",
            subtask_title=f"Let {repo} greet",
            files=["src/greeting.py"],
            files_readonly=["check_sync.py", "tests/test_greeting.py"],
            success_criteria=["Tests pass: python3 -m unittest discover -s tests"],
            dependencies_completed=[f"{name}-greeting" for name in GRAPH[repo]],
            repo=repo,
            submit=True,
        )
    except RefusedError as error:
        if error.problem["code"] != "repo_blocked":
            raise UnexpectedError(str(error)) from error
        return False
    print(f"        spawned {repo}\n", end="", flush=True)
    return True


def finished(address: str) -> set[str]:
    tasks = call_bus(address, "list_tasks")["tasks"]
    return {task["bead_id"].removesuffix("-greeting") for task in tasks if task["status"] == "done"}


def show_locks(folder: Path, address: str) -> None:
    print_heading(
        "While alphavm is locked: its sibling can start, repos that depend on each other cannot"
    )
    shiftboss(folder, address, "repo", "can-spawn", "deltavm")
    shiftboss(folder, address, "repo", "can-spawn", "adnet", code=1)
    shiftboss(folder, address, "repo", "can-spawn", "acdc-core", code=1)


def check_locks(address: str) -> int:
    """Check that no two neighbours were locked at the same time; returns the maximum number."""
    active: set[str] = set()
    parallel_max = 0
    for kind, data in stored_events(address, {"repo_locked", "repo_released"}):
        repo = data["repo"]
        if kind == "repo_released":
            active.discard(repo)
            continue
        neighbours = [other for other in active if other in GRAPH[repo] or repo in GRAPH[other]]
        if neighbours:
            raise UnexpectedError(f"{repo} was locked at the same time as {neighbours}")
        active.add(repo)
        parallel_max = max(parallel_max, len(active))
    return parallel_max


def summary(folder: Path, address: str) -> None:
    """Print every repo with its receipt; its mirror must have the verified commit."""
    print(f"{'REPO':<14}{'WORKER':<9}{'COMMIT':<12}{'CI RUN':<8}{'radicle-push':<14}RECEIPT")
    for repo in GRAPH:
        answer = call_bus(address, "show_receipt", bead_id=f"{repo}-greeting")
        receipt: dict[str, Any] = answer["signed_receipt"]["receipt"]
        synced = git(folder / "radicle" / f"{repo}.git", "rev-parse", "main")
        if synced != receipt["commit"]:
            raise UnexpectedError(f"{repo}: verified {receipt['commit']}, but synced {synced}")
        run = receipt["ci"]["runs"][0]
        jobs = {job["name"]: job["state"] for job in run["jobs"]}
        print(
            f"{repo:<14}{receipt['worker']:<9}{receipt['commit'][:10]:<12}#{run['run_id']:<7}"
            f"{jobs['radicle-push']:<14}{receipt['receipt_id']}"
        )


def run_example(folder: Path) -> None:
    print_heading("A policy with ten repos, in the order of their dependencies")
    create_repos(folder)
    write_policy(folder)
    shiftboss(folder, "", "policy", "check")
    with server(folder) as address:
        print_heading("Three workers; repos are spawned bottom-up as the locks allow")
        with workers(folder, address) as all_workers:
            orchestrate(folder, address, all_workers)
        print_heading("One worker skipped the sync job and reported DONE; the server answered:")
        refusals = [text for worker in all_workers for text in worker.refusals]
        print("\n".join(refusals))
        if len(refusals) != 1 or "radicle-push" not in refusals[0]:
            raise UnexpectedError("the refusal does not name the skipped sync job")
        print_heading("It applied the remedy and was accepted like the others")
        summary(folder, address)
        parallel_max = check_locks(address)
        if parallel_max < 2:
            raise UnexpectedError("no two repos were ever worked on at the same time")
        print(f"\nup to {parallel_max} repos at the same time, never two that depend on each other")
        shiftboss(folder, address, "repo", "list")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="shiftboss-multi-repo-") as name:
        try:
            run_example(Path(name).resolve())
        except UnexpectedError as error:
            print(error, file=sys.stderr)
            return 1
    print_heading("Ten repos are done, verified and synced; the skipped sync was refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
