"""What is said: requests, answers, events and checkpoints, as types that check themselves."""
