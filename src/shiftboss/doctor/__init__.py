"""The doctor: looks at all that a swarm needs, and says what to do about what is wrong."""
