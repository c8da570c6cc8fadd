"""Which files of a repo a file imports, by language. Pure functions of names and texts."""
