"""What is counted for metrics: what is open in the database, and what was done with it."""
