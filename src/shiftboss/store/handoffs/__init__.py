"""Handoffs, claims, verdicts and receipts in the store."""
