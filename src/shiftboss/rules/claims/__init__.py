"""Claims: criteria, kept tests, held-out tests, verdicts, waivers and receipts."""
