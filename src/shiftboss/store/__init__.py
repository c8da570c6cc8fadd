"""What is remembered: one port, two stores."""
