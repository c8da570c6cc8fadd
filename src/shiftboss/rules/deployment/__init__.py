"""What all servers of a deployment share: keys, the policy, and what they know of each other."""
