"""Rows that all servers of a deployment share."""
