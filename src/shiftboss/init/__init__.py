"""`shiftboss init`: what agents need in a repository, merged into what is there."""
