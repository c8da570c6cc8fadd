"""Success criteria from the project's own setup and from the description."""

from __future__ import annotations

import json

import pytest

from shiftboss.evidence.survey.imports.repo_view import RepoView
from shiftboss.evidence.survey.ownership import OwnedFiles, covered
from shiftboss.evidence.survey.project_setup.detect import is_manifest, success_criteria
from shiftboss.rules.claims.criteria import parse_criterion

TITLE_ONLY = ["Done as the title says: Add login"]


def criteria(
    owned: list[str], files: list[str], texts: dict[str, str] | None = None, description: str = ""
) -> list[str]:
    texts = texts or {}
    repo = RepoView([*files, *texts], texts)
    ownership = OwnedFiles(owned, covered(owned, repo.files), repo)
    found = success_criteria("Add login", description, ownership)
    for text in found:
        parse_criterion(text)  # generated criteria are runnable
    return found


def test_there_is_always_at_least_one_criterion() -> None:
    assert criteria(["docs/"], []) == TITLE_ONLY
    assert criteria(
        ["README.md"], ["README.md"], {"pyproject.toml": "", "Makefile": "test:\n"}
    ) == (TITLE_ONLY)


MYPY = {"pyproject.toml": "[tool.mypy]\nstrict = true\n"}


@pytest.mark.parametrize(
    ("owned", "tests"),
    [
        (["tests/test_cart.py"], "tests/test_cart.py"),
        (["tests/test_new.py"], "tests/test_new.py"),
        (["src/shop/cart.py"], "tests/test_cart.py"),
        (["src/shop/cart.py", "tests/test_tax.py"], "tests/test_cart.py tests/test_tax.py"),
        (["src/shop/tax/__init__.py"], "tests/test_tax.py"),
        (["src/shop/money.py"], "tests"),
        (["src/shop/new/"], "tests"),
        (
            ["src/shop/cart.py", "tests/with space/"],
            "tests/test_cart.py 'tests/with space/test_a.py'",
        ),
    ],
)
def test_pytest_runs_the_tests_that_belong_to_the_task(owned: list[str], tests: str) -> None:
    files = [
        "src/shop/cart.py",
        "src/shop/money.py",
        "src/shop/tax/__init__.py",
        "tests/test_cart.py",
        "tests/test_tax.py",
        "tests/with space/test_a.py",
        "tests/conftest.py",
    ]
    found = criteria(owned, files, {"pyproject.toml": ""})
    assert found == [f"Tests pass: python -m pytest {tests}"]


def test_the_best_matching_of_several_tests_with_the_same_name_is_used() -> None:
    files = ["a/b/utils.py", "tests/a/b/test_utils.py", "tests/c/test_utils.py", "setup.cfg"]
    found = criteria(["a/b/utils.py"], files)
    assert found == ["Tests pass: python -m pytest tests/a/b/test_utils.py"]


def test_a_python_project_without_tests_has_no_test_criterion() -> None:
    assert criteria(["a.py"], ["a.py"], {"pyproject.toml": "not toml ["}) == TITLE_ONLY


def test_tests_next_to_the_sources_are_found() -> None:
    found = criteria(["pkg/a.py"], ["pkg/a.py", "pkg/test_b.py", "tox.ini"])
    assert found == ["Tests pass: python -m pytest ."]


@pytest.mark.parametrize(
    ("texts", "command"),
    [
        (MYPY, "python -m mypy pkg/a.py"),
        ({"pyproject.toml": "", "mypy.ini": "[mypy]\n"}, "python -m mypy pkg/a.py"),
        ({"setup.cfg": "[mypy]\nstrict = true\n"}, "python -m mypy pkg/a.py"),
        ({"pyproject.toml": "[tool.pyright]\n"}, "python -m pyright pkg/a.py"),
        ({"pyproject.toml": "", "pyrightconfig.json": "{}"}, "python -m pyright pkg/a.py"),
        ({"pyproject.toml": "[tool.mypy]\nfiles = ['pkg', 'x/*.py']"}, "python -m mypy pkg/a.py"),
        ({"setup.cfg": "[mypy]\nfiles = other, more\n"}, None),
        ({"setup.cfg": "[flake8]\n"}, None),
        ({"setup.cfg": "no section"}, None),
    ],
)
def test_the_configured_type_checker_is_used(texts: dict[str, str], command: str | None) -> None:
    found = criteria(["pkg/a.py"], ["pkg/a.py"], texts)
    assert found == (TITLE_ONLY if command is None else [f"Type check passes: {command}"])


