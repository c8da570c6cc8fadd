"""A running plan: budgets, usage records, quota messages, merge tasks."""
