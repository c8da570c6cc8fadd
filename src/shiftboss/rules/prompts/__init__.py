"""The texts that workers and agents read, and how they fit into a token budget."""
