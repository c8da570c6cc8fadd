"""The data of the page and the terminal view: cards, workers, the inbox, and changes."""
