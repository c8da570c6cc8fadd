"""The use cases, one transaction each; the services that run them, the hub and the duties."""
