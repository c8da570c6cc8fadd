"""A swarm of real processes to look at: a worker crashes, the server is killed, nothing is lost."""
