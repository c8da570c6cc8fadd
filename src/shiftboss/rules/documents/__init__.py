"""Reading YAML files that people write: line numbers, types, and helpful errors."""
