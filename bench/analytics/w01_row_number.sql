-- Rows numbered within 1,000 groups.
SELECT sum(k * (id % 7)) AS checked
FROM (SELECT id, row_number() OVER (PARTITION BY g1000 ORDER BY v, id) AS k FROM events) AS numbered;
