-- A task that waits for the answer to its question has a hold of its own, so that an answer does not
-- end a pause.

ALTER TABLE holds DROP CONSTRAINT holds_kind_check;
ALTER TABLE holds ADD CONSTRAINT holds_kind_check CHECK (kind IN ('pause', 'budget', 'answer'));

UPDATE holds SET kind = 'answer'
WHERE reason = 'waits for the answer to its question' AND until_ms IS NULL;
