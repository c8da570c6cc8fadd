"""Which tests a change removed, language by language."""

from __future__ import annotations

import gc
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from shiftboss.rules.claims.kept_tests import FileRevision, language_of_tests, lost_tests
from shiftboss.rules.claims.test_scanners.python import parse_python


def lost(path: str, before: str, after: str | None) -> list[str]:
    """The names of the tests that were removed or disabled."""
    texts = [None if text is None else textwrap.dedent(text) for text in (before, after)]
    return [test.name for test in lost_tests([FileRevision(path, *texts)])]


PYTHON = """
    import pytest
    def test_one():
        assert 1
    class TestTwo:
        def test_two(self):
            assert 2
"""
TWO = "class TestTwo:\n    def test_two(self): assert 2\n"


@pytest.mark.parametrize(
    ("after", "names"),
    [
        (None, ["test_one", "TestTwo.test_two"]),
        ("", ["test_one", "TestTwo.test_two"]),
        (PYTHON.replace("def test_one", "def helper_one"), ["test_one"]),
        (
            PYTHON.replace("def test_one", "# def test_one").replace("assert 1", "x = 1"),
            ["test_one"],
        ),
        (PYTHON.replace("class TestTwo", "class Two"), ["TestTwo.test_two"]),
        (PYTHON.replace("def test_one", "@pytest.mark.skip\n    def test_one"), ["test_one"]),
        (PYTHON.replace("def test_one", "@pytest.mark.xfail()\n    def test_one"), ["test_one"]),
        (
            PYTHON.replace("class TestTwo", "@unittest.skip('x')\n    class TestTwo"),
            ["TestTwo.test_two"],
        ),
        (PYTHON.replace("assert 1", "pytest.skip('later')"), ["test_one"]),
        (PYTHON.replace("assert 2", "self.skipTest('later')"), ["TestTwo.test_two"]),
        (PYTHON.replace("assert 2", "raise unittest.SkipTest"), ["TestTwo.test_two"]),
        (PYTHON + "    pytestmark = pytest.mark.skip\n", ["test_one", "TestTwo.test_two"]),
        (PYTHON + "    pytestmark = [pytest.mark.xfail]\n", ["test_one", "TestTwo.test_two"]),
        (
            PYTHON + "    pytest.skip('x', allow_module_level=True)\n",
            ["test_one", "TestTwo.test_two"],
        ),
        (PYTHON + "    if True:\n        pytest.skip('x')\n", ["test_one", "TestTwo.test_two"]),
        (PYTHON + "    __test__ = False\n", ["test_one", "TestTwo.test_two"]),
        (PYTHON + "    del test_one\n", ["test_one"]),
        (PYTHON + "    TestTwo = None\n", ["TestTwo.test_two"]),
        (PYTHON + "    test_one: object = None\n", ["test_one"]),
        (PYTHON + "    for test_one in (): pass\n", ["test_one"]),
        (PYTHON + "    import os as test_one\n", ["test_one"]),
        (PYTHON + "    from os import path as test_one\n", ["test_one"]),
        (PYTHON + "    class test_one: pass\n", ["test_one"]),
        (PYTHON + "    test_one.__test__ = False\n", ["test_one"]),
        (PYTHON + "    test_one.pytestmark = []\n", ["test_one"]),
        (PYTHON + "    globals().pop('test_one')\n", ["test_one"]),
        (PYTHON + "    del globals()['test_one']\n", ["test_one"]),
        (
            PYTHON + "    delattr(TestTwo, 'test_two')\n    setattr(m, 'test_one', 1)\n",
            ["test_one"],
        ),
        (PYTHON + "    pytestmark += [pytest.mark.skip]\n", ["test_one", "TestTwo.test_two"]),
        (PYTHON + "    sys.exit(0)\n", ["test_one", "TestTwo.test_two"]),
        (PYTHON + "    raise SystemExit(0)\n", ["test_one", "TestTwo.test_two"]),
        (PYTHON.replace("def test_one", "@pytest.fixture\n    def test_one"), ["test_one"]),
        (PYTHON.replace("def test_one", "@pytest.fixture()\n    def test_one"), ["test_one"]),
        (
            PYTHON.replace("import pytest", "from pytest import skip").replace(
                "assert 1", "skip('x')"
            ),
            ["test_one"],
        ),
        (
            PYTHON.replace("import pytest", "import pytest as p").replace(
                "assert 1", "p.skip('x')"
            ),
            ["test_one"],
        ),
        (PYTHON.replace("assert 1", "from pytest import skip as s; s('x')"), ["test_one"]),
        (
            PYTHON.replace("import pytest", "import pytest\n    off = pytest.mark.skip").replace(
                "def test_one", "@off\n    def test_one"
            ),
            ["test_one"],
        ),
        (
            f"try:\n    raise OSError\n    def test_one(): assert 1\nexcept OSError: pass\n{TWO}",
            ["test_one"],
        ),
        (
            f"with quiet():\n    stop()\n    def test_one(): assert 1\n{TWO}",
            ["test_one"],
        ),
        (PYTHON + "        def __init__(self): pass\n", ["TestTwo.test_two"]),
        (
            PYTHON.replace("def test_one", "@pytest.mark.parametrize('n', [])\n    def test_one"),
            ["test_one"],
        ),
        (
            f"if False:\n    def test_one(): pass\n{TWO}",
            ["test_one"],
        ),
        ("def test_one(): pass\ndef broken(:\n", ["test_two"]),
    ],
)
def test_python_tests_that_are_removed_or_disabled(after: str | None, names: list[str]) -> None:
    assert lost("tests/test_x.py", PYTHON, after) == names


