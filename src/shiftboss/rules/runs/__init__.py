"""A running plan: usage, budgets, holds, quota messages of agents, merge tasks."""
