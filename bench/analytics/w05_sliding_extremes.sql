-- Least and greatest of 1,001 rows: they cannot be taken back like sums.
SELECT sum(high - low) AS checked
FROM (SELECT max(v) OVER near AS high, min(n) OVER near AS low FROM events
      WINDOW near AS (PARTITION BY region ORDER BY id ROWS BETWEEN 500 PRECEDING AND 500 FOLLOWING)) AS extremes;
