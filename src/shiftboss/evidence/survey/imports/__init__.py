"""Which files of a repo a file imports: one module per language, without I/O.

A language has `SUFFIXES` and `imported_by`, and is registered in `survey/survey.py`.
"""
