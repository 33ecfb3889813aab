-- A sum that grows with each row of 1,000 groups.
SELECT sum(s % 1000003) AS checked
FROM (SELECT sum(v) OVER (PARTITION BY g1000 ORDER BY id) AS s FROM events) AS summed;
