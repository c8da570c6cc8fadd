"""`shiftboss watch` against real servers."""
