"""What patterns with braces stand for, and which ones are refused."""

from __future__ import annotations

import pytest

from shiftboss.rules.paths.braces import EXPANSIONS_MAX, expand_braces, normalize_patterns

pytestmark = pytest.mark.requirement("HO-02", "HO-04")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("src/auth/*.ts", ["src/auth/*.ts"]),
        ("src/{auth,lib}/*.ts", ["src/auth/*.ts", "src/lib/*.ts"]),
        ("{a,b}/{c,d}", ["a/c", "a/d", "b/c", "b/d"]),
        ("src/{auth,lib/{jwt,keys}}.ts", ["src/auth.ts", "src/lib/jwt.ts", "src/lib/keys.ts"]),
        ("{src/a,lib}/**", ["src/a/**", "lib/**"]),
        ("src/login{,.test}.ts", ["src/login.ts", "src/login.test.ts"]),
        ("a,b.ts", ["a,b.ts"]),
        ("{a,a}.ts", ["a.ts"]),
        ("./src/{auth/,lib}/x", ["src/auth/x", "src/lib/x"]),
        # Without a comma they are part of a name.
        ("{{cookiecutter.name}}/setup.py", ["{{cookiecutter.name}}/setup.py"]),
        ("routes/{id}/{get,put}.ts", ["routes/{id}/get.ts", "routes/{id}/put.ts"]),
        ("{a{b,c}}.ts", ["{ab}.ts", "{ac}.ts"]),
        ("src/{}.ts", ["src/{}.ts"]),
    ],
)
def test_braces_are_expanded_as_shells_do_it(written: str, meant: list[str]) -> None:
    assert normalize_patterns(written) == meant


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("src/{auth,lib/*.ts", "has a { without its }"),
        ("src/{auth", "has a { without its }"),
        ("{a,{b,c}", "has a { without its }"),
        ("src/auth}/*.ts", "has a } without its {"),
        ("{a,b}}", "has a } without its {"),
        ("v{1..9}/x", "range"),
        ("{" * 9 + "a,b" + "}" * 9, "deep"),
        ("{" * 500, "deep"),
        ("{a,b}" * 9, "more than 256"),
        ("{" + ",".join("ab" * 200) + "}", "more than 256"),
        ("{a,b}" * 200, "more than 256"),
        ("{src/,../}x", "contains .."),
        ("{/etc,src}/x", "absolute"),
        ("{,/etc}", "is empty"),
    ],
)
def test_braces_that_cannot_be_expanded_are_refused(written: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("{", r"\{").replace("}", r"\}")):
        normalize_patterns(written)


def test_as_many_alternatives_as_allowed_are_expanded() -> None:
    assert len(expand_braces("{a,b}" * 8)) == EXPANSIONS_MAX
