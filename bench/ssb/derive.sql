-- The tables of the Star Schema Benchmark from those of TPC-H, after O'Neil, O'Neil, Chen and Revilak, "The Star Schema Benchmark and
-- Augmented Fact Table Indexing" (TPCTC 2009) and the benchmark's revision 3 (2009). `bench/compare ssb` puts numbers for {..} and runs it.
-- What differs from the benchmark's own generator: keys of customers, suppliers and parts are folded into the smaller tables (modulo), cities
-- take the last digit of the telephone number and brands one of 40 by a hash of the key, and supply costs are those of partsupp. Shares of
-- rows that predicates select are those of the benchmark.

COPY (
    SELECT c_custkey, c_name, c_address, rpad(substr(n_name, 1, 9), 9, ' ') || substr(c_phone, 15, 1) AS c_city, n_name AS c_nation,
           r_name AS c_region, c_phone, c_mktsegment
    FROM customer JOIN nation ON c_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey
    WHERE c_custkey <= {customers} ORDER BY c_custkey
) TO '{folder}/customer.parquet';

COPY (
    SELECT s_suppkey, s_name, s_address, rpad(substr(n_name, 1, 9), 9, ' ') || substr(s_phone, 15, 1) AS s_city, n_name AS s_nation,
           r_name AS s_region, s_phone
    FROM supplier JOIN nation ON s_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey
    WHERE s_suppkey <= {suppliers} ORDER BY s_suppkey
) TO '{folder}/supplier.parquet';

COPY (
    SELECT p_partkey, split_part(p_name, ' ', 1) || ' ' || split_part(p_name, ' ', 2) AS p_name, 'MFGR#' || substr(p_brand, 7, 1) AS p_mfgr,
           'MFGR#' || substr(p_brand, 7, 2) AS p_category,
           'MFGR#' || substr(p_brand, 7, 2) || CAST(1 + p_partkey * 2654435761 % 4294967296 / 107374183 AS VARCHAR) AS p_brand1,
           split_part(p_name, ' ', 1) AS p_color, p_type, p_size, p_container
    FROM part WHERE p_partkey <= {parts} ORDER BY p_partkey
) TO '{folder}/part.parquet';

COPY (
    SELECT CAST(y * 10000 + m * 100 + d AS INT) AS d_datekey, day AS d_date, CAST(y AS INT) AS d_year, CAST(m AS INT) AS d_monthnuminyear,
           CAST(y * 100 + m AS INT) AS d_yearmonthnum,
           substr('JanFebMarAprMayJunJulAugSepOctNovDec', CAST(3 * m - 2 AS BIGINT), 3) || CAST(CAST(y AS INT) AS VARCHAR) AS d_yearmonth,
           CAST(d AS INT) AS d_daynuminmonth, CAST(n AS INT) AS d_daynuminyear, CAST((n - 1) / 7 + 1 AS INT) AS d_weeknuminyear
    FROM (
        SELECT day, CAST(extract(year FROM day) AS BIGINT) AS y, CAST(extract(month FROM day) AS BIGINT) AS m,
               CAST(extract(day FROM day) AS BIGINT) AS d, CAST(extract(doy FROM day) AS BIGINT) AS n
        FROM (SELECT CAST(CAST(8034 + value AS INT) AS DATE) AS day FROM generate_series(1, 2557)) AS days
    ) AS parts_of_days ORDER BY d_datekey
) TO '{folder}/dates.parquet';

COPY (
    SELECT l_orderkey AS lo_orderkey, l_linenumber AS lo_linenumber, (o_custkey - 1) % {customers} + 1 AS lo_custkey,
           (l_partkey - 1) % {parts} + 1 AS lo_partkey, (l_suppkey - 1) % {suppliers} + 1 AS lo_suppkey,
           CAST(extract(year FROM o_orderdate) * 10000 + extract(month FROM o_orderdate) * 100 + extract(day FROM o_orderdate) AS INT) AS lo_orderdate,
           o_orderpriority AS lo_orderpriority, o_shippriority AS lo_shippriority, CAST(l_quantity AS INT) AS lo_quantity,
           CAST(l_extendedprice * 100 AS INT) AS lo_extendedprice, CAST(o_totalprice * 100 AS INT) AS lo_ordtotalprice,
           CAST(l_discount * 100 AS INT) AS lo_discount,
           CAST(CAST(l_extendedprice * 100 AS BIGINT) * (100 - CAST(l_discount * 100 AS BIGINT)) / 100 AS INT) AS lo_revenue,
           CAST(ps_supplycost * 100 AS INT) AS lo_supplycost, CAST(l_tax * 100 AS INT) AS lo_tax,
           CAST(extract(year FROM l_commitdate) * 10000 + extract(month FROM l_commitdate) * 100 + extract(day FROM l_commitdate) AS INT) AS lo_commitdate,
           l_shipmode AS lo_shipmode
    FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN partsupp ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey
) TO '{folder}/lineorder.parquet';
