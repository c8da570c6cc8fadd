"""The full-screen terminal view: a board, a task, its log, the inbox and the workers, live.

`model` has what is shown, `link` keeps it in step with the server, `screens` draws it with Textual,
which only this package imports: it takes 200 ms to load.
"""
