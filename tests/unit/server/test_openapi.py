from __future__ import annotations

import json
from typing import Any

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.server.http.calls import Calls
from shiftboss.server.http.forwarded import Forwarding
from shiftboss.server.http.guard import Guard
from shiftboss.server.http.openapi import openapi_document
from shiftboss.server.http.routes import Endpoints
from shiftboss.server.metrics.snapshot import Monitor
from shiftboss.store.open_store import store_at

# They have no data, and are for browsers alone.
PAGE_FILES = ("/", "/static/{path:path}")


def test_the_document_has_exactly_the_paths_that_are_served() -> None:
    coordinator = Coordinator(store_at("unopened.db"))
    calls, monitor = Calls(coordinator), Monitor(coordinator)
    endpoints = Endpoints(coordinator, calls, Guard(None), "now", Forwarding(), monitor)
    routes = endpoints.routes()
    served = {route.path for route in routes} - {"/openapi.json", *PAGE_FILES}
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


DOCUMENT: dict[str, Any] = json.loads(openapi_document())
OPERATIONS = [
    (path, method, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]


def test_every_operation_says_who_may_use_it() -> None:
    schemes = DOCUMENT["components"]["securitySchemes"]
    assert schemes["token"] == schemes["token"] | {"type": "http", "scheme": "bearer"}
    for path, _, operation in OPERATIONS:
        alternatives = operation.get("security", DOCUMENT["security"])
        assert {name for names in alternatives for name in names} <= schemes.keys()
        needs_operator = all("operator" in names for names in alternatives) and alternatives != []
        assert needs_operator is path.startswith("/operator/"), path
    assert DOCUMENT["paths"]["/health"]["get"]["security"] == []
    webhook = DOCUMENT["paths"]["/ci/webhook/{repo}"]["post"]["security"]
    assert webhook == [{"github": []}, {"forgejo": []}]


def test_a_body_is_required_only_where_the_server_requires_one() -> None:
    for path, _, operation in OPERATIONS:
        body = operation.get("requestBody")
        if body is None:
            continue
        schema = body["content"]["application/json"]["schema"]
        model = DOCUMENT["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], {})
        takes_nothing = bool(model) and not model.get("required") and "oneOf" not in model
        assert body["required"] is not takes_nothing, path


def test_operations_have_unique_ids_and_links_lead_somewhere() -> None:
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(ids) == len(set(ids))
    links = [
        link["operationId"]
        for _, _, operation in OPERATIONS
        for response in operation["responses"].values()
        for link in response.get("links", {}).values()
    ]
    assert links
    assert set(links) <= set(ids)
