"""What the commands share: client, options, output, tokens."""
