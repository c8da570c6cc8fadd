"""Where tasks come from that were not added by hand: the beads tracker and its files."""
