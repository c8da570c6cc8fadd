"""The operations page, followed step by step."""
