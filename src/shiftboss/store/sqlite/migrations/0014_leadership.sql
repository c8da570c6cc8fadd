-- Which of the servers on this database leads. A SQLite file has one server, which always leads: the
-- table is here because both dialects have the same tables.

CREATE TABLE leadership (
    term INTEGER NOT NULL PRIMARY KEY CHECK (term >= 0),
    only_row INTEGER NOT NULL DEFAULT 1 CHECK (only_row = 1),
    leader TEXT NOT NULL,
    backend_pid INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX leadership_only_row ON leadership (only_row);

INSERT INTO leadership (term, leader, backend_pid, expires_at_ms) VALUES (0, '', 0, 0);
