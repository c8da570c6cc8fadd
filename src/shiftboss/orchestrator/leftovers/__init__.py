"""What ended runs leave behind: branches, work trees, refs and processes, and their removal."""
