-- A task that brings accepted work in has the lock of that work: which work it is.

ALTER TABLE repo_locks ADD COLUMN merges TEXT;
