-- One median over all rows.
SELECT median(n) AS n, median(x) AS x FROM events;
