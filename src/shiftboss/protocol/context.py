"""What a worker gets at the start, and what it gives back at the end."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from shiftboss.protocol.fields import NO_NUL, Request
from shiftboss.protocol.milestones import CiRunRef

Text = Annotated[str, StringConstraints(max_length=1_000_000, pattern=NO_NUL)]
FilePath = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=NO_NUL)]
Documents = Annotated[list["ContextDocument"], Field(max_length=1000)]


class ContextDocument(Request):
    path: FilePath
    text: Text


class ContextParts(Request):
    """All that could be handed over. The first five must be there; which others are missing is
    said. `plan` is the text of what `plan_ref` names."""

    objective: Text = ""
    component_id: Text = ""
    repo: Text = ""
    branch_strategy: Text = ""
    plan_ref: Text = ""

    output_format: Text = ""
    task_boundaries: Text = ""
    component_specs: list[FilePath] = Field(default=[], max_length=1000)
    recent_changes: list[Text] = Field(default=[], max_length=100)
    known_issues: list[Text] = Field(default=[], max_length=100)
    parallel_workers: list[Text] = Field(default=[], max_length=1000)

    plan: Text = ""
    code_files: Documents = Field(default=[])
    test_files: Documents = Field(default=[])
    spec_files: Documents = Field(default=[])
    history: Documents = Field(default=[])


class CompletionReturn(Request):
    """What a worker returns at completion; `ci_run_id` is the final, passing run."""

    files_created: list[FilePath] = Field(default=[], max_length=10_000)
    files_modified: list[FilePath] = Field(default=[], max_length=10_000)
    tests_added: list[FilePath] = Field(default=[], max_length=10_000)
    ci_run_id: CiRunRef
    summary: Annotated[str, StringConstraints(min_length=1, max_length=5000, pattern=NO_NUL)]
