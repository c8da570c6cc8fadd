"""What the server leaves for after its start."""

from __future__ import annotations

import asyncio
import pkgutil
from importlib import import_module

import pytest

import shiftboss.protocol
from shiftboss.protocol.fields import Answer, unbuilt_types
from shiftboss.server import interpreter
from tests.fork_server import start_python

START_SECONDS = 120.0
# What takes long to import, and few servers need.
NOT_AT_THE_START = {"httpx2", "mcp", "psycopg", "rich", "shiftboss.agents", "yaml"}


def test_types_are_built_after_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "_FIRST_PAUSE_SECONDS", 0)
    monkeypatch.setattr(interpreter, "_PAUSE_SECONDS", 0)

    class Outer(Answer):
        name: str

    assert Outer in set(unbuilt_types())
    asyncio.run(interpreter.build_types())
    assert Outer.__pydantic_complete__
    assert not list(unbuilt_types())


def test_every_type_of_the_protocol_can_be_built() -> None:
    """A mistake in one would show at its first use."""
    for module in pkgutil.walk_packages(shiftboss.protocol.__path__, "shiftboss.protocol."):
        import_module(module.name)
    for form in unbuilt_types():
        assert form.model_rebuild()


def test_a_server_imports_little_before_it_listens() -> None:
    code = "import shiftboss.server.run, sys; print(*sys.modules)"
    process = start_python(["-c", code], forked=False)
    out, err = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 0, err
    assert NOT_AT_THE_START.isdisjoint(out.decode().split())
