"""What the servers of a deployment share: tokens, keys, the policy, each other."""
