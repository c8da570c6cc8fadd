"""What the providers of forges share: access, HTTP client, rate limits, rows and reports."""
