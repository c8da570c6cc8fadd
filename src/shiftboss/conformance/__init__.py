"""The conformance kit: runs a worker or a server, in any language, through the five documents.

It talks to what it checks only over the wire, and expects what the documents say, in their words:
it shares neither types nor limits with the server and the worker library.
"""
