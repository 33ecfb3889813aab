-- Percentiles over all rows.
SELECT percentile_cont(0.001) WITHIN GROUP (ORDER BY x) AS low, percentile_cont(0.999) WITHIN GROUP (ORDER BY x) AS high FROM events;
