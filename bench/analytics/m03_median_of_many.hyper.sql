-- A million medians of few values each.
SELECT sum(m) AS checked, max(m) AS high
FROM (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n) AS m FROM events GROUP BY g1m) AS medians;
