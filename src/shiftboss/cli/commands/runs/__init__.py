"""Commands for plans: init, plan, run, land, usage, budget."""
