"""Reads shell commands without running them: which files would they write?"""
