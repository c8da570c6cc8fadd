"""Which tests a file has, and which of them are switched off, language by language."""
