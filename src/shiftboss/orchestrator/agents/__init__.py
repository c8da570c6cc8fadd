"""The agents that can be started, one module each."""
