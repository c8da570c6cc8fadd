"""The forges, one module per provider; each is registered in `ci/provider.py`."""
