"""Handoffs and claims: criteria, kept tests, verdicts, receipts and strategies."""
