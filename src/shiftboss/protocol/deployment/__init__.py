"""Requests and responses about what the servers of a deployment share."""
