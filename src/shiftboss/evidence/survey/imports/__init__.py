"""Which files of a repo a file imports: one module per language, pure functions."""
