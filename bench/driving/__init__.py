"""What clients of PostgreSQL and of Arrow Flight SQL do with a server: a file of tests for each, for `bench/clients`.

A test says what PostgreSQL answers, so that `bench/clients --postgres` passes too."""
