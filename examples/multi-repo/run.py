"""Ten repos under the completion contract: spawned bottom-up, proven by CI, synced or refused.

    python examples/multi-repo/run.py

All of it happens in a temporary folder, with a server and a CI of its own. Every line that begins
with `$` is a command that you could type yourself. The exit code is 0 when all went as it should.
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

from ground import GRAPH, git, make_repos, write_policy
from talk import RefusedError, ask, events
from worker import Worker

SHIFTBOSS = [sys.executable, "-m", "shiftboss.cli.main"]
WORKERS = ("hasty", "calm", "steady")
ALL_SECONDS = 120.0
PAUSE_SECONDS = 0.2
# Settings for another server are not for this one.
ENVIRONMENT = {name: value for name, value in os.environ.items() if "SHIFTBOSS_" not in name}


class UnexpectedError(Exception):
    """The example did not go as it should."""


def say(text: str) -> None:
    print(f"\n## {text}\n", flush=True)


def shiftboss(folder: Path, address: str, *arguments: str, code: int = 0) -> None:
    """Say what is run, run it, and insist on how it ends."""
    print("$ shiftboss", *arguments, flush=True)
    environment = {**ENVIRONMENT, "SHIFTBOSS_URL": address, "COLUMNS": "120"}
    done = subprocess.run(
        [*SHIFTBOSS, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout, flush=True)
    if done.returncode != code:
        raise UnexpectedError(f"that ended with {done.returncode} and not with {code}")


@contextlib.contextmanager
def server(folder: Path) -> Iterator[str]:
    """A server on a free port, with the policy that lies in the folder; its address."""
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
    crew = [Worker(name, address, folder, is_hasty=name == "hasty") for name in WORKERS]
    for one in crew:
        one.start()
    try:
        yield crew
    finally:
        for one in crew:
            one.end()


def orchestrate(folder: Path, address: str, crew: list[Worker]) -> None:
    """Spawn whatever the graph and the locks allow, until all is done."""
    waiting, done = list(GRAPH), set[str]()
    ends_at = time.monotonic() + ALL_SECONDS
    while len(done) < len(GRAPH):
        for repo in list(waiting):
            if done.issuperset(GRAPH[repo]) and spawn(address, repo):
                waiting.remove(repo)
                if repo == "alphavm":
                    show_the_locks(folder, address)
        done = finished(address)
        broken = next((one.error for one in crew if one.error is not None), None)
        if broken is not None or time.monotonic() > ends_at:
            raise UnexpectedError(f"only {sorted(done)} are done: {broken or 'out of time'}")
        time.sleep(PAUSE_SECONDS)


def spawn(address: str, repo: str) -> bool:
    """False: the locks say that it waits."""
    try:
        ask(
            address,
            "swarm_spawn_subtask",
            bead_id=f"{repo}-greeting",
            subtask_title=f"Let {repo} greet",
            files=["src/greeting.py"],
            files_readonly=["sync_wanted.py", "tests/test_greeting.py"],
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
    tasks = ask(address, "list_tasks")["tasks"]
    return {one["bead_id"].removesuffix("-greeting") for one in tasks if one["status"] == "done"}


def show_the_locks(folder: Path, address: str) -> None:
    say("While somebody works on alphavm: its sibling may start, what meets it may not")
    shiftboss(folder, address, "repo", "can-spawn", "deltavm")
    shiftboss(folder, address, "repo", "can-spawn", "adnet", code=1)
    shiftboss(folder, address, "repo", "can-spawn", "acdc-core", code=1)


def check_locks(address: str) -> int:
    """How many repos were worked on at once. No two of them may have been neighbours."""
    active: set[str] = set()
    most = 0
    for kind, data in events(address, {"repo_locked", "repo_released"}):
        repo = data["repo"]
        if kind == "repo_released":
            active.discard(repo)
            continue
        met = [one for one in active if one in GRAPH[repo] or repo in GRAPH[one]]
        if met:
            raise UnexpectedError(f"{repo} was begun while {met} were worked on")
        active.add(repo)
        most = max(most, len(active))
    return most


def summary(folder: Path, address: str) -> None:
    """Every repo with its receipt; its copy must have what was proven."""
    print(f"{'REPO':<14}{'WORKER':<9}{'COMMIT':<12}{'CI RUN':<8}{'radicle-push':<14}RECEIPT")
    for repo in GRAPH:
        answer = ask(address, "show_receipt", bead_id=f"{repo}-greeting")
        receipt: dict[str, Any] = answer["signed_receipt"]["receipt"]
        synced = git(folder / "radicle" / f"{repo}.git", "rev-parse", "main")
        if synced != receipt["commit"]:
            raise UnexpectedError(f"{repo} was proven at {receipt['commit']}, synced at {synced}")
        run = receipt["ci"]["runs"][0]
        jobs = {job["name"]: job["state"] for job in run["jobs"]}
        print(
            f"{repo:<14}{receipt['worker']:<9}{receipt['commit'][:10]:<12}#{run['run_id']:<7}"
            f"{jobs['radicle-push']:<14}{receipt['receipt_id']}"
        )


def play(folder: Path) -> None:
    say("A policy with ten repos, in the order in which they may be worked on")
    make_repos(folder)
    write_policy(folder)
    shiftboss(folder, "", "policy", "check")
    with server(folder) as address:
        say("Three workers; repos are spawned bottom-up as the locks allow")
        with workers(folder, address) as crew:
            orchestrate(folder, address, crew)
        say("One of them skipped the sync job and said DONE; this is what it heard")
        refusals = [text for one in crew for text in one.refusals]
        print("\n".join(refusals))
        if len(refusals) != 1 or "radicle-push" not in refusals[0]:
            raise UnexpectedError("the skipped sync job was not refused by its name")
        say("It followed the remedy, and was accepted like the others")
        summary(folder, address)
        most = check_locks(address)
        if most < 2:
            raise UnexpectedError("no two repos were ever worked on side by side")
        print(f"\nup to {most} repos at once, never two that depend on each other")
        shiftboss(folder, address, "repo", "list")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="shiftboss-multi-repo-") as name:
        try:
            play(Path(name).resolve())
        except UnexpectedError as error:
            print(error, file=sys.stderr)
            return 1
    say("Ten repos are done, proven and synced; the skipped sync was refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
