-- A worker disputes its contract: a question of its own kind, counted for the strategy of the task.

-- What is disputed, as JSON: kind, reason, evidence, commit. NULL for other questions.
ALTER TABLE questions ADD COLUMN dispute text;
ALTER TABLE strategies ADD COLUMN disputes bigint NOT NULL DEFAULT 0 CHECK (disputes >= 0);

ALTER TABLE signals DROP CONSTRAINT signals_kind_check;
ALTER TABLE signals ADD CONSTRAINT signals_kind_check
    CHECK (kind IN ('completion', 'refusal', 'failure', 'dispute'));
ALTER TABLE signals ADD CHECK (kind != 'dispute' OR impact = 'neutral');
