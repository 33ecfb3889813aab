"""The parts of `bench/regress`: statements of psql's scripts, two connections, and what an answer is judged as."""
