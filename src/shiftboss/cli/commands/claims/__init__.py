"""Commands for claims and receipts."""
