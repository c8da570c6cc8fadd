"""The connection classes of the server rely on parts of uvicorn that are not its public API.

Whoever upgrades uvicorn should first see these tests fail, with the names of what has changed.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import httptools
import pytest
import uvicorn
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import Server, ServerState

from shiftboss.rules.access.actors import LOCAL
from shiftboss.server.fast_path.connection import FastConnection
from shiftboss.server.fast_path.exchange import FastExchange
from shiftboss.server.http.connection import Connection, PipelineFlowControl
from shiftboss.server.run import _Server

UPGRADE = (
    f"uvicorn {uvicorn.__version__} has no longer what server/http/connection.py and "
    "server/fast_path/ rely on: compare them with its httptools_impl.py"
)

# Methods that are overridden or called, with their parameters.
METHODS = {
    "connection_made": ["transport"],
    "connection_lost": ["exc"],
    "data_received": ["data"],
    "on_message_begin": [],
    "on_url": ["url"],
    "on_header": ["name", "value"],
    "on_headers_complete": [],
    "on_body": ["body"],
    "on_message_complete": [],
    "on_response_complete": [],
    "send_400_response": ["msg"],
    "shutdown": [],
    "_unset_keepalive_if_required": [],
}
ATTRIBUTES = {
    "app_state",
    "client",
    "config",
    "cycle",
    "expect_100_continue",
    "flow",
    "headers",
    "loop",
    "parser",
    "pipeline",
    "server_state",
    "tasks",
    "transport",
}


def protocol() -> HttpToolsProtocol:
    config = uvicorn.Config(app=_app, log_config=None)
    config.load()
    return HttpToolsProtocol(config=config, server_state=ServerState(), app_state={})


async def _app(_scope: object, _receive: object, _send: object) -> None:
    pass


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.anyio
async def test_uvicorns_connection_has_the_attributes_the_subclasses_use() -> None:
    missing = {name for name in METHODS if not hasattr(HttpToolsProtocol, name)}
    missing |= {name for name in ATTRIBUTES if not hasattr(protocol(), name)}
    assert not missing, f"{UPGRADE}: {sorted(missing)}"
    changed = {
        name: parameters(getattr(HttpToolsProtocol, name))
        for name, expected in METHODS.items()
        if parameters(getattr(HttpToolsProtocol, name)) != expected
    }
    assert not changed, f"{UPGRADE}: {changed}"
    assert protocol().server_state.default_headers == [], UPGRADE


def test_the_subclasses_override_only_the_listed_methods() -> None:
    for subclass in (Connection, FastConnection):
        overridden = vars(subclass).keys() & vars(HttpToolsProtocol).keys()
        assert {name for name in overridden if not name.startswith("__")} <= METHODS.keys()


def test_a_fast_exchange_has_the_attributes_uvicorn_uses_of_a_cycle() -> None:
    """`body` and `more_body` are used only by the methods that leave a request to uvicorn."""
    used = set(re.findall(r"self\.cycle\.(\w+)", inspect.getsource(HttpToolsProtocol)))
    exchange = FastExchange(None, [], LOCAL)  # type: ignore[arg-type]
    missing = {name for name in used - {"body", "more_body"} if not hasattr(exchange, name)}
    assert not missing, f"{UPGRADE}: {sorted(missing)}"
    assert used >= {"response_complete", "disconnected", "keep_alive", "message_event"}, UPGRADE


def test_uvicorns_flow_control_has_the_attributes_ours_uses() -> None:
    assert parameters(FlowControl.__init__) == ["transport"], UPGRADE
    for name in ("drain", "pause_reading", "resume_reading"):
        assert hasattr(FlowControl, name), f"{UPGRADE}: {name}"
    assert PipelineFlowControl(None, []).write_paused is False  # type: ignore[arg-type]


def test_uvicorns_status_lines_are_complete_lines() -> None:
    assert httptools_impl.STATUS_LINE[200] == b"HTTP/1.1 200 OK\r\n", UPGRADE


def test_the_parser_has_the_methods_the_connections_use() -> None:
    for name in ("get_http_version", "get_method", "should_keep_alive", "should_upgrade"):
        assert hasattr(httptools.HttpRequestParser, name), f"{UPGRADE}: {name}"


def test_uvicorns_server_has_the_methods_ours_overrides() -> None:
    for name in ("capture_signals", "main_loop", "shutdown", "handle_exit"):
        assert hasattr(Server, name), f"{UPGRADE}: {name}"
        assert name == "handle_exit" or name in vars(_Server)
