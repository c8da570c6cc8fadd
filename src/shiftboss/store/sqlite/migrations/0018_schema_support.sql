-- older servers: go on
-- The oldest schema version whose servers can work with this database. A migration that they cannot
-- work with raises it.
CREATE TABLE schema_support (works_since INTEGER NOT NULL) STRICT;

INSERT INTO schema_support (works_since) VALUES (16);
