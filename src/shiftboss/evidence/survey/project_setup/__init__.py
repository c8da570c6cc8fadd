"""How a project is tested, read from its own files: one module per kind of project.

A kind has a function `criteria`, and is registered in `detect.py`.
"""
