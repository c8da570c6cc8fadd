"""Starting processes, and finding, limiting and ending what they leave behind."""
