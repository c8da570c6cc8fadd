"""What is true: git, the commands of a contract, receipts."""
