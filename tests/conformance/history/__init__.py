"""What has happened: events, claims and replays, on both stores."""
