"""A verifier on a machine of its own: takes claims from a server, looks, reports what it found."""
