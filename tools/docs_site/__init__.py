"""The documentation as a site: pages from the code, pages from outside of docs/, diagrams."""
