-- Whether the operator spawned the task. Only then its receipt accounts for changes of tests that come
-- with the target branch. Tasks of earlier versions count as planned.
ALTER TABLE handoffs ADD COLUMN planned boolean NOT NULL DEFAULT true;
ALTER TABLE receipts ADD COLUMN planned boolean NOT NULL DEFAULT true;

DROP INDEX receipts_of_repo;
CREATE INDEX receipts_of_repo ON receipts (repo_id, accepted_at_ms, commit_sha) WHERE planned;
