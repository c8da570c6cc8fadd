from __future__ import annotations

import json
from typing import Any

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.server.http.calls import Calls
from shiftboss.server.http.openapi import openapi_document
from shiftboss.server.http.routes import Endpoints
from shiftboss.store.opening import store_at


def test_the_document_has_exactly_the_paths_that_are_served() -> None:
    coordinator = Coordinator(store_at("unopened.db"))
    routes = Endpoints(coordinator, Calls(coordinator), "now").routes()
    served = {route.path for route in routes} - {"/openapi.json"}
    assert set(json.loads(openapi_document())["paths"]) == served


def test_every_reference_resolves() -> None:
    document: dict[str, Any] = json.loads(openapi_document())
    schemas = document["components"]["schemas"]
    references = [
        part.split('"')[0] for part in json.dumps(document).split('"#/components/schemas/')[1:]
    ]
    assert references
    assert set(references) <= set(schemas)


def test_the_limits_of_the_requests_are_in_the_document() -> None:
    schemas = json.loads(openapi_document())["components"]["schemas"]
    register = schemas["RegisterRequest"]
    assert register["additionalProperties"] is False
    assert register["properties"]["packet_name"]["pattern"] == "^[a-z0-9-]+$"
    assert register["properties"]["tasks_total"]["maximum"] == 1000
    assert schemas["ErrorRequest"]["properties"]["message"]["maxLength"] == 5000
