"""How a project is checked, by its own set-up: one module for each kind of project."""
