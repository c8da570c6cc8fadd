"""The modules and crates a Rust file uses."""

from __future__ import annotations

import pytest

from shiftboss.evidence.survey.imports.repo_view import RepoView
from shiftboss.evidence.survey.imports.rust import imported_by

TEXTS = {
    "Cargo.toml": '[workspace]\nmembers = ["crates/*"]\n',
    "crates/shop/Cargo.toml": (
        '[package]\nname = "shop-core"\n[dependencies]\nmoney-lib.workspace = true\n'
        'serde = "1"\ncash = { path = "../cash", package = "cash-impl" }\n'
        "[target.'cfg(unix)'.dev-dependencies]\nodd = { path = \"../odd\" }\n"
    ),
    "crates/money/Cargo.toml": '[package]\nname = "money-lib"\n',
    "crates/cash/Cargo.toml": '[package]\nname = "cash-impl"\n[lib]\npath = "lib/entry.rs"\n',
    "crates/odd/Cargo.toml": '[package]\nname = "odd"\n[lib]\nname = "strange"\n',
    "crates/other/Cargo.toml": '[package]\nname = "other"\n',
    "crates/broken/Cargo.toml": "[package\n",
}
SHOP = "crates/shop/src"
FILES = (
    *TEXTS,
    f"{SHOP}/lib.rs",
    f"{SHOP}/main.rs",
    f"{SHOP}/cart.rs",
    f"{SHOP}/cart/item.rs",
    f"{SHOP}/tax/mod.rs",
    f"{SHOP}/tax/rates.rs",
    f"{SHOP}/bin/tool.rs",
    f"{SHOP}/bin/big/main.rs",
    f"{SHOP}/bin/big/part.rs",
    f"{SHOP}/inline/deep.rs",
    f"{SHOP}/elsewhere.rs",
    "crates/shop/tests/buy.rs",
    "crates/shop/tests/common/mod.rs",
    "crates/shop/build.rs",
    "crates/money/src/lib.rs",
    "crates/money/src/coin.rs",
    "crates/cash/lib/entry.rs",
    "crates/cash/lib/till.rs",
    "crates/odd/src/lib.rs",
    "crates/other/src/lib.rs",
)
REPO = RepoView(FILES, TEXTS)


def named(path: str, text: str) -> set[str]:
    return imported_by(path, text, REPO)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("mod cart;\npub(crate) mod tax;", {"cart.rs", "tax/mod.rs"}),
        ("mod gone;", set()),
        ("mod inline { mod deep; }", {"inline/deep.rs"}),
        ('#[path = "elsewhere.rs"]\nmod x;\nmod cart;', {"elsewhere.rs", "cart.rs"}),
        ("use crate::cart::Cart;", {"cart.rs"}),
        ("use crate::cart::item::{self, Item};", {"cart/item.rs"}),
        (
            "use crate::{cart::{item::Item, Cart}, tax::rates::*};",
            {"cart.rs", "cart/item.rs", "tax/rates.rs"},
        ),
        ("pub use self::tax::rates as r;", {"tax/rates.rs"}),
        ("use cart::item;", {"cart/item.rs"}),
        ("use r#cart::X;", {"cart.rs"}),
        ("fn f() { crate::tax::rates::vat(); tax::g() }", {"tax/rates.rs", "tax/mod.rs"}),
        ("mod tests { use super::*; use super::cart::Cart; }", {"cart.rs"}),
        (
            "mod tests { mod a { use super::super::tax::X; } use super::cart::C; }",
            {"tax/mod.rs", "cart.rs"},
        ),
        ("fn f() { if x { } } mod b { } use self::cart::X;", {"cart.rs"}),
        ("// use crate::cart;\n/* use crate::tax; /* mod cart; */ mod tax; */", set()),
        ('let s = "use crate::cart;"; let r = r#"mod tax; ""#;', set()),
        (
            "let c = '\"'; use crate::cart::X; let d = '\\''; use crate::tax::Y;",
            {"cart.rs", "tax/mod.rs"},
        ),
        ("fn f<'a>(x: &'a str) -> X<'a> { crate::cart::g() }", {"cart.rs"}),
        ("use std::collections::HashMap; use serde::Serialize; Vec::new();", set()),
        ("use crate::{", set()),
        ("use", set()),
        ("mod", set()),
        ("}}}} use crate::cart::X;", {"cart.rs"}),
    ],
)
def test_paths_in_the_same_crate(text: str, found: set[str]) -> None:
    assert named(f"{SHOP}/lib.rs", text) == {f"{SHOP}/{name}" for name in found}


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("cart.rs", "mod item; use super::tax::rates;", {"cart/item.rs", "tax/rates.rs"}),
        ("cart/item.rs", "use super::Cart; use super::super::tax::X;", {"cart.rs", "tax/mod.rs"}),
        ("tax/mod.rs", "mod rates; use super::cart::Cart;", {"tax/rates.rs", "cart.rs"}),
        ("tax/rates.rs", "use super::X;", {"tax/mod.rs"}),
        ("bin/big/main.rs", "mod part;", {"bin/big/part.rs"}),
        ("bin/big/part.rs", "use crate::run;", {"bin/big/main.rs"}),
        ("bin/tool.rs", "use shop_core::cart::Cart;", {"cart.rs"}),
        ("main.rs", "use shop_core::run;", {"lib.rs"}),
    ],
)
def test_module_files_of_a_source_file(path: str, text: str, found: set[str]) -> None:
    assert named(f"{SHOP}/{path}", text) == {f"{SHOP}/{name}" for name in found}


def test_crate_paths_may_mean_the_library_or_the_binary() -> None:
    assert named(f"{SHOP}/cart.rs", "use crate::run;") == {f"{SHOP}/lib.rs", f"{SHOP}/main.rs"}


def test_each_integration_test_is_its_own_crate() -> None:
    found = named("crates/shop/tests/buy.rs", "mod common; use crate::x; use shop_core::tax::X;")
    assert found == {"crates/shop/tests/common/mod.rs", f"{SHOP}/tax/mod.rs"}


def test_workspace_crates_are_found_by_their_name_in_the_code() -> None:
    text = "use money_lib::coin::Coin; extern crate cash; use cash::till::T; use strange::X;"
    assert named(f"{SHOP}/lib.rs", text) == {
        "crates/money/src/coin.rs",
        "crates/cash/lib/entry.rs",
        "crates/cash/lib/till.rs",
        "crates/odd/src/lib.rs",
    }


def test_a_crate_that_is_not_a_dependency_is_ignored() -> None:
    assert named(f"{SHOP}/lib.rs", "use other::X; use cash_impl::Y;") == set()


def test_a_file_without_a_manifest_is_read_too() -> None:
    repo = RepoView(["src/lib.rs", "src/a.rs"], {})
    assert imported_by("src/lib.rs", "mod a;", repo) == {"src/a.rs"}
