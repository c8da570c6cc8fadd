"""Landing: accepted work is merged, tested and moved to the target branch."""
