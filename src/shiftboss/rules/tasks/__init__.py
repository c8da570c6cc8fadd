"""Tasks, packets and swarms: states, leases, retries, and what a worker may do next."""
