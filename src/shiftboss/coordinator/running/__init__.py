"""The server's side of a plan that runs: usage, budgets, pauses, landings."""
