"""Handoffs are derived from a real repository, at the commit where the work starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shiftboss.errors import InvalidRequest, UnknownRepo
from shiftboss.evidence.mirror.repository import Repository
from shiftboss.evidence.port import Survey
from shiftboss.evidence.survey.imports.python import imported_by
from shiftboss.evidence.survey.imports.repo_view import RepoView
from shiftboss.evidence.survey.survey import Surveyor
from shiftboss.protocol.handoffs import Context, Contract, Escalation, WorkerHandoff, handoff_hash
from shiftboss.rules.prompts.handoff_text import render_handoff

pytestmark = pytest.mark.anyio

SHOP = {
    "pyproject.toml": "[tool.mypy]\nstrict = true\n",
    "src/shop/__init__.py": "",
    "src/shop/cart.py": "from shop.money import Money\nfrom . import tax\nimport json\n",
    "src/shop/money.py": "from decimal import Decimal as Money\n",
    "src/shop/tax/__init__.py": "from .rates import VAT\n",
    "src/shop/tax/rates.py": "from ..money import Money\nVAT = 19\n",
    "src/shop/ünï code.py": "import shop.money\n",
    "tests/test_cart.py": "from shop.cart import Money\nimport helpers\n",
    "tests/helpers.py": "",
}

LOADED_FILES = """
import sys
sys.path[:0] = ["src", "tests"]
import test_cart
files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
print(*(file for file in files if file.startswith(sys.argv[1])), sep="\\n")
"""


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.com"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def commit(folder: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "work")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "a repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


async def survey(repo: Path, *files: str, base: str | None = None, description: str = "") -> Survey:
    return await Surveyor(Repository()).survey(str(repo), base, files, "Add login", description)


@pytest.mark.requirement("HO-02")
async def test_a_python_project_is_surveyed(repo: Path) -> None:
    head = commit(repo, SHOP)
    found = await survey(repo, "src/shop/cart.py", "tests/test_cart.py")
    assert found == Survey(
        toplevel=str(repo),
        identity=str(repo / ".git"),
        base_commit=head,
        branch="main",
        files_readonly=[
            "src/shop/__init__.py",
            "src/shop/money.py",
            "src/shop/tax/__init__.py",
            "tests/helpers.py",
        ],
        success_criteria=[
            "Tests pass: python -m pytest tests/test_cart.py",
            "Type check passes: python -m mypy src/shop/cart.py tests/test_cart.py",
        ],
    )


@pytest.mark.requirement("HO-02")
async def test_owned_files_are_never_readonly(repo: Path) -> None:
    commit(repo, SHOP)
    assert (await survey(repo, "src/**", "tests/")).files_readonly == []
    found = await survey(repo, "src/shop/tax/", "./src//shop/ünï code.py")
    assert found.files_readonly == ["src/shop/money.py"]


@pytest.mark.requirement("HO-02")
async def test_a_typescript_configuration_can_extend_a_file_of_any_name(
    repo: Path,
) -> None:
    commit(
        repo,
        {
            "package.json": json.dumps({"scripts": {"lint": "eslint"}, "workspaces": ["libs/*"]}),
            "bun.lock": "",
            "tsconfig.json": '{"extends": "./config/strict"} // ours',
            "config/strict.json": '{"extends": "./names.json"}',
            "config/names.json": '{"compilerOptions": {"paths": {"@/*": ["../src/*"]}}}',
            "libs/jwt/package.json": '{"name": "@shop/jwt", "main": "dist/index.js"}',
            "libs/jwt/src/index.ts": "export {}",
            "src/auth/service.ts": 'import { U } from "@/types/user"\nimport "@shop/jwt"\n',
            "src/auth/service.test.ts": 'import "./service.js"\nimport "../lib/clock.js"\n',
            "src/types/user.ts": "export {}",
            "src/lib/clock.ts": "export {}",
            "src/lib/other.ts": "export {}",
        },
    )
    found = await survey(repo, "src/auth/service.ts", "src/auth/service.test.ts")
    assert found.files_readonly == [
        "libs/jwt/src/index.ts",
        "src/lib/clock.ts",
        "src/types/user.ts",
    ]
    assert found.success_criteria == [
        "Tests pass: bun test src/auth/service.test.ts",
        "Type check passes: npx --no-install tsc --noEmit -p tsconfig.json",
        "Command passes: bun run lint",
    ]


@pytest.mark.requirement("HO-02")
async def test_the_base_is_surveyed_and_not_the_work_tree(repo: Path) -> None:
    base = commit(repo, SHOP)
    commit(repo, {"src/shop/cart.py": "import shop.tax.rates\n"})
    (repo / "src/shop/cart.py").write_text("")
    (repo / "pyproject.toml").unlink()
    at_base = await survey(repo, "src/shop/cart.py", base="HEAD~1")
    assert at_base.base_commit == base
    assert "src/shop/money.py" in at_base.files_readonly
    at_head = await survey(repo, "src/shop/cart.py")
    assert at_head.files_readonly == ["src/shop/tax/rates.py"]
    assert len(at_head.success_criteria) == 2


@pytest.mark.requirement("HO-02")
async def test_a_repo_without_a_setup_gets_its_criteria_from_description_or_title(
    repo: Path,
) -> None:
    commit(repo, {"notes.bin": "\0\1"})
    found = await survey(repo, "notes.bin", description="Done when:\n- it is short\n")
    assert found.success_criteria == ["it is short"]
    found = await survey(repo, "notes.bin")
    assert found.success_criteria == ["Done as the title says: Add login"]


@pytest.mark.requirement("HO-02")
async def test_invalid_arguments_are_refused_by_name(repo: Path) -> None:
    commit(repo, SHOP)
    for pattern in ("/etc/passwd", "../x", "src/../../x", ".git/config", ""):
        with pytest.raises(InvalidRequest) as refused:
            await survey(repo, "src/", pattern)
        assert refused.value.field == "files"
        assert repr(pattern) in refused.value.detail
    for base in ("no-such-branch", "--all", "HEAD:pyproject.toml"):
        with pytest.raises(InvalidRequest) as refused:
            await survey(repo, "src/", base=base)
        assert refused.value.field == "base"
    with pytest.raises(InvalidRequest) as refused:
        await survey(repo, "src/", description="Tests pass: make && make test")
    assert refused.value.field == "description"
    with pytest.raises(UnknownRepo):
        await survey(repo / "nowhere", "src/")


@pytest.mark.requirement("HO-02")
def test_the_found_imports_are_those_the_interpreter_makes(repo: Path) -> None:
    commit(repo, SHOP)
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", LOADED_FILES, str(repo)],
        cwd=repo,
        check=True,
        capture_output=True,
        text=True,
    )
    loaded = {str(Path(line).relative_to(repo)) for line in done.stdout.splitlines()}
    view = RepoView(SHOP, SHOP)
    found, waiting = set[str](), ["tests/test_cart.py"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += imported_by(name, SHOP[name], view)
    assert found == loaded


@pytest.mark.requirement("HO-03")
async def test_a_handoff_of_500_files_has_fewer_than_50_lines(repo: Path) -> None:
    names = [f"src/part{number % 7}/file{number}.py" for number in range(500)]
    commit(repo, dict.fromkeys(names, "import shared.thing\n") | {"shared/thing.py": ""})
    found = await survey(repo, *names, description="Line\n" * 500)
    assert found.files_readonly == ["shared/thing.py"]
    handoff = WorkerHandoff(
        contract=Contract(
            task_id="bd-1",
            files_owned=names,
            files_readonly=found.files_readonly,
            dependencies_completed=[],
            success_criteria=found.success_criteria,
        ),
        context=Context(
            epic_summary="Line\n" * 500,
            your_role="Add login",
            what_others_did="",
            what_comes_next="",
        ),
        escalation=Escalation(),
    )
    text = render_handoff(
        handoff,
        version=1,
        contract_hash=handoff_hash(handoff),
        base_commit=found.base_commit,
        branch=found.branch,
        repo=found.toplevel,
    )
    assert len(text.splitlines()) < 50
    line = next(one for one in text.splitlines() if one.startswith("{"))
    assert WorkerHandoff.model_validate_json(line) == handoff
