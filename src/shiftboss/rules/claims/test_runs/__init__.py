"""Test runs: which runner a command starts, and which tests it reports."""
