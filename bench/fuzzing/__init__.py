"""The parts of `bench/fuzz`: trees of SQL, random data, random queries, the two engines, and making findings small."""
