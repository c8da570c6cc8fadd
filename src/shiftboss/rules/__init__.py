"""Pure decisions: no I/O, no clock, no random numbers.

One package per chapter. Whatever needs a file, a process or the database belongs in a layer above.
"""
