"""The imports of a JavaScript or TypeScript file, as files of the repo."""

from __future__ import annotations

import json

import pytest

from shiftboss.evidence.survey.imports.javascript import imported_by, specifiers
from shiftboss.evidence.survey.imports.repo_view import RepoView


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ('import a from "./a"', {"./a"}),
        ("import a, { b as c, type D } from './a';", {"./a"}),
        ('import * as a from "./a"\nimport "./b"', {"./a", "./b"}),
        ('import type { A } from "./a"', {"./a"}),
        ('import type A from "./a"; import typeof B from "./b"', {"./a", "./b"}),
        ('import{a}from"./a";export{b}from"./b"', {"./a", "./b"}),
        ('import {\n  a, // one\n  /* two */ b,\n} from\n  "./a"', {"./a"}),
        ('import { "a-b" as c } from "./a"', {"./a"}),
        ('import data from "./a.json" with { type: "json" }', {"./a.json"}),
        ('export * from "./a"\nexport * as b from "./b"', {"./a", "./b"}),
        ('export type { A } from "./a"', {"./a"}),
        ('export { a }\nexport default "./no"\nexport const from = "./no"', set()),
        ('const a = await import("./a")', {"./a"}),
        ('import(/* webpackChunkName: "x" */ "./a").then(f)', {"./a"}),
        ("import(`./a`)", {"./a"}),
        ("import(`./${name}`); import(name); import('./a' + b)", set()),
        ('const a = require("./a"), b = require(`./b`)', {"./a", "./b"}),
        ('({...require("./a")})', {"./a"}),
        ('require.resolve("./a")', {"./a"}),
        ('import a = require("./a")', {"./a"}),
        ('let x: import("./a").A', {"./a"}),
        ('loader.require("./no"); x.import("./no"); y?.require("./no")', set()),
        ("import.meta.url", set()),
        ('// import "./no"\n/* require("./no") */ import "./a"', {"./a"}),
        ("const s = 'import \"./no\"'; import './a'", {"./a"}),
        ("const s = `import \"./no\" ${require('./a')} require('./no')`", {"./a"}),
        ("`${`${{a: '}'}}`}`; require('./a')", {"./a"}),
        (r"const s = 'it\'s'; require('./a')", {"./a"}),
        ("const r = /['\"`]/; require('./a')", {"./a"}),
        ("const r = /[/'`]/g; require('./a')", {"./a"}),
        (r"x = a / b; y = '/'; require('./a') / 2", {"./a"}),
        ("if (x) /`/.test(y); require('./a')", {"./a"}),
        ("return /`/.test(y) && require('./a')", {"./a"}),
        ("f(x) / 2; g(`/`); require('./a')", {"./a"}),
        ("x = <p>don't</p>\nimport './a'", {"./a"}),
        ("x = <a b={c} /> ; y = <i></i>; z = <b>{import('./a')}</b>", {"./a"}),
        ("#!/usr/bin/env node '\nrequire('./a')", {"./a"}),
        ("/* never closed require('./no')", set()),
        ("'never closed\nrequire('./a')", {"./a"}),
        ("`never closed require('./no')", set()),
        ("import", set()),
        ("require(", set()),
        ("import {", set()),
        ("import {\nexport * from './a'", {"./a"}),
        ("const ünï = 1; require('./ä')", {"./ä"}),
    ],
)
def test_imports_of_a_file(text: str, asked: set[str]) -> None:
    assert specifiers("a.tsx", text) == asked


@pytest.mark.parametrize("ending", ["vue", "svelte"])
def test_only_the_scripts_of_a_page_are_read(ending: str) -> None:
    page = """<!-- <script>import "./no"</script> -->
<script setup lang="ts" generic="T extends Map<string, number>">import A from "./a"</script>
<template>import "./no" it's</template>
<SCRIPT src="./b.js"></SCRIPT><style>@import "./no";</style>
<script context="module">import "./c"
"""
    assert specifiers(f"x.{ending}", page) == {"./a", "./b.js", "./c"}


@pytest.mark.parametrize(
    ("specifier", "file"),
    [
        ("./a", "src/a.ts"),
        ("./a.js", "src/a.ts"),
        ("./b.mjs", "src/b.mts"),
        ("./c.jsx", "src/c.tsx"),
        ("./d", "src/d/index.tsx"),
        (".", "src/index.js"),
        ("..", "index.ts"),
        ("../data.json", "data.json"),
        ("./e.vue", "src/e.vue"),
        ("./logo.svg?url", "src/logo.svg"),
        ("./types", "src/types.d.ts"),
    ],
)
def test_relative_imports(specifier: str, file: str) -> None:
    repo = RepoView(["src/main.ts", "src/node_modules/x.ts", file], {})
    assert imported_by("src/main.ts", f"import {json.dumps(specifier)}", repo) == {file}


def test_imports_from_outside_the_repo_are_ignored() -> None:
    repo = RepoView(["src/main.ts", "src/react.ts"], {})
    text = 'import "./gone"; import "../../out"; import "react"; import "node:fs"; import "/abs"'
    assert imported_by("src/main.ts", text, repo) == set()


