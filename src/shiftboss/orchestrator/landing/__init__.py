"""Merges accepted work into its target branch, and tests the merge before it lands."""
