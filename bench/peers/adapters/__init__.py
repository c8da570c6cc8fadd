"""One module per system: how a producer enqueues, and how a worker process works.

They run in processes of their own, the peers' in a virtual environment without Shiftboss.
"""
