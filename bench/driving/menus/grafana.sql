-- What Grafana's data source of PostgreSQL asks: its version, menus of the query builder, and macros as they are sent.
SELECT 1;
SELECT current_setting('server_version_num')::int / 100 AS version;
SELECT extversion FROM pg_extension WHERE extname = 'timescaledb';
SELECT CASE WHEN quote_ident(table_schema) IN (
    SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
    FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
        array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
    string_to_array(current_setting('search_path'), ',') s)
    THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
FROM information_schema.tables
WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache',
    '_timescaledb_catalog', '_timescaledb_internal', '_timescaledb_config', 'timescaledb_information',
    'timescaledb_experimental')
ORDER BY CASE WHEN quote_ident(table_schema) IN (
    SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
    FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
        array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
    string_to_array(current_setting('search_path'), ',') s) THEN 0 ELSE 1 END, 1;
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
WHERE CASE WHEN array_length(parse_ident('shop.sale'), 1) = 2
    THEN quote_ident(table_schema) = (parse_ident('shop.sale'))[1]
        AND quote_ident(table_name) = (parse_ident('shop.sale'))[2]
    ELSE quote_ident(table_name) = 'shop.sale' AND quote_ident(table_schema) IN (
        SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
        FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
            array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
        string_to_array(current_setting('search_path'), ',') s) END;
SELECT quote_ident(table_name) FROM information_schema.tables
WHERE table_schema IN (SELECT CASE WHEN trim(unnest) = '"$user"' THEN user ELSE trim(unnest) END
    FROM unnest(string_to_array(current_setting('search_path'), ','))) ORDER BY table_name;
SELECT quote_ident(column_name) FROM information_schema.columns WHERE table_schema = 'shop' AND table_name = 'sale'
    AND data_type IN ('timestamp without time zone', 'timestamp with time zone', 'bigint', 'integer',
    'double precision', 'real') ORDER BY column_name;
SELECT DISTINCT quote_literal(name) FROM shop.customer ORDER BY 1 LIMIT 100;
SELECT floor(extract(epoch FROM sold) / 300) * 300 AS "time", avg(amount) AS amount FROM shop.sale
WHERE sold BETWEEN '2020-01-01T00:00:00Z' AND '2030-01-01T00:00:00.999Z' GROUP BY 1 ORDER BY 1;
SELECT sold AS "time", customer::text AS metric, amount AS value FROM shop.sale
WHERE extract(epoch FROM sold) >= 1577836800 AND extract(epoch FROM sold) <= 1893456000 ORDER BY 1;
SELECT to_timestamp(1577836800) AS "time", date_trunc('hour', sold) AS "hour", (extract(epoch FROM sold) * 1000)::bigint
FROM shop.sale;
SELECT name AS __text, id AS __value FROM shop.customer;