@pytest.mark.parametrize(
    "after",
    [
        PYTHON,
        PYTHON.replace("assert 1", "assert 1 + 1 == 2"),
        PYTHON + "    def test_three():\n        pytest.skip('new, and not ready')\n",
        PYTHON.replace("def test_one", "def test_one_is_one"),
        PYTHON.replace("def test_one", "async def test_one"),
        PYTHON.replace("def test_one", "@pytest.mark.slow\n    def test_one"),
        PYTHON.replace("def test_one", "@pytest.mark.parametrize('n', [1])\n    def test_one"),
        PYTHON.replace("assert 1", "list.skip(1)"),
        PYTHON + "    if __name__ == '__main__':\n        sys.exit(pytest.main())\n",
        PYTHON + "    slow = pytest.mark.slow\n    values = {'test_one': 1}['test_one']\n",
    ],
)
def test_python_tests_that_are_edited_or_added_are_kept(after: str) -> None:
    assert lost("tests/test_x.py", PYTHON, after) == []


def test_a_test_that_was_already_disabled_may_stay_disabled() -> None:
    before = "@pytest.mark.skip\ndef test_a(): pass\n"
    assert lost("test_x.py", before, before + "x = 1\n") == []
    assert lost("test_x.py", before, "def test_a(): pass\n") == []


JAVASCRIPT = """
    // it("in a comment", () => {})
    describe("group", () => {
      it("adds", () => { expect(1 + 1).toBe(2); });
      test('says "hi"', async () => { const s = `it("x ${"}"}")`; });
    });
    it.each([[1, ")"]])("takes %i", (n) => { expect(/[/"]it\\(/.test(n)).toBe(true) });
"""


