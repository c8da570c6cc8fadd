"""Which tests a source file has, and which of them are disabled: one module per language."""
