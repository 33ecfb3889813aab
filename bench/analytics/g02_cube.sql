-- All eight combinations of three columns.
SELECT region, product, channel, count(*) AS rows, sum(v) AS v, min(n) AS n
FROM events GROUP BY CUBE (region, product, channel) ORDER BY region, product, channel, rows;
