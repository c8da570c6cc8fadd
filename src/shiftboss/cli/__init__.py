"""The `shiftboss` command: thin commands that ask the server and show the answer."""
