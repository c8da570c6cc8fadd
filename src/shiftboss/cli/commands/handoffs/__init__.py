"""Commands for handoffs: spawn, scope, waivers, strategies."""
