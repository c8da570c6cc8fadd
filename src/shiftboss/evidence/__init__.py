"""Facts about git, tests and CI, and the receipts that are made from them.

`port.py` lists the questions, `inspector.py` answers them, and `subprocess/` answers them in a
process of its own, so that the server never forks.
"""