@pytest.mark.parametrize(
    ("after", "names"),
    [
        (JAVASCRIPT, []),
        (JAVASCRIPT.replace("toBe(2)", "toEqual(2)"), []),
        (JAVASCRIPT.replace('"adds"', '"adds two numbers"'), []),
        (JAVASCRIPT + 'it.skip("a new one", () => {});', []),
        (JAVASCRIPT.replace("it.each", "test.concurrent.each"), []),
        (JAVASCRIPT.replace('it("adds"', 'xit("adds"'), ["adds"]),
        (JAVASCRIPT.replace('it("adds"', 'it.skip("adds"'), ["adds"]),
        (JAVASCRIPT.replace('it("adds"', 'it\n  .todo("adds"'), ["adds"]),
        (JAVASCRIPT.replace('it("adds"', 'it.skipIf(true)("adds"'), ["adds"]),
        (JAVASCRIPT.replace('it("adds", ', 'it("adds", { skip: true }, '), ["adds"]),
        (JAVASCRIPT.replace('it("adds"', '// it("adds"'), ["adds"]),
        (JAVASCRIPT.replace('it("adds"', 'it.only("adds"'), ['says "hi"', "takes %i"]),
        (JAVASCRIPT.replace("describe(", "describe.skip("), ["adds", 'says "hi"']),
        (JAVASCRIPT.replace("describe(", "describe.only("), ["takes %i"]),
        (JAVASCRIPT.replace("expect(1 + 1)", "this.skip(); expect(1 + 1)"), ["adds"]),
        (JAVASCRIPT.replace("expect(1 + 1)", "test.skip(true); expect(1 + 1)"), ["adds"]),
        (JAVASCRIPT.replace("it.each", "it.skip.each"), ["takes %i"]),
        (None, ["adds", 'says "hi"', "takes %i"]),
    ],
)
def test_javascript_tests(after: str | None, names: list[str]) -> None:
    assert lost("src/sum.test.ts", JAVASCRIPT, after) == names


def test_deno_tests() -> None:
    before = 'Deno.test("a", () => {});\nDeno.test({ name: "b", fn() {} });'
    assert lost("x_test.ts", before, before) == []
    assert lost(
        "x_test.ts", before, before.replace("Deno.test({", "Deno.test({ ignore: true,")
    ) == ["b"]
    assert lost("x_test.ts", before, before.replace("Deno.test(", "Deno.test.ignore(", 1)) == ["a"]


GO = """
    package x
    // func TestCommented(t *testing.T) {}
    func TestOne(t *testing.T) { if s := "}"; s == `{` { t.Fatal('"') } }
    func (s *Suite) TestTwo() { s.Equal(1, 1) }
"""


@pytest.mark.parametrize(
    ("after", "names"),
    [
        (GO, []),
        (GO + "    func TestThree(t *testing.T) { t.Skip() }\n", []),
        (GO.replace("TestOne", "TestFirst"), []),
        (GO.replace("{ if s", '{ t.Skip("x"); if s'), ["TestOne"]),
        (GO.replace("{ if s", "{ t.SkipNow(); if s"), ["TestOne"]),
        (GO.replace("func TestOne", "func testOne"), ["TestOne"]),
        ("//go:build never\n" + textwrap.dedent(GO), ["TestOne", "TestTwo"]),
        (GO + "    func TestMain(m *testing.M) { os.Exit(0) }\n", ["TestOne", "TestTwo"]),
        (GO + "    func TestMain(m *testing.M) { os.Exit(m.Run()) }\n", []),
        (None, ["TestOne", "TestTwo"]),
    ],
)
def test_go_tests(after: str | None, names: list[str]) -> None:
    assert lost("x_test.go", GO, after) == names


RUST = """
    fn helper<'a>(x: &'a str) -> char { '"' }
    #[cfg(test)]
    mod tests {
        #[test]
        fn one() { assert_eq!(r#"}"#, "}"); /* /* nested */ */ }
        #[tokio::test(flavor = "multi_thread")]
        async fn two() { assert!(true); }
    }
"""


@pytest.mark.parametrize(
    ("after", "names"),
    [
        (RUST, []),
        (RUST.replace("fn one", "fn first"), []),
        (RUST.replace("helper", "other"), []),
        (RUST.replace("#[test]", "#[test]\n#[ignore]"), ["one"]),
        (RUST.replace("#[test]", '#[test]\n#[ignore = "slow"]'), ["one"]),
        (RUST.replace("#[test]", "#[test] #[should_panic]"), ["one"]),
        (RUST.replace("#[test]", "#[cfg(any())] #[test]"), ["one"]),
        (RUST.replace("#[test]", "// #[test]"), ["one"]),
        (RUST.replace("#[cfg(test)]", '#[cfg(feature = "x")]'), ["one", "two"]),
        ("#![cfg(any())]\n" + RUST, ["one", "two"]),
        (None, ["one", "two"]),
    ],
)
def test_rust_tests(after: str | None, names: list[str]) -> None:
    assert lost("src/lib.rs", RUST, after) == names


