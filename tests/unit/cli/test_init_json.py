"""What `init` adds to JSON can be removed again, and nothing else in the file changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftboss.agents.registry import AGENTS
from shiftboss.rules.documents.file_edits import CannotMerge, JsonFile, hook_command
from shiftboss.rules.documents.json_edits import (
    NotJson,
    WrongKind,
    append_item,
    read_json,
    remove_items,
    remove_member,
    set_member,
)

PATH = ("mcpServers", "shiftboss")
HOOKS = ("hooks", "PreToolUse")
VALUE = {"type": "http", "url": "http://127.0.0.1:7432/mcp"}
TEXTS = [
    "{}",
    "{ }\n",
    "{\n}\n",
    "{\n\n  }",
    '{"a":1}',
    '{"a": 1, "mcpServers": {}}',
    '{"mcpServers": {"other": {"url": "x"}}}\n',
    '{\n  "mcpServers": {},\n  "b": []\n}\n',
    '{\n    "mcpServers": {\n        "other": {"url": "x"}\n    }\n}\n',
    '{\n\t"mcpServers" : {\n\t\t"other": 1 ,\n\t\t"last": [1,\t2]\n\t}\n}',
    '{\r\n  "z": 1,\r\n  "hooks": {\r\n    "PreToolUse": [\r\n      {}\r\n    ]\r\n  }\r\n}\r\n',
    '{"hooks": {"PreToolUse": [], "Stop": [ ]}}',
    '{\n  "hooks": {\n    "PreToolUse": [\n    ]\n  }\n}\n',
    '{"a": "}] \\" // no comment", "b": -1.5e3, "c": null}',
    '{"a": 1, "a": {"b": 2}}',
]


def there_and_back(text: str) -> None:
    member = set_member(text, PATH, VALUE)
    both = append_item(member, HOOKS, VALUE)
    data = json.loads(both)
    assert data["mcpServers"]["shiftboss"] == VALUE
    assert data["hooks"]["PreToolUse"][-1] == VALUE
    assert read_json(both).value == data
    assert set_member(both, PATH, VALUE) == both
    # In either order.
    one = remove_items(both, HOOKS, VALUE.__eq__)
    assert one == member
    assert remove_member(member, PATH, VALUE.__eq__) == text
    other = remove_member(both, PATH, VALUE.__eq__)
    assert other is not None
    assert remove_items(other, HOOKS, VALUE.__eq__) == text


@pytest.mark.parametrize("text", TEXTS)
def test_inserting_and_removing_a_value_restores_every_byte(text: str) -> None:
    there_and_back(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(
    st.sampled_from(["a", "mcpServers", "hooks", "b"]), st.dictionaries(st.text(max_size=5), VALUES)
)


@given(OBJECTS, st.sampled_from([None, 0, 1, 2, 4, "\t"]), st.booleans())
def test_inserting_and_removing_restores_any_object(
    data: dict[str, dict[str, Any]], indent: int | str | None, is_dos: bool
) -> None:
    data.get("hooks", {}).pop("PreToolUse", None)
    data.get("mcpServers", {}).pop("shiftboss", None)
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    there_and_back(text.replace("\n", "\r\n") if is_dos else text)


def test_new_lines_are_indented_like_their_neighbours() -> None:
    text = '{\n    "mcpServers": {\n        "other": {}\n    }\n}\n'
    assert set_member(text, PATH, {"url": "x"}) == (
        '{\n    "mcpServers": {\n        "other": {},\n        "shiftboss": {\n'
        '            "url": "x"\n        }\n    }\n}\n'
    )


def test_a_new_member_goes_last_even_among_duplicate_names() -> None:
    text = '{"a": 1, "b": 2, "a": 3}'
    assert set_member(text, ("c",), 4) == '{"a": 1, "b": 2, "a": 3, "c": 4}'


def test_a_value_changed_by_the_user_is_kept() -> None:
    text = set_member("{}", PATH, VALUE | {"url": "http://elsewhere/mcp"})
    assert remove_member(text, PATH, VALUE.__eq__) == text
    assert set_member(text, PATH, VALUE) == text


def test_a_value_of_the_wrong_kind_is_named() -> None:
    with pytest.raises(WrongKind, match="mcpServers is not an object"):
        set_member('{"mcpServers": []}', PATH, VALUE)
    with pytest.raises(WrongKind, match="the file is not an object"):
        set_member("[]", PATH, VALUE)
    with pytest.raises(WrongKind, match=r"hooks\.PreToolUse is not a list"):
        append_item('{"hooks": {"PreToolUse": {}}}', HOOKS, VALUE)


@pytest.mark.parametrize(
    ("text", "line", "has_comments"),
    [
        ("{\n  // ours\n}", 2, True),
        ('{\n  "a": 1, /* two */\n  "b": [1,]\n}', 2, True),
        ('{\n  "a": 1,\n}', 3, True),
        ('{\n  "a": 1\n  "b": 2\n}', 3, False),
        ("", 1, False),
        ("[" * 100_000, 1, False),
    ],
)
def test_invalid_json_is_reported_with_its_line(text: str, line: int, has_comments: bool) -> None:
    with pytest.raises(NotJson) as refused:
        read_json(text)
    assert (refused.value.line, refused.value.has_comments) == (line, has_comments)


def test_other_hooks_are_kept_and_ours_are_recognised_among_them() -> None:
    settings = AGENTS["claude"].setup_files(())[1]
    assert isinstance(settings, JsonFile)
    foreign = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}'
    merged = settings.with_ours(foreign)
    stops = json.loads(merged)["hooks"]["Stop"]
    assert [stop["hooks"][0]["command"] for stop in stops] == ["say done", hook_command("stop")]
    assert settings.with_ours(merged) == merged
    assert settings.without_ours(merged) == foreign
    older = settings.without_ours(merged.replace(hook_command("stop"), "shiftboss hook stop"))
    assert older == foreign
    # Both in one entry, as edited by a user.
    mixed = json.loads(merged)
    mixed["hooks"]["Stop"] = [{"hooks": [stop["hooks"][0] for stop in stops]}]
    text = json.dumps(mixed)
    assert settings.with_ours(text) == text
    left = settings.without_ours(text)
    assert left is not None
    assert json.loads(left)["hooks"]["Stop"] == mixed["hooks"]["Stop"]
    assert settings.is_left(left)


def test_hooks_of_an_older_version_are_replaced() -> None:
    settings = AGENTS["claude"].setup_files(())[1]
    fresh = settings.with_ours(None) or ""
    older = fresh
    for kind in ("pre-tool-use", "stop"):
        older = older.replace(hook_command(kind), f"shiftboss hook {kind}")
    assert older != fresh
    assert json.loads(settings.with_ours(older) or "") == json.loads(fresh)
    # A user has put another command beside it: that entry is theirs.
    mixed = json.loads(older)
    mixed["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "say done"})
    renewed = json.loads(settings.with_ours(json.dumps(mixed)) or "")
    assert renewed["hooks"]["Stop"] == mixed["hooks"]["Stop"]


def test_a_file_with_comments_is_refused_until_our_entry_is_there() -> None:
    edit = AGENTS["opencode"].setup_files(["opencode.jsonc"])[0]
    assert edit.name == "opencode.jsonc"
    with pytest.raises(CannotMerge) as refused:
        edit.with_ours('{\n  // which model\n  "model": "x"\n}')
    assert refused.value.line == 2
    assert '{"mcp": {"shiftboss": ' in (refused.value.by_hand or "")
    by_hand = '{\n  // ours\n  "mcp": {"shiftboss": {"type": "remote"}}\n}'
    assert edit.with_ours(by_hand) == by_hand
    assert edit.without_ours(by_hand) == by_hand
