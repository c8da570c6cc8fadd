"""Benchmarks: programs, never timed tests. `make bench` runs them all."""
