"""Which tests of JavaScript, TypeScript, Go and Rust files can be sabotaged."""

from __future__ import annotations

import pytest

from shiftboss.rules.claims.canaries.sabotage import Sabotage, apply_sabotages, sabotages
from tests.growth import assert_linear
from tests.unit.claims.chance import First

pytestmark = pytest.mark.requirement("OWN-13")


def changed(path: str, text: str, kind: str) -> list[str]:
    """The file with each sabotage of the kind, without comments."""
    options = [one for one in sabotages(path, text, First()) if one.kind == kind]
    return [text[: one.start] + one.replacement + text[one.end :] for one in options]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("expect(f()).toBe(5)", "expect(f()).toBe(6)"),
        ("expect(f()).toEqual('a');", "expect(f()).toEqual('ax');"),
        ('expect(f()).toBe("it\'s")', 'expect(f()).toBe("it\'sx")'),
        ("expect(f()).toStrictEqual(true)", "expect(f()).toStrictEqual(false)"),
        ("expect(f()).toBe(undefined)", "expect(f()).toBe(0)"),
        ("expect(f()).toBe(-0.5)", "expect(f()).toBe(1.5)"),
        ("expect(f()).toEqual([x, { 'a': 1 }])", "expect(f()).toEqual([x, { 'a': 2 }])"),
        ("expect(f()).to.equal(5)", "expect(f()).to.equal(6)"),
        ("await expect(f()).resolves.toBe(5)", "await expect(f()).resolves.toBe(6)"),
        ("assert.equal(f(1, 2), 5, 'why')", "assert.equal(f(1, 2), 6, 'why')"),
        ("assert.deepStrictEqual(f(), [1])", "assert.deepStrictEqual(f(), [2])"),
        ("if (x) y()\n  expect(f()).toBe(5)", "if (x) y()\n  expect(f()).toBe(6)"),
        ("g(); expect(f()).toBe(5) // why", "g(); expect(f()).toBe(6) // why"),
        ("for (const a of b) { c() } expect(f()).toBe(5)",) * 2,
    ],
)
def test_the_value_of_a_last_javascript_assertion_is_changed(statement: str, expected: str) -> None:
    texts = changed("a.test.ts", f"it('x', async () => {{ {statement}\n}})\n", "value")
    assert texts == [f"it('x', async () => {{ {expected.replace('toBe(5)', 'toBe(6)')}\n}})\n"]


@pytest.mark.parametrize(
    "statement",
    [
        "expect(f()).not.toBe(5)",
        "expect(f()).resolves.toBe(5)",
        "expect(f()).toBe(x)",
        "expect(f()).toBe(5n)",
        "expect(f()).toBe(`a`)",
        "expect(f()).toEqual([g(1)])",
        "expect(f()).toBeGreaterThan(5)",
        "expect(f()).toBe(5).then(g)",
        "expect(f()).toBe(5); g()",
        "if (x) expect(f()).toBe(5)",
        "if (x)\n  expect(f()).toBe(5)",
        "if (x) { g() } else\n  expect(f()).toBe(5)",
        "x &&\n  expect(f()).toBe(5)",
        "for (const x of y) { expect(x).toBe(5) }",
        "y.forEach((x) => expect(x).toBe(5))",
        "const check = () =>\n  expect(x).toBe(5)",
    ],
)
def test_a_javascript_assertion_that_may_not_matter_is_not_changed(statement: str) -> None:
    text = f"it('x', async () => {{\n  {statement}\n}})\n"
    assert changed("a.test.ts", text, "value") == []
    assert len(set(changed("a.test.ts", text, "raise"))) == 3


@pytest.mark.parametrize(
    ("test", "names"),
    [
        ("test('x', () => { f() })", ["x"]),
        ("test('x', async function () { f() })", ["x"]),
        ("test('x', { timeout: 5 }, async t => { f() }, )", ["x"]),
        ("it('x', (): Promise<void> => { f() }, 500)", ["x"]),
        (
            "describe('a', () => { describe(\"b\", () => { it('x', () => { f() }) }) })",
            ["a > b > x"],
        ),
        ("it('x', () => { y.map((z) => { return z }) })", ["x"]),
        ("it('x', () => { const o = { m() { return 1 } }; f(o) })", ["x"]),
        ("it('x', () => { if (y) { return } f() })", []),
        ("it('x', () => { if (y) return; f() })", []),
        ("it('x', () => f())", []),
        ("it('x', (done) => { f(done) })", []),
        ("it('x', done => { f(done) })", []),
        ("it('x', (t, done) => { f(done) })", []),
        ("it('x', f)", []),
        ("it('x', wrap(() => { f() }))", []),
        ("it('x', function* () { f() })", []),
        ("it.skip('x', () => { f() })", []),
        ("it.fails('x', () => { f() })", []),
        ("it.todo('x')", []),
        ("it.each([1])('x %s', (n) => { f(n) })", []),
        ("describe.each([1])('a %s', () => { it('x', () => { f() }) })", []),
        ("test(`x ${y}`, () => { f() })", []),
        ("test('x' + y, () => { f() })", []),
        ("it('x', () => { f() }); it('x', () => { g() })", []),
        ("it('x', () => { this.skip(); f() })", []),
        ("test('x', () => { test('y', () => { f() }) })", []),
        ("it('x', () => { const r = /a/ })", []),
        ("it('x', () => { render(<p>it's</p>) })", []),
        ("it('x', () => { f() }", []),
    ],
)
def test_javascript_tests_that_surely_reach_their_end_can_throw_there(
    test: str, names: list[str]
) -> None:
    found = sabotages("a.spec.js", test)
    assert list(dict.fromkeys(one.test for one in found if one.kind == "raise")) == names


