-- A Nearside database: read it with IMPORT DATABASE.
CREATE TABLE "public"."names" ("name" VARCHAR);
COPY "public"."names" FROM 'public.names.parquet';
CREATE TABLE "public"."signed" ("a" INTEGER, "who" VARCHAR DEFAULT current_user, "version" VARCHAR DEFAULT current_setting('server_version'), "owner" VARCHAR DEFAULT session_user);
COPY "public"."signed" FROM 'public.signed.parquet';
CREATE TABLE "public"."typed" ("a" INTEGER, "b" VARCHAR(3), "c" CHAR(2), "d" DECIMAL(10, 2), "e" VARCHAR[]);
COPY "public"."typed" FROM 'public.typed.parquet';
CREATE VIEW "public"."who" AS SELECT current_user AS name, "current_schema"() AS schema;
