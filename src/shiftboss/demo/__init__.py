"""A plan from nothing to landed work, to look at: three repos, four workers, much goes wrong."""
