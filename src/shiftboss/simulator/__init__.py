"""The simulator: the real servers and workers under a virtual clock, with a seeded chance that
crashes, delays, duplicates and lies. See docs/explanation/simulator.md."""
