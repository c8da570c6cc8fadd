"""The local CI runner: named jobs and workflow files on this machine."""
