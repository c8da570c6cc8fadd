"""Programs for those who work on Shiftboss. They use the standard library only."""
