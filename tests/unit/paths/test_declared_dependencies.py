"""Which modules a repository gets from elsewhere, as its own files tell."""

from __future__ import annotations

import pytest

from shiftboss.rules.paths.declared_dependencies import (
    declared_modules,
    describes_imports,
    imported_names,
    searched_folders,
    third_party_modules,
)

pytestmark = pytest.mark.requirement("HO-04")

PROJECT = """
[project]
name = "shop"
dependencies = ["PyYAML>=6", "ruamel.yaml", "cart @ file:./cart"]
optional-dependencies = {test = ["jsonschema[format]~=4.0"], all = ["shop[test]"]}
[dependency-groups]
dev = ["python-dateutil", "pygame", {include-group = "lint"}]
[tool.poetry.dependencies]
httpx = "^1"
till = {path = "../till"}
[tool.poetry.group.dev.dependencies]
beautifulsoup4 = {version = "4"}
[tool.uv.sources]
stock = {workspace = true}
[tool.pytest.ini_options]
pythonpath = ["src", "App/code"]
"""
LOCK = """
[[package]]
name = "attrs"
source = {registry = "https://registry.invalid/simple"}
[[package]]
name = "shelf"
source = {editable = "shelf"}
"""


def test_every_file_that_names_distributions_is_read() -> None:
    files = {
        "pyproject.toml": PROJECT,
        "uv.lock": LOCK,
        "requirements-dev.txt": "# all\n-r base.txt\nfreezegun==1 --hash=x\nstock\n./libs/own\n",
        "setup.cfg": "[options]\ninstall_requires =\n    Responses>1\n",
        "Pipfile": '[packages]\nrich = "*"\n',
        "Pipfile.lock": '{"default": {"click": {}}, "develop": {"belt": {"path": "."}}}',
        "sub/pyproject.toml": "[broken",
    }
    assert all(map(describes_imports, files))
    assert not describes_imports("src/requirements.py")
    declared = declared_modules(files)
    known = "yaml ruamel jsonschema dateutil httpx bs4 attrs freezegun responses rich click"
    assert declared >= set(known.split())
    # The repository itself, parts of it, and what only sounds like a distribution.
    own = "shop cart till stock shelf belt libs lint game"
    assert declared.isdisjoint(own.split())


def test_a_module_that_the_task_creates_is_not_from_elsewhere() -> None:
    declared = declared_modules({"pyproject.toml": PROJECT})
    base = ["src/yaml/__init__.py", "tests/test_shop.py"]
    candidates = {"shop", "billing", "jsonschema", "yaml"}
    assert third_party_modules(candidates, declared, base) == {"jsonschema"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import jsonschema", True),
        ("    from jsonschema.validators import validator_for", True),
        ("import os, JSONSchema as j", True),
        ("j = pytest.importorskip('jsonschema')", True),
        ("try: import jsonschema", True),
        ("import jsonschema_more", False),
        ("from shop import jsonschema_of", False),
        ("from shop.jsonschema import x", False),
    ],
)
def test_imports_are_found(line: str, expected: bool) -> None:
    text = f'"""A test."""\n{line}\n'
    assert (imported_names([text], ["jsonschema"]) == {"jsonschema"}) is expected


def test_the_folders_that_pytest_searches() -> None:
    files = {
        "pyproject.toml": PROJECT,
        "web/pytest.ini": "[pytest]\npythonpath = . ../more\n",
        "setup.cfg": "[tool:pytest]\npythonpath = code\n",
        "tox.ini": "no section",
    }
    assert searched_folders(files) == {"src", "app/code", "web", "more", "code"}
