"""Tasks from outside: the beads tracker, its files, and checklists in Markdown."""
