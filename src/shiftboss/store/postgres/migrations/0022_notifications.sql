-- older servers: go on
-- Notifications: what happened that a person may want to hear of, and its way to every channel.
--
-- Written with the event itself, so that no crash loses it. The leader takes it from here.
CREATE TABLE notification_outbox (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    event_id bigint NOT NULL,
    PRIMARY KEY (swarm_id, event_id)
);

-- They outlive their swarm, which may be deleted before they are sent.
CREATE TABLE notifications (
    number bigint NOT NULL PRIMARY KEY,
    swarm_id text COLLATE "C" NOT NULL,
    event_id bigint NOT NULL,
    kind text NOT NULL,
    at_ms bigint NOT NULL,
    content text NOT NULL
);

-- `held`: it waited for the end of the quiet time. `message_id` is given with the first attempt, and
-- is the same for all notifications of a digest: a repeat has the same id.
CREATE TABLE notification_deliveries (
    number bigint NOT NULL REFERENCES notifications (number) ON DELETE CASCADE,
    channel text COLLATE "C" NOT NULL,
    state text NOT NULL CHECK (state IN ('pending', 'sent', 'failed', 'dropped')),
    due_at_ms bigint NOT NULL,
    held boolean NOT NULL,
    message_id text,
    attempts bigint NOT NULL CHECK (attempts >= 0),
    error text,
    ended_at_ms bigint,
    PRIMARY KEY (number, channel),
    CHECK ((state = 'pending') = (ended_at_ms IS NULL))
);

CREATE INDEX notification_deliveries_due ON notification_deliveries (channel, due_at_ms, number)
WHERE state = 'pending';
CREATE INDEX notification_deliveries_by_state ON notification_deliveries (state, number);
