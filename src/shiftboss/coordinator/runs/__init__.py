"""The server side of a running plan: usage, budgets, pauses, parking, landings."""
