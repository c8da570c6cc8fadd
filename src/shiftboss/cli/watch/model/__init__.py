"""What is shown: pure values, how each is drawn as cells, and what a key sends."""
