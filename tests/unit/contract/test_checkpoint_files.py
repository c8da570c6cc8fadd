"""Checkpoints as files in the format of the completion contract."""

from __future__ import annotations

from typing import Any

import yaml

from shiftboss.cli.commands.contract.checkpoints import content_of, fields_of, files_of

AT = 1_767_952_800_000  # 2026-01-09T10:00:00Z


def checkpoint(worker: str, task: str, at: int = AT, **members: object) -> dict[str, Any]:
    body = {
        "worker_id": worker,
        "repo_name": "alphavm",
        "component_id": task,
        "current_milestone": "PUSHED_TO_CI",
        "timestamp": at,
        "commits": ["a" * 40],
        "ci_runs": [],
        "files_modified": ["src/a.rs"],
        "context_summary": None,
        "blockers": [],
        "decisions_made": [],
    }
    return {"trigger": "commit_pushed", "at": at, "body": body | members}


def test_a_file_has_the_fields_of_the_contract_in_order() -> None:
    seen = {"id": "451", "status": "running", "jobs_passed": ["check"], "sha": "a" * 40}
    summary = "Writing\nthe \u2028 parser: 100 %"
    (file,) = files_of([checkpoint("w1", "bd-1", ci_runs=[seen], context_summary=summary)])
    assert file.name == "2026-01-09-w1.checkpoint.cspec"
    text = content_of(file)
    assert text.startswith("# Worker checkpoint\n# trigger: commit_pushed\n")
    read = yaml.safe_load(text)
    assert read == {
        "worker_id": "w1",
        "repo_name": "alphavm",
        "component_id": "bd-1",
        "current_milestone": "PUSHED_TO_CI",
        "timestamp": "2026-01-09T10:00:00Z",
        "commits": ["a" * 40],
        "ci_runs": [{"id": "451", "status": "running", "jobs_passed": ["check"]}],
        "files_modified": ["src/a.rs"],
        "context_summary": summary,
    }
    assert list(read)[:5] == [
        "worker_id",
        "repo_name",
        "component_id",
        "current_milestone",
        "timestamp",
    ]


def test_the_newest_checkpoint_of_a_day_has_the_plain_name_and_none_is_lost() -> None:
    day = 86_400_000
    files = files_of(
        [
            checkpoint("w1", "bd-1"),
            checkpoint("w1", "bd:2", AT + 1000),
            checkpoint("w1", "bd-3", AT + day),
            checkpoint("w2", "bd-4"),
        ]
    )
    assert {file.name: file.fields["component_id"] for file in files} == {
        "2026-01-10-w1.checkpoint.cspec": "bd-3",
        "2026-01-09-w1.checkpoint.cspec": "bd:2",
        "2026-01-09-w1-bd-1.checkpoint.cspec": "bd-1",
        "2026-01-09-w2.checkpoint.cspec": "bd-4",
    }


def test_empty_optional_fields_are_omitted_and_required_ones_kept() -> None:
    fields = fields_of(checkpoint("w1", "bd-1", repo_name=None, blockers=["no key"])["body"])
    assert fields["repo_name"] is None
    assert fields["blockers"] == ["no key"]
    assert "decisions_made" not in fields
