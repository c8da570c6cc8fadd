"""Tasks, packets and swarms: their states, leases, retries, and which reports are allowed."""
