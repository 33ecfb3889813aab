-- What the menus show: a schema with something of each kind.
DROP SCHEMA IF EXISTS shop CASCADE;
CREATE SCHEMA shop;
CREATE TYPE shop.mood AS ENUM ('sad', 'happy');
CREATE DOMAIN shop.short AS varchar(5) CHECK (VALUE <> '');
CREATE TABLE shop.customer (
    id serial PRIMARY KEY, name varchar(40) NOT NULL, mail text UNIQUE, credit numeric(10, 2) DEFAULT 0, mood shop.mood,
    nick shop.short, tags text[], about jsonb, CONSTRAINT good_credit CHECK (credit >= 0));
CREATE TABLE shop.sale (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer int NOT NULL CONSTRAINT sale_by REFERENCES shop.customer (id) ON DELETE CASCADE,
    sold timestamptz DEFAULT now(), amount double precision);
CREATE INDEX sale_sold ON shop.sale (sold);
CREATE VIEW shop.buyers AS SELECT name FROM shop.customer;
CREATE MATERIALIZED VIEW shop.totals AS SELECT customer, sum(amount) AS amount FROM shop.sale GROUP BY customer;
CREATE FUNCTION shop.doubled(n int) RETURNS int LANGUAGE sql AS 'SELECT n * 2';
COMMENT ON TABLE shop.customer IS 'who buys';
COMMENT ON COLUMN shop.customer.name IS 'as on the letter';
INSERT INTO shop.customer (name, mail, mood) VALUES ('Ann', 'ann@example.org', 'happy'), ('Bob', NULL, NULL);
INSERT INTO shop.sale (customer, sold, amount) VALUES (1, '2026-01-02 03:04:05+00', 1.5), (1, '2026-02-03Z', 2.5);