JAVASCRIPT = """\
#!/usr/bin/env node
/** @jest-environment jsdom */
'use strict'
it('x', () => { expect(1).toBe(1) })
it.each([1])('y', (n) => { expect(n).toBe(1) })
"""
GO = """\
//go:build unix

// Package sums.
package sums

import "testing"

func TestAdd(t *testing.T) {
\tif Add(1, 1) != 2 {
\t\tt.Fatal("wrong")
\t}
}
"""
RUST = """\
//! Sums.
#![allow(dead_code)]
mod tests {
    #[test]
    fn adds() -> Result<(), String> { Ok(()) }
}
"""


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "a.test.js",
            JAVASCRIPT,
            JAVASCRIPT.replace("'use", "/* n */ 'use")
            .replace("=> { expect(1)", "=> {/* n */  expect(1)")
            .replace("('y'", "(/* n */ 'y'"),
        ),
        (
            "a_test.go",
            GO,
            GO.replace("package sums\n", "package sums /* n */\n").replace("T) {", "T) {/* n */ "),
        ),
        (
            "src/lib.rs",
            RUST,
            RUST.replace("#!", "/* n */ #!").replace("{ Ok", "{/* n */  Ok"),
        ),
        ("a.test.tsx", JAVASCRIPT, JAVASCRIPT),
        ("a.rb", "def test\nend\n", "def test\nend\n"),
    ],
)
def test_comments_are_put_where_they_change_nothing(path: str, text: str, expected: str) -> None:
    assert apply_sabotages(path, text, [], "n") == expected


@pytest.mark.parametrize(
    ("path", "test", "names"),
    [
        ("a_test.go", "func TestAdd(t *testing.T) {\n}\n", ["TestAdd"]),
        ("a_test.go", "func Test(tt *testing.T) {}\n", ["Test"]),
        ("a_test.go", "func TestAdd(_ *testing.T) {\n}\n", []),
        ("a_test.go", "func Testify(t *testing.T) {\n}\n", []),
        ("a_test.go", "func TestMain(m *testing.M) {\n\tm.Run()\n}\n", []),
        ("a_test.go", "func (s *Suite) TestAdd(t *testing.T) {\n}\n", []),
        ("a_test.go", 'func TestAdd(t *testing.T) {\n\tt.Skip("no")\n}\n', []),
        ("a_test.go", "func BenchmarkAdd(b *testing.B) {\n}\n", []),
        ("a_windows_test.go", "func TestAdd(t *testing.T) {\n}\n", []),
        ("a.rs", "#[test]\nfn adds() { f() }\n", ["adds"]),
        ("a.rs", "mod a { mod b { #[tokio::test] async fn adds() {} } }", ["a::b::adds"]),
        ("a.rs", "#[test]\nfn adds() -> Result<(), E> { f() }\n", ["adds"]),
        ("a.rs", "#[test]\n#[should_panic]\nfn adds() { f() }\n", []),
        ("a.rs", "#[test]\n#[ignore]\nfn adds() { f() }\n", []),
        ("a.rs", "#[cfg(windows)]\nmod a { #[test]\nfn adds() { f() } }\n", []),
        ("a.rs", "#[test_case(1)]\nfn adds(n: u8) { f() }\n", []),
        ("a.rs", "#[rstest]\n#[test]\nfn adds() { f() }\n", []),
        ("a.rs", "macro_rules! m { () => { #[test]\nfn adds() { f() } } }\n", []),
        ("a.rs", "proptest! { #[test]\nfn adds() { f() } }\n", []),
        ("a.rs", "#[test]\nfn adds() { #![allow(x)] f() }\n", []),
    ],
)
def test_go_and_rust_tests_fail_at_their_start(path: str, test: str, names: list[str]) -> None:
    text = f"package a\n\n{test}" if path.endswith(".go") else test
    found: list[Sabotage] = sabotages(path, text)
    assert list(dict.fromkeys(one.test for one in found)) == names
    assert len({one.replacement for one in found}) == 3 * len(names), "the shape varies"
    for one in found:
        assert text[: one.start].endswith("{")
        assert text[: one.start].count("\n") == one.line - 1


@pytest.mark.parametrize(
    ("start", "filling", "end"),
    [
        ("", "it('x', () => { f() })\n", ""),
        ("it('x', () => {", "if (a) { return } ", "})"),
        ("it('x', () => {", "x && expect(1).toBe(1);", "})"),
        ("it('x', () => {", "/* */", "})"),
    ],
)
def test_a_file_that_is_written_to_waste_time_does_not(start: str, filling: str, end: str) -> None:
    assert_linear(lambda size: start + filling * (size // len(filling)) + end, _sabotage)


def test_brackets_that_are_written_to_waste_time_do_not() -> None:
    assert_linear(
        lambda size: "it('x', () => {" + "{" * (size // 2) + "return" + "}" * (size // 2) + "})",
        _sabotage,
    )


def _sabotage(text: str) -> None:
    sabotages("a.test.js", text)
    apply_sabotages("a.test.js", text, [], "n")
