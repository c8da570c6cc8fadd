"""Shared by the commands: the client, the frame of a command, options, output, tokens."""
