"""What 50 pages that are open on the board cost a server that works without a pause.

`python -m bench.open_pages URL SWARM PAGES` is such pages without a browser: it prints a line when
all are loaded, and goes on until its input ends. They ask what `store.js` and `cards.js` ask, with
the same pauses.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import uvloop

from bench import bus
from bench.bus_load import Connection, connect
from bench.figures import Figure
from bench.running import Server, shiftboss

PAGES = 50
ROUNDS = 3
WORKERS = 64
# The swarm of bench/bus_load.py.
SWARM = "default"

CARDS_PAUSE = 0.25
ALL_CARDS_PAUSE = 10.0
STATUS_PAUSE = 1.0
INBOX_PAUSE = 1.0
SWARMS_PAUSE = 5.0
FIRST_PAGE = 200
PAGE = 1000
IDS_MAX = 500


class OneAtATime:
    """As in `schedule.js`: calls that come meanwhile lead to one more."""

    def __init__(self, work: Callable[[], Awaitable[None]], pause: float) -> None:
        self._work = work
        self._pause = pause
        self._is_wanted = asyncio.Event()
        self._task = asyncio.create_task(self._go_on())

    def ask(self) -> None:
        self._is_wanted.set()

    async def _go_on(self) -> None:
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            await self._work()
            await asyncio.sleep(self._pause)


class OpenPage:
    def __init__(self, url: str, swarm: str) -> None:
        self._url = url
        self._swarm = swarm
        self._as_of = 0
        self._stale: set[str] = set()
        self._is_all_stale = True
        self._idle: list[Connection] = []
        self.requests = 0

    async def open(self) -> None:
        await self._load_all_cards()
        self._asks = [
            OneAtATime(self._load_cards, CARDS_PAUSE),
            OneAtATime(self._load_all_cards, ALL_CARDS_PAUSE),
            OneAtATime(self._load_status, STATUS_PAUSE),
            OneAtATime(self._load_inbox, INBOX_PAUSE),
            OneAtATime(self._load_swarms, SWARMS_PAUSE),
        ]
        self._reader, self._writer = await asyncio.open_connection(
            urlsplit(self._url).hostname, urlsplit(self._url).port, limit=2**24
        )
        self._writer.write(
            f"GET /changes HTTP/1.1\r\nHost: {urlsplit(self._url).netloc}\r\n\r\n".encode()
        )
        await self._reader.readuntil(b"event: hello")
        self._feed = asyncio.create_task(self._read_feed())

    async def _read_feed(self) -> None:
        while line := await self._reader.readline():
            if line.startswith(b'data: {"swarms"'):
                change = json.loads(line.removeprefix(b"data: "))["swarms"].get(self._swarm)
                if change is not None:
                    self._take(change)

    def _take(self, change: dict[str, Any]) -> None:
        self._as_of = max(self._as_of, change["last_event_id"])
        if change["tasks"] is None:
            self._is_all_stale = True
        else:
            self._stale.update(change["tasks"])
        for each in self._asks:
            each.ask()

    async def _load_cards(self) -> None:
        while self._stale:
            ids = list(self._stale)[:IDS_MAX]
            self._stale.difference_update(ids)
            await self._cards(bead_ids=ids)

    async def _load_all_cards(self) -> None:
        if not self._is_all_stale:
            return
        self._is_all_stale = False
        answer = await self._cards(limit=FIRST_PAGE)
        while answer.get("next_after") is not None:
            answer = await self._cards(limit=PAGE, after=answer["next_after"])

    async def _cards(self, **members: Any) -> dict[str, Any]:
        body = {"swarm_id": self._swarm, "as_of": self._as_of, **members}
        answer = await self._ask(lambda http: http.post("/bus/list_cards", json.dumps(body)))
        # Only the end of it is looked at: parsing is a matter of the browser.
        tail = answer[-200:].rpartition(b"]")[2].lstrip(b",").rstrip(b"}")
        parsed: dict[str, Any] = json.loads(b"{%b}" % tail)
        return parsed

    async def _load_status(self) -> None:
        path = f"/swarm/{self._swarm}/status?shared=true"
        await self._ask(lambda http: http.get(path))

    async def _load_inbox(self) -> None:
        await self._ask(lambda http: http.post("/bus/list_inbox", '{"shared":true}'))

    async def _load_swarms(self) -> None:
        await self._ask(lambda http: http.get("/swarms?limit=50"))

    async def _ask(self, send: Callable[[Connection], Awaitable[bytes]]) -> bytes:
        """On a connection that is free, as a browser does."""
        connection = self._idle.pop() if self._idle else await connect(self._url)
        answer = await send(connection)
        self._idle.append(connection)
        self.requests += 1
        return answer


def run(folder: Path, rounds: int = ROUNDS) -> list[Figure]:
    ratios, shares = [], []
    for number in range(rounds):
        alone, _ = _cycle(folder / f"alone-{number}.db", 0)
        looked_at, cycles_per_second = _cycle(folder / f"pages-{number}.db", PAGES)
        ratios.append(looked_at / alone)
        shares.append((looked_at - alone) * cycles_per_second * 100)
    name = f"{PAGES} open pages"
    return [
        Figure(f"{name}: processor time, of one core", median(shares), "%", at_most=5),
        Figure(f"{name}: processor time per cycle / without", median(ratios), ""),
    ]


def _cycle(database: Path, pages: int) -> tuple[float, float]:
    """The server's processor time per cycle in seconds, and how many cycles a second has."""
    with shiftboss(database) as server, _open(server, pages):
        before = server.precise_cpu_seconds()
        rate = bus.load("cycle", server, WORKERS).cycles_per_second
        return (server.precise_cpu_seconds() - before) / bus.TASKS, rate


@contextmanager
def _open(server: Server, pages: int) -> Iterator[None]:
    if not pages:
        yield
        return
    server.post("/swarm/create", {"swarm_id": SWARM})
    argv = [sys.executable, "-m", "bench.open_pages", server.url, SWARM, str(pages)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline()
        yield
        process.stdin.close()
        assert process.stdout.readline(), "the pages have failed"


async def _browse(url: str, swarm: str, count: int) -> None:
    pages = [OpenPage(url, swarm) for _ in range(count)]
    await asyncio.gather(*(page.open() for page in pages))
    print("open", flush=True)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(sys.stdin, ended.set)
    await ended.wait()
    print(sum(page.requests for page in pages), flush=True)


def main() -> None:
    url, swarm, count = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_browse(url, swarm, int(count)))


if __name__ == "__main__":
    main()
