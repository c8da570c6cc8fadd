"""What the page and the terminal show: cards, workers, the inbox, and what has changed."""
