"""What CI says about a commit: this machine's own jobs, Forgejo and Gitea, GitHub."""
