"""What a claim of done is answered with: verdicts, receipts, signed statements, diffs."""
