-- Which of the servers on this database leads, and until when, by the clock of the database.
--
-- A new leader has a new term. A transaction of a duty locks the row of its term against a change of
-- the key, so the term is the key: renewing the lease does not change it and does not wait.
--
-- `backend_pid` is the process of PostgreSQL that serves the leader: it ends when the leader dies.

CREATE TABLE leadership (
    term bigint PRIMARY KEY CHECK (term >= 0),
    only_row integer NOT NULL DEFAULT 1 CHECK (only_row = 1),
    leader text COLLATE "C" NOT NULL,
    backend_pid integer NOT NULL,
    expires_at_ms bigint NOT NULL
);

CREATE UNIQUE INDEX leadership_only_row ON leadership (only_row);

INSERT INTO leadership (term, leader, backend_pid, expires_at_ms) VALUES (0, '', 0, 0);
