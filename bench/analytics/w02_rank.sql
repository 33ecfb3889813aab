-- Ranks within 1,000 groups, with ties.
SELECT sum(k * (id % 7)) AS checked, sum(d * (id % 7)) AS dense
FROM (SELECT id, rank() OVER (PARTITION BY region ORDER BY day) AS k,
        dense_rank() OVER (PARTITION BY region ORDER BY day) AS d FROM events) AS ranked;
