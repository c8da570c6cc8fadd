"""What the commands share: the client, the frame of a command, options, output, tokens."""
