"""What is allowed: pure functions and values, without clock, chance or input and output."""
