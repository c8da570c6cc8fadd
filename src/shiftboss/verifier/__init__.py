"""`shiftboss verifier`: verifies claims on another machine, as a client of the server."""
