"""Faults of those who verify: the evidence process of a server, and a verifier of its own."""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random

import psutil

from tests.acceptance.bus.bus import ask, task
from tests.acceptance.handoffs.handoffs import GATE
from tests.client import Client
from tests.commands import running
from tests.fork_server_process import NEW_CHILDREN
from tests.repos import UNCONTAINED, Repo
from tests.running import RunningServer
from tests.waiting import wait_until

OPERATOR = "the-operator-alone-knows-it"
VERIFIED_SECONDS = 90.0


class VerifyingWorld:
    """Each round has a new claim, whose criterion runs when the fault strikes. It must be verified
    again, and counted once."""

    name = "verification"

    def __init__(self, folder: Path, random: Random) -> None:
        self._folder = folder
        self._random = random
        self._numbers = itertools.count()
        self._open = ExitStack()
        self._server = self._started(RunningServer(folder / "own.db"))
        self._client = self._client_of(self._server)
        self._plain_server = self._started(
            RunningServer(
                folder / "remote" / "remote.db",
                verifies=False,
                operator_token=OPERATOR,
                spawning="everybody",
            )
        )
        self._plain_client = self._client_of(self._plain_server)
        self.faults: Mapping[str, Callable[[], None]] = {
            "kill the evidence process": self._kill_evidence,
            "kill the server during a verification": self._kill_server,
            "kill the verifier": self._kill_verifier,
        }

    def _started(self, server: RunningServer) -> RunningServer:
        """Its evidence process is its child, and not forked by the tests."""
        os.environ[NEW_CHILDREN] = "1"
        try:
            server.start()
        finally:
            del os.environ[NEW_CHILDREN]
        self._open.callback(server.close)
        return server

    def _client_of(self, server: RunningServer) -> Client:
        client = Client(server.url)
        self._open.callback(client.close)
        return client

    def round(self, kind: str) -> None:
        self.faults[kind]()

    def close(self) -> None:
        self._open.close()

    def _kill_evidence(self) -> None:
        claim = GatedClaim(self._client, self._folder, next(self._numbers))
        (evidence,) = [
            child
            for child in psutil.Process(self._server.pid).children()
            if "shiftboss.evidence.subprocess.main" in child.cmdline()
        ]
        evidence.kill()
        claim.check_once()

    def _kill_server(self) -> None:
        claim = GatedClaim(self._client, self._folder, next(self._numbers))
        self._server.kill()
        os.environ[NEW_CHILDREN] = "1"
        try:
            self._server.start()
        finally:
            del os.environ[NEW_CHILDREN]
        claim.check_once()

    def _kill_verifier(self) -> None:
        number = next(self._numbers)
        command = ("verifier", "--folder", str(self._folder / "verifier"), "--name")
        url, token = self._plain_server.url, OPERATOR
        with running(*command, f"a{number}", url=url, SHIFTBOSS_OPERATOR_TOKEN=token):
            claim = GatedClaim(self._plain_client, self._folder, number)
            # The end of the block kills it.
        self._let_its_time_pass()
        with running(*command, f"b{number}", url=url, SHIFTBOSS_OPERATOR_TOKEN=token):
            claim.check_once()

    def _let_its_time_pass(self) -> None:
        """Pretend that the two minutes after which a verifier counts as lost have passed."""
        self._plain_server.stop()
        with sqlite3.connect(self._plain_server.database) as database:
            database.execute("UPDATE claims SET taken_until_ms = 1 WHERE taken_until_ms > 1")
        database.close()
        self._plain_server.start()


class GatedClaim:
    """A claim whose criterion runs until it is checked."""

    def __init__(self, client: Client, folder: Path, number: int) -> None:
        self._client = client
        self._bead_id = f"t-{number}"
        self._started, self._go = folder / f"started-{number}", folder / f"go-{number}"
        repo = Repo(folder / f"repo-{number}")
        repo.base = repo.commit("set up", {"tools/gate.py": GATE})
        ask(
            client,
            "swarm_spawn_subtask",
            bead_id=self._bead_id,
            subtask_title="T",
            files=["src/auth/"],
            repo=str(repo.path),
            success_criteria=[f"Command passes: python3 tools/gate.py {self._started} {self._go}"],
            policy=UNCONTAINED,
        )
        repo.commit("work", {"src/auth/login.py": "def login():\n    return 'token'\n"})
        ask(client, "swarm_complete", bead_id=self._bead_id, wait_ms=0)
        wait_until(self._started.exists, "the criterion runs", VERIFIED_SECONDS)

    def check_once(self) -> None:
        """Nobody asks again: it is verified because it was claimed."""
        self._go.touch()
        wait_until(
            lambda: task(self._client, self._bead_id)["status"] == "done",
            f"{self._bead_id} is verified again",
            VERIFIED_SECONDS,
        )
        events = self._client.stored_events("default")
        assert [event.event_id for event in events] == list(range(1, len(events) + 1))
        own = [event.kind for event in events if event.data.get("bead_id") == self._bead_id]
        for kind in ("claim_made", "claim_accepted", "task_done"):
            assert own.count(kind) == 1, f"{kind} {own.count(kind)} times"
        signed = ask(self._client, "show_receipt", bead_id=self._bead_id)["signed_receipt"]
        assert signed
