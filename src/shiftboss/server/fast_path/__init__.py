"""The fast path: shortcuts for frequent calls. `serving.py` is its only entry.

Through ASGI, a request costs the event loop twice what it costs to answer a call. Connections of
the fast path answer ordinary calls themselves; all threads of the server keep to one core. Without
this package the server gives the same replies, more slowly: set `ServerSettings.fast_path`, or
SHIFTBOSS_FAST_PATH=0.
"""
