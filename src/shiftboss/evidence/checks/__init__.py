"""The checks of a claim, one module each; `verifier.py` runs them in order."""
