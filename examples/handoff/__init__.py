"""An example; see README.md."""
