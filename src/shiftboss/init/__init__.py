"""`shiftboss init`: adds to a repository what agents need, and removes it again."""