def test_a_go_file_for_another_platform_does_not_keep_its_tests() -> None:
    text = textwrap.dedent(GO)
    for name in ("x_windows_test.go", "x_arm64_test.go", "x_linux_arm64_test.go"):
        moved = [FileRevision("x_test.go", text, None), FileRevision(name, None, text)]
        assert [test.name for test in lost_tests(moved)] == ["TestOne", "TestTwo"]
        assert lost_tests([FileRevision(name, text, text + "// more\n")]) == []


def test_a_renamed_file_keeps_its_tests() -> None:
    moved = [
        FileRevision("test_a.py", PYTHON_PLAIN, None),
        FileRevision("b/test_b.py", None, PYTHON_PLAIN),
    ]
    assert lost_tests(moved) == []


def test_a_file_no_test_runner_finds_does_not_keep_its_tests() -> None:
    moved = [
        FileRevision("tests/test_a.py", PYTHON_PLAIN, None),
        FileRevision("tests/was_a.py", None, PYTHON_PLAIN),
    ]
    assert [test.name for test in lost_tests(moved)] == ["test_one", "TestTwo.test_two"]


def test_tests_disabled_while_being_moved_are_named() -> None:
    off = PYTHON_PLAIN.replace("def test_one", "@pytest.mark.skip\ndef test_one")
    moved = [FileRevision("test_a.py", PYTHON_PLAIN, None), FileRevision("test_b.py", None, off)]
    assert [(test.path, test.name, test.how) for test in lost_tests(moved)] == [
        ("test_a.py", "test_one", "was disabled (skip)")
    ]


PYTHON_PLAIN = textwrap.dedent(PYTHON)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("tests/unit/test_x.py", "python"),
        ("x_test.py", "python"),
        ("app/tests.py", "python"),
        ("tests/helper.py", "python, not found by name"),
        ("src/a.py", None),
        ("src/a.test.tsx", "javascript"),
        ("src/__tests__/a.js", "javascript"),
        ("test/a.mjs", "javascript, not found by name"),
        ("src/a.ts", None),
        ("a_test.go", "go"),
        ("a.go", None),
        ("src/a.rs", "rust"),
        ("README.md", None),
    ],
)
def test_files_that_can_have_tests(path: str, kind: str | None) -> None:
    assert language_of_tests(path) == kind


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("x.test.js", "it("),
        ("x.test.js", "describe('a',"),
        ("x.test.js", "it . "),
        ("x.test.js", "=/["),
        ("x.test.js", "`${"),
        ("x.test.js", "it.each`"),
        ("x.rs", "#["),
        ("x.rs", "#[test] mod a {"),
        ("x_test.go", "func TestA("),
        ("test_x.py", "("),
        ("test_x.py", "def test_x("),
    ],
)
def test_hostile_text_is_scanned_in_reasonable_time(path: str, unit: str) -> None:
    text = unit * (300_000 // len(unit))
    started_at = time.process_time()
    lost_tests([FileRevision(path, text, text)])
    assert time.process_time() - started_at < 60


def test_threads_can_parse_python_at_once(request: pytest.FixtureRequest) -> None:
    """The garbage collector may run in the middle, and let another thread go on."""

    def let_others_run(_phase: str, _info: dict[str, int]) -> None:
        time.sleep(0)

    request.addfinalizer(partial(gc.set_threshold, *gc.get_threshold()))
    request.addfinalizer(lambda: gc.callbacks.remove(let_others_run))
    gc.callbacks.append(let_others_run)
    gc.set_threshold(50)
    text = "".join(f"def f{number}(a):\n    return a + ({number} - a)\n" for number in range(100))
    with ThreadPoolExecutor(3) as threads:
        modules = list(threads.map(parse_python, [text] * 12))
    assert {len(module.body) for module in modules} == {100}
