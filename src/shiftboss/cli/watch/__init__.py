"""The full-screen terminal view: a board, a task, its log, the inbox and the workers, live.

Pure parts: `cards`, `summary`, `choices`, and the texts of each view. `lanes`, `feed` and `live`
talk to the server from threads and keep the model in step with it. `app`, `lists`, `documents`
and `dialogs` draw it with Textual, which only this package imports: it takes 200 ms to load.
"""
