-- Percentiles that are values, of doubles.
SELECT region, channel, percentile_disc(0.25) WITHIN GROUP (ORDER BY x) AS x, percentile_disc(0.75) WITHIN GROUP (ORDER BY n) AS n
FROM events GROUP BY region, channel ORDER BY region, channel;
