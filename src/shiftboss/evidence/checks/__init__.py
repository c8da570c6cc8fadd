"""The checks of a claim, one module each, and the verifier that runs them in order."""
