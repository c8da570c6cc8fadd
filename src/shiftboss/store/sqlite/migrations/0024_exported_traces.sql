-- older servers: go on
-- How far the spans of each swarm were exported: the leader goes on from there. Without a row for a
-- swarm, none of its spans were.
CREATE TABLE exported_traces (
    swarm_id TEXT NOT NULL PRIMARY KEY REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    event_id INTEGER NOT NULL CHECK (event_id >= 0)
) STRICT, WITHOUT ROWID;

-- When traces were turned on: what happened before is not exported.
CREATE TABLE traces_begun (
    number INTEGER NOT NULL PRIMARY KEY CHECK (number = 1),
    at_ms INTEGER NOT NULL
) STRICT;
