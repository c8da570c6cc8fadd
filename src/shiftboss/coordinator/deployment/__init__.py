"""The shared state of a deployment's servers: tokens, keys, the policy, each other."""
