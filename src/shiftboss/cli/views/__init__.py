"""Tables and lines for people.

Commands import these modules inside their views: rich takes 50 ms to import, which a command with
`--json` does not need. `times` is the exception, it needs only the standard library.
"""
