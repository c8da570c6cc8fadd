"""Coding agents: everything Shiftboss knows about a brand is in the brand's own package here.

`agent.py` is the port, `registry.py` lists the brands. A brand's `__init__` declares its `AGENT`; a
hook loads it, so it imports nothing heavy at the top.
"""
