"""A Markdown checklist as tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shiftboss.tracker.checklists import files_named, read_checklist

LIST = """\
# Ship the login

Words that belong to nobody.

- [ ] Log people in
  - [ ] **Form** for `login`
    files: src/form.py, tests/form/
    criteria:
      - Tests pass: `pytest tests/form`
      - it looks nice

    Use the old one as a pattern.
  - [x] Database
    files: src/db.py
  - files: `src/login.py` and `src/log in.py`
  1. [ ] Sessions
     - id: sess
     - depends: Database, form-for-login, Logging
     - criteria: `make check`
     - repo: api
- [X] Old
\t- [ ] still open
## Later
* [ ] Form for login
```
- [ ] not a task
```
"""


def test_items_become_tasks_with_their_indented_text() -> None:
    checklist = read_checklist(LIST)
    assert (checklist.goal, checklist.done) == ("Ship the login", 2)
    parent, form, sessions, still_open, again = checklist.tasks
    assert (parent.task_id, parent.title) == ("log-people-in", "Log people in")
    assert parent.files == ["src/login.py", "src/log in.py"]
    assert (form.task_id, form.title) == ("form-for-login", "Form for login")
    assert form.files == ["src/form.py", "tests/form/"]
    assert form.criteria == ["Tests pass: pytest tests/form", "it looks nice"]
    assert form.description == "Use the old one as a pattern."
    assert (sessions.repo, sessions.criteria) == ("api", ["Command passes: make check"])
    assert (still_open.task_id, still_open.depends_on) == ("still-open", [])
    assert again.task_id == "form-for-login-2"


def test_an_item_depends_on_its_subitems_unless_they_are_done() -> None:
    dependencies = {task.task_id: task.depends_on for task in read_checklist(LIST).tasks}
    assert dependencies["log-people-in"] == ["form-for-login", "sess"]
    assert dependencies["sess"] == ["form-for-login", "Logging"]


def test_items_without_letters_still_get_ids() -> None:
    checklist = read_checklist("- [ ] ???\n- [ ] ???\n")
    assert (checklist.goal, [task.task_id for task in checklist.tasks]) == (
        None,
        ["task-1", "task-2"],
    )


def test_files_of_an_issue_are_used_only_if_they_look_like_paths() -> None:
    assert files_named("Do it.\n\nFiles: src/a.py, docs/\n") == ["src/a.py", "docs/"]
    assert files_named("Files:\n  - src/a.py\n") == ["src/a.py"]
    assert files_named("Files: see the wiki") == []


@given(st.text(alphabet="-*[] x\t\n#`:files", max_size=200))
def test_any_text_can_be_read_and_generated_ids_are_unique(text: str) -> None:
    tasks = read_checklist(text).tasks
    assert all(task.title for task in tasks)
    assert len({task.task_id for task in tasks}) == len(tasks)