def test_a_nested_project_is_checked_with_its_own_setup() -> None:
    files = ["libs/a/src/a.py", "libs/a/tests/test_a.py", "tests/test_a.py"]
    texts = {"libs/a/pyproject.toml": "[tool.mypy]\n", "pyproject.toml": ""}
    assert criteria(["libs/a/src/a.py"], files, texts) == [
        "Tests pass: python -m pytest libs/a/tests/test_a.py",
        "Type check passes: python -m mypy --config-file libs/a/pyproject.toml libs/a/src/a.py",
    ]


def test_many_files_are_replaced_by_their_folders() -> None:
    files = [f"tests/part{number % 3}/test_{number:04}.py" for number in range(500)]
    found = criteria(["tests/"], files, {"pyproject.toml": ""})
    assert found == ["Tests pass: python -m pytest tests/part0 tests/part1 tests/part2"]


def test_a_file_name_with_a_leading_dash_is_not_an_option() -> None:
    found = criteria(["-x_test.py"], ["-x_test.py"], {"pyproject.toml": ""})
    assert found == ["Tests pass: python -m pytest ./-x_test.py"]


def package(**scripts: str) -> str:
    return json.dumps({"name": "p", "scripts": scripts})


@pytest.mark.parametrize(
    ("lock", "test", "lint"),
    [
        ("package-lock.json", "npm test", "npm run lint"),
        ("pnpm-lock.yaml", "pnpm test", "pnpm run lint"),
        ("yarn.lock", "yarn test", "yarn run lint"),
        ("bun.lock", "bun run test", "bun run lint"),
        ("bun.lockb", "bun run test", "bun run lint"),
        ("none", "npm test", "npm run lint"),
    ],
)
def test_scripts_are_run_by_the_package_manager_of_the_lock_file(
    lock: str, test: str, lint: str
) -> None:
    texts = {"package.json": package(test="vitest", lint="eslint .")}
    assert criteria(["src/a.js"], ["src/a.js", lock], texts) == [
        f"Tests pass: {test}",
        f"Command passes: {lint}",
    ]


def test_the_package_json_may_name_the_package_manager() -> None:
    manifest = {"packageManager": "pnpm@9.1.0", "scripts": {"test": "vitest"}}
    texts = {"package.json": json.dumps(manifest)}
    assert criteria(["a.js"], ["a.js", "yarn.lock"], texts) == ["Tests pass: pnpm test"]


@pytest.mark.parametrize("script", [{}, {"test": "bun test --coverage"}])
def test_bun_runs_the_owned_tests(script: dict[str, str]) -> None:
    files = ["src/auth/service.ts", "src/auth/service.test.ts", "bun.lock"]
    texts = {"package.json": package(**script), "tsconfig.json": "{}"}
    assert criteria(["src/auth/service.ts", "src/auth/service.test.ts"], files, texts) == [
        "Tests pass: bun test src/auth/service.test.ts",
        "Type check passes: npx --no-install tsc --noEmit -p tsconfig.json",
    ]


def test_the_default_test_script_of_npm_is_ignored() -> None:
    texts = {"package.json": package(test='echo "Error: no test specified" && exit 1')}
    assert criteria(["a.js"], ["a.js"], texts) == TITLE_ONLY


def test_a_type_check_script_wins_over_the_compiler() -> None:
    texts = {"package.json": package(typecheck="tsc -b"), "tsconfig.json": "{}"}
    assert criteria(["a.ts"], ["a.ts"], texts) == ["Type check passes: npm run typecheck"]


