"""CI of forges over HTTP: one module per provider."""
