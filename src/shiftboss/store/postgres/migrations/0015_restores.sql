-- A restored backup does not know the attempts that began after it was made. The epochs of later
-- attempts are above this number, so that none of them is handed out a second time.
CREATE TABLE restores (
    at_ms bigint NOT NULL PRIMARY KEY,
    backup text NOT NULL,
    epoch_floor bigint NOT NULL CHECK (epoch_floor >= 0)
);
