-- A restored backup does not know the attempts that began after it was made. The epochs of later
-- attempts are above this number, so that none of them is handed out a second time.
CREATE TABLE restores (
    at_ms INTEGER NOT NULL PRIMARY KEY,
    backup TEXT NOT NULL,
    epoch_floor INTEGER NOT NULL CHECK (epoch_floor >= 0)
) STRICT;