def configured(importer: str, specifier: str, files: list[str], **configs: str) -> set[str]:
    texts = {
        name.replace("__", "/").replace("_json", ".json"): one for name, one in configs.items()
    }
    repo = RepoView([importer, *files, *texts], texts)
    return imported_by(importer, f"import {json.dumps(specifier)}", repo)


def test_path_aliases_in_a_tsconfig_with_comments() -> None:
    config = """{
      // the sources
      "compilerOptions": { "baseUrl": ".", /* two */
        "paths": { "@/*": ["./src/*"], "@/exact": ["other/exact.ts"], "url": ["http://no/*"], },
      }, // end
    }"""
    files = ["src/lib/a.ts", "other/exact.ts", "src/exact.ts", "src/plain.ts"]
    for specifier, file in (
        ("@/lib/a", "src/lib/a.ts"),
        ("@/exact", "other/exact.ts"),
        ("src/plain", "src/plain.ts"),
    ):
        assert configured("src/app/x.ts", specifier, files, tsconfig_json=config) == {file}


def test_inherited_path_aliases_are_relative_to_the_file_that_defines_them() -> None:
    base = '{"compilerOptions": {"paths": {"~/*": ["../shared/*"]}}}'
    found = configured(
        "app/x.ts",
        "~/a",
        ["shared/a.ts"],
        config__base_json=base,
        app__tsconfig_json='{"extends": ["../config/base"]}',
    )
    assert found == {"shared/a.ts"}


def test_a_tsconfig_that_extends_itself_is_not_followed_forever() -> None:
    config = '{"extends": "./tsconfig.json", "compilerOptions": {"baseUrl": "src"}}'
    assert configured("src/x.ts", "a", ["src/a.ts"], tsconfig_json=config) == {"src/a.ts"}


def test_a_tsconfig_with_only_references_has_their_path_aliases() -> None:
    found = configured(
        "src/x.ts",
        "@/a",
        ["src/a.ts"],
        tsconfig_json='{"files": [], "references": [{"path": "./tsconfig.app.json"}]}',
        **{"tsconfig.app_json": '{"compilerOptions": {"paths": {"@/*": ["./src/*"]}}}'},
    )
    assert found == {"src/a.ts"}


WORKSPACE = '{"name": "shop", "workspaces": ["packages/*"]}'


@pytest.mark.parametrize(
    ("manifest", "specifier", "file"),
    [
        ({}, "@shop/cart", "packages/cart/src/index.ts"),
        ({"main": "./lib/main.js"}, "@shop/cart", "packages/cart/lib/main.js"),
        ({"main": "dist/main.js"}, "@shop/cart", "packages/cart/src/main.ts"),
        ({"types": "dist/types/main.d.ts"}, "@shop/cart", "packages/cart/src/main.ts"),
        ({}, "@shop/cart/money", "packages/cart/src/money.ts"),
        ({}, "@shop/cart/deep/a.json", "packages/cart/deep/a.json"),
        (
            {"exports": {".": {"import": {"default": "./entry.mjs"}}, "./no": "./no.js"}},
            "@shop/cart",
            "packages/cart/entry.mjs",
        ),
        ({"exports": "./entry.mjs"}, "@shop/cart", "packages/cart/entry.mjs"),
        ({"exports": {"./m": "./dist/money.js"}}, "@shop/cart/m", "packages/cart/src/money.ts"),
        ({"exports": {"./x/*": "./y/*.ts"}}, "@shop/cart/x/a", "packages/cart/y/a.ts"),
    ],
)
def test_imports_of_workspace_packages(
    manifest: dict[str, object], specifier: str, file: str
) -> None:
    texts = {
        "package.json": WORKSPACE,
        "packages/cart/package.json": json.dumps({"name": "@shop/cart"} | manifest),
    }
    repo = RepoView([*texts, file, "apps/web/x.ts"], texts)
    assert imported_by("apps/web/x.ts", f"import {json.dumps(specifier)}", repo) == {file}


def test_a_package_outside_the_workspace_is_ignored() -> None:
    texts = {"package.json": WORKSPACE, "fixtures/react/package.json": '{"name": "react"}'}
    repo = RepoView([*texts, "fixtures/react/index.js", "a.js"], texts)
    assert imported_by("a.js", 'require("react")', repo) == set()


def test_pnpm_workspaces() -> None:
    texts = {
        "pnpm-workspace.yaml": "packages:\n  # ours\n  - 'libs/**'\n  - \"!a\"\nother:\n  - x/*\n",
        "libs/deep/a/package.json": '{"name": "a"}',
        "x/b/package.json": '{"name": "b"}',
    }
    repo = RepoView([*texts, "libs/deep/a/index.ts", "x/b/index.ts", "m.ts"], texts)
    assert imported_by("m.ts", 'import "a"; import "b"', repo) == {"libs/deep/a/index.ts"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"compilerOptions": 1}', '{"extends": 7}'])
def test_a_broken_tsconfig_is_ignored(text: str) -> None:
    assert configured("x.ts", "a", ["a.ts"], tsconfig_json=text, package_json=text) == set()
