"""What the page and the terminal show: cards, the inbox, workers."""
