"""How a project is tested, from its own files: one module per kind of project."""
