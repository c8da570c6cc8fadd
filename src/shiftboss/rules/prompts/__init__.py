"""The prompts and handoff texts that workers and agents read, and their token budgets."""
