-- One median over all rows.
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n) AS n, percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS x FROM events;
