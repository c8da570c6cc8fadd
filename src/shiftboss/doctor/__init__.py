"""The doctor: checks everything a swarm needs, and says how to fix what is wrong."""
