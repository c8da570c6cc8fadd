"""A team on two servers: people with roles, agents, and what happens while they work."""
