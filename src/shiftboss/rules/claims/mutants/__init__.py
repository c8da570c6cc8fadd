"""Mutants: small changes of the changed lines, which tests of the work should notice."""
