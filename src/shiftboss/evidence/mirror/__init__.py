"""The verifier's own copies of repositories: mirrors, objects, clean checkouts."""
