"""Agents as real processes: how they are started, and what they print."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shiftboss.agents.launch import Launch
from shiftboss.orchestrator.guardian.agent_process import (
    RUN_MARK,
    AgentProcess,
    Exit,
    ProcessLimits,
)
from tests.e2e.agents.agent_fixtures import KILLED, AgentHost, agent_room, lines_of, touch
from tests.e2e.evidence.signing import FOREVER
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[AgentHost]:
    yield from agent_room(tmp_path)


async def test_an_agent_reads_its_input_prints_lines_and_exits(host: AgentHost) -> None:
    program = "import sys; print(sys.stdin.read()); print('oops', file=sys.stderr); sys.exit(3)"
    agent = await host.start(program, "zwei\nZeilen ä".encode())
    assert await lines_of(agent) == ["zwei", "Zeilen ä"]
    assert await agent.wait() == Exit(3, None, "exit code 3")
    assert agent.error_tail == "oops\n"
    assert host.log.read_text() == "zwei\nZeilen ä\n"
    assert host.log.with_name("errors.log").read_text() == "oops\n"


@pytest.mark.requirement("OWN-03")
async def test_lines_arrive_while_the_agent_is_still_running(host: AgentHost) -> None:
    agent = await host.start("print('first', flush=True)\n" + FOREVER)
    lines = agent.lines()
    assert await anext(lines) == "first"
    assert await agent.end(0) == KILLED
    assert [line async for line in lines] == []


async def test_a_silent_agent_is_waited_for(host: AgentHost) -> None:
    agent = await host.start("")
    assert await lines_of(agent) == []
    assert await agent.wait() == Exit(0, None, "exit code 0")


@pytest.mark.requirement("OWN-03")
async def test_output_on_stderr_counts_as_the_last_output_too(host: AgentHost) -> None:
    program = "import sys; input(); sys.stderr.write('x'); sys.stderr.flush()\n" + FOREVER
    agent = await host.start(program, b"go\n")
    started_at = agent.last_output_at
    assert abs(time.monotonic() - started_at) < 10
    await eventually(lambda: agent.last_output_at > started_at, "it was heard")
    await agent.end(0)


async def test_a_second_process_of_an_attempt_continues_the_log(host: AgentHost) -> None:
    await (await host.start("print('one', end='')")).wait()
    await (await host.start("print('two')")).wait()
    assert host.log.read_text() == "one\ntwo\n"


async def test_an_agent_is_not_held_up_when_nobody_reads_its_output(host: AgentHost) -> None:
    """A hundred megabytes without a listener: the agent is not held up, nor is any of it kept in
    memory. Who listens then gets the end, in whole lines, and the log has the end too."""
    program = (
        "for n in range(1_000_000): print(f'line {n:094}')\n"
        "print('last', flush=True)\n" + touch("done") + FOREVER
    )
    agent = await host.start(program, log_megabytes=4)
    await eventually(lambda: host.is_there("done"), "all is printed", 60)
    (guardian,) = host.guardians()
    assert guardian.memory_info().rss < 40 * 2**20
    assert await agent.end(0) == KILLED
    lines = await lines_of(agent)
    assert lines[-1] == "last"
    assert sum(map(len, lines)) < 8 * 2**20
    whole = [line for line in lines if line.startswith("line ") and len(line) == 99]
    assert len(whole) >= len(lines) - 3
    parts = [host.log, host.log.with_name("output.log.1")]
    assert sum(part.stat().st_size for part in parts) <= 4 * 2**20
    assert host.log.read_text().endswith("\nlast\n")


async def test_an_agent_that_prints_forever_is_ended(host: AgentHost) -> None:
    program = "import os\nwhile True: os.write(1, b'y\\n' * 30_000)"
    agent = await host.start(program, output_megabytes=200)
    assert await agent.wait() == Exit(None, "output", "printed more than 200 MB")
    assert len(await lines_of(agent)) < 8 * 2**20


async def test_only_the_beginning_of_an_endless_line_is_kept(host: AgentHost) -> None:
    program = (
        "import os\nos.write(1, b'begin')\nfor _ in range(300): os.write(1, b'x' * 100_000)\n"
        "print('\\nnext', flush=True)"
    )
    agent = await host.start(program)
    first, *_, last = await lines_of(agent)
    assert first.startswith("beginxxx")
    assert len(first) <= 2**20
    assert last == "next"


async def test_only_the_end_of_long_stderr_output_is_kept(host: AgentHost) -> None:
    program = (
        "import os\nfor _ in range(500): os.write(2, b'e' * 99_999 + b'\\n')\nos.write(2, b'last')"
    )
    agent = await host.start(program, log_megabytes=2)
    assert (await agent.wait()).exit_code == 0
    assert agent.error_tail.endswith("e\nlast")
    assert len(agent.error_tail) == 8192
    errors = [host.log.with_name(name) for name in ("errors.log", "errors.log.1")]
    assert sum(part.stat().st_size for part in errors) <= 2 * 2**20


async def test_an_agent_that_closes_its_output_is_still_waited_for(host: AgentHost) -> None:
    program = "import os, time; os.closerange(0, 3); time.sleep(0.3); os._exit(4)"
    agent = await host.start(program)
    assert await lines_of(agent) == []
    assert (await agent.wait()).exit_code == 4


async def test_an_agent_may_ignore_its_input(host: AgentHost) -> None:
    agent = await host.start("print('bye')", b"x" * 5_000_000)
    assert await lines_of(agent) == ["bye"]
    assert (await agent.wait()).exit_code == 0
    assert [path.name for path in host.log.parent.iterdir() if "input" in path.name] == []


async def test_binary_output_does_no_harm(host: AgentHost) -> None:
    agent = await host.start(r"import os; os.write(1, b'a\0b\xff\r\n\n\xc3')")
    assert await lines_of(agent) == ["a\0b\ufffd\r", "", "\ufffd"]


async def test_a_missing_program_or_folder_is_named(host: AgentHost) -> None:
    launch = Launch(["no-such-agent"], host.tree, host.environment)
    agent = await AgentProcess.start(launch, host.log, ProcessLimits())
    assert await lines_of(agent) == []
    assert await agent.wait() == Exit(None, "not_started", "not found: no-such-agent")
    host.tree.rmdir()
    agent = await host.start("")
    assert await agent.wait() == Exit(None, "not_started", f"not found: {host.tree}")
    assert await agent.end(0) == await agent.wait()


async def test_an_unwritable_log_does_not_disturb_the_agent(host: AgentHost) -> None:
    launch = host.launch("print('still heard')")
    agent = await AgentProcess.start(launch, host.log / "not" / "there.log", ProcessLimits())
    assert await lines_of(agent) == ["still heard"]
    assert (await agent.wait()).exit_code == 0


async def test_an_agent_runs_at_low_priority_and_sees_only_its_own_environment(
    host: AgentHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    program = (
        "import os\nprint(os.nice(0))\nprint(*sorted(os.environ))\n"
        "try: print(open(f'/proc/{os.getppid()}/environ').read())\n"
        "except PermissionError: print()"
    )
    niceness, names, above = await lines_of(await host.start(program))
    assert int(niceness) == os.nice(0) + 3
    assert set(names.split()) - {"LC_CTYPE"} == {"PATH", "SIGN", RUN_MARK}
    assert "hunter2" not in above


async def test_many_agents_run_at_once(host: AgentHost) -> None:
    agents = await asyncio.gather(
        *(host.start(f"import sys; print({n}); sys.exit({n})") for n in range(12))
    )
    printed = await asyncio.gather(*map(lines_of, agents))
    assert printed == [[str(n)] for n in range(12)]
    assert [(await agent.wait()).exit_code for agent in agents] == list(range(12))
