-- Up to 2.5 million groups, and their totals.
SELECT count(*) AS groups, sum(rows * (1 + g)) AS rows, max(v) AS v
FROM (SELECT grouping(day) AS g, count(*) AS rows, sum(v) AS v FROM events GROUP BY ROLLUP (g1000, day)) AS totals;
