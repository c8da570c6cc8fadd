"""Shared by the providers of forges: access, HTTP client, rate limits, rows and reports."""
