-- Distinct counts cannot be summed from finer groups.
SELECT region, channel, count(DISTINCT g1000) AS groups, count(DISTINCT day) AS days
FROM events GROUP BY CUBE (region, channel) ORDER BY region, channel, groups, days;
