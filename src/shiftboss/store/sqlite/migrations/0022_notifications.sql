-- older servers: go on
-- Notifications: what happened that a person may want to hear of, and its way to every channel.
--
-- Written with the event itself, so that no crash loses it. The leader takes it from here.
CREATE TABLE notification_outbox (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    event_id INTEGER NOT NULL,
    PRIMARY KEY (swarm_id, event_id)
) STRICT, WITHOUT ROWID;

-- They outlive their swarm, which may be deleted before they are sent.
CREATE TABLE notifications (
    number INTEGER NOT NULL PRIMARY KEY,
    swarm_id TEXT NOT NULL,
    event_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    content TEXT NOT NULL
) STRICT;

-- `held`: it waited for the end of the quiet time. `message_id` is given with the first attempt, and
-- is the same for all notifications of a digest: a repeat has the same id.
CREATE TABLE notification_deliveries (
    number INTEGER NOT NULL REFERENCES notifications (number) ON DELETE CASCADE,
    channel TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'sent', 'failed', 'dropped')),
    due_at_ms INTEGER NOT NULL,
    held INTEGER NOT NULL CHECK (held IN (0, 1)),
    message_id TEXT,
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    error TEXT,
    ended_at_ms INTEGER,
    PRIMARY KEY (number, channel),
    CHECK ((state = 'pending') = (ended_at_ms IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX notification_deliveries_due ON notification_deliveries (channel, due_at_ms, number)
WHERE state = 'pending';
CREATE INDEX notification_deliveries_by_state ON notification_deliveries (state, number);
