"""Metrics for Prometheus: what is counted, and how it is shown at /metrics."""