def test_a_tsconfig_with_only_references_is_checked_project_by_project() -> None:
    texts = {
        "package.json": "{}",
        "tsconfig.json": '{"files": [], "references": [{"path": "./tsconfig.app.json"}]}',
        "tsconfig.app.json": "{}",
    }
    found = criteria(["a.ts"], ["a.ts"], texts)
    assert found == ["Type check passes: npx --no-install tsc --noEmit -p tsconfig.app.json"]


def test_scripts_of_a_nested_package_run_in_its_folder() -> None:
    texts = {
        "package.json": package(test="turbo test", typecheck="turbo check"),
        "packages/a b/package.json": package(test="vitest"),
    }
    files = ["packages/a b/x.ts", "pnpm-lock.yaml"]
    assert criteria(["packages/a b/"], files, texts) == [
        "Tests pass: pnpm -C 'packages/a b' test",
        "Type check passes: pnpm run typecheck",
    ]


def test_cargo_checks_the_package() -> None:
    texts = {"Cargo.toml": "[workspace]", "crates/a/Cargo.toml": '[package]\nname = "shop-a"'}
    assert criteria(["crates/a/src/lib.rs"], ["crates/a/src/lib.rs"], texts) == [
        "Tests pass: cargo test -p shop-a",
        "Type check passes: cargo check -p shop-a",
    ]
    texts = {"rs/Cargo.toml": '[package]\nname = "a"'}
    assert criteria(["rs/src/lib.rs"], [], texts)[0] == (
        "Tests pass: cargo test --manifest-path rs/Cargo.toml -p a"
    )


def test_go_checks_the_packages() -> None:
    texts = {"go.mod": "module x", "tools/go.mod": "module y"}
    assert criteria(["cart/a.go", "tax/"], ["tax/b.go"], texts) == [
        "Tests pass: go test ./cart/... ./tax/...",
        "Type check passes: go vet ./...",
    ]
    assert criteria(["tools/main.go"], [], texts)[0] == "Tests pass: go test -C tools ./..."


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("all:\n\ntest: all\n\tctest\n", "test"),
        ("check ::\n\t./check\n", "check"),
        ("test := no\nTEST:\n\tx\n", None),
    ],
)
def test_make_is_used_if_nothing_else_checks(text: str, target: str | None) -> None:
    found = criteria(["src/a.c"], ["src/a.c"], {"Makefile": text})
    assert found == (TITLE_ONLY if target is None else [f"Command passes: make {target}"])
    below = criteria(["src/a.c"], ["src/a.c"], {"src/Makefile": text})
    assert below == (TITLE_ONLY if target is None else [f"Command passes: make -C src {target}"])


def test_make_is_omitted_if_the_tests_are_known() -> None:
    texts = {"Makefile": "test:\n", "go.mod": "module x"}
    assert not any("make" in text for text in criteria(["a.go"], ["a.go"], texts))


def test_a_described_criterion_replaces_the_generated_one_of_its_kind() -> None:
    files = ["a.py", "tests/test_a.py"]
    found = criteria(["a.py"], files, MYPY, "- [ ] Tests pass: `python -m pytest -x`")
    assert found == ["Tests pass: python -m pytest -x", "Type check passes: python -m mypy a.py"]
    found = criteria(["a.c"], ["a.c"], {"Makefile": "test:"}, "Tests pass: ./run")
    assert found == ["Tests pass: ./run"]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("pyproject.toml", True),
        ("a/b/package.json", True),
        ("tsconfig.app.json", True),
        ("a/Makefile", True),
        ("a/node_modules/b/package.json", False),
        ("vendor/x/go.mod", False),
        ("a/notpackage.json", False),
        ("a/package.json5", False),
    ],
)
def test_files_that_are_manifests(path: str, wanted: bool) -> None:
    assert is_manifest(path) is wanted
