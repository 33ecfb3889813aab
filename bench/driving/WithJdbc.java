// PostgreSQL's JDBC driver: values, statements, transactions, COPY, and what tools ask DatabaseMetaData.
//
// Run as one file, `java -cp postgresql.jar WithJdbc.java`, with PGHOST, PGPORT, PGUSER and PGDATABASE.

import java.io.StringReader;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Array;
import java.sql.BatchUpdateException;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.Properties;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.PGStatement;
import org.postgresql.copy.CopyManager;
import org.postgresql.util.PGInterval;
import org.postgresql.util.PGobject;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

public class WithJdbc {
    // So often is each statement of values run: from the fifth time on the driver asks for binary rows.
    static final int OFTEN = 8;

    Connection connection;

    public static void main(String[] arguments) throws Exception {
        Method[] tests = WithJdbc.class.getDeclaredMethods();
        Arrays.sort(tests, Comparator.comparing(Method::getName));
        int run = 0;
        int failed = 0;
        for (Method test : tests) {
            if (!test.getName().startsWith("test") || (arguments.length > 0 && !test.getName().matches(arguments[0]))) {
                continue;
            }
            run += 1;
            try (Connection own = connect()) {
                WithJdbc one = new WithJdbc();
                one.connection = own;
                test.invoke(one);
            } catch (InvocationTargetException wrong) {
                failed += 1;
                System.out.println("FAILED " + test.getName());
                wrong.getCause().printStackTrace(System.out);
            }
        }
        System.out.println("Ran " + run + " tests, " + failed + " failed");
        System.exit(failed > 0 || run == 0 ? 1 : 0);
    }

    static Connection connect(String... settings) throws SQLException {
        Properties said = new Properties();
        said.setProperty("user", System.getenv("PGUSER"));
        for (int number = 0; number < settings.length; number += 2) {
            said.setProperty(settings[number], settings[number + 1]);
        }
        // PostgreSQL may be told by the folder of its socket, which Java does not open.
        String host = System.getenv("PGHOST").startsWith("/") ? "127.0.0.1" : System.getenv("PGHOST");
        return DriverManager.getConnection(
            "jdbc:postgresql://" + host + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"), said);
    }

    // --- what tests say ---------------------------------------------------------------------------------------------

    static void equal(Object got, Object wanted) {
        if (!Objects.deepEquals(got, wanted)) {
            throw new AssertionError("got " + shown(got) + ", wanted " + shown(wanted));
        }
    }

    static String shown(Object value) {
        return value instanceof Object[] ? Arrays.deepToString((Object[]) value) : String.valueOf(value);
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    interface Act {
        void run() throws Exception;
    }

    static SQLException fails(String state, Act act) throws Exception {
        try {
            act.run();
        } catch (SQLException wrong) {
            if (!state.equals(wrong.getSQLState())) {
                throw wrong;
            }
            return wrong;
        }
        throw new AssertionError("nothing fails with " + state);
    }

    void run(String... statements) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String sql : statements) {
                statement.execute(sql);
            }
        }
    }

    Object one(String sql, Object... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int number = 0; number < parameters.length; number += 1) {
                statement.setObject(number + 1, parameters[number]);
            }
            ResultSet rows = statement.executeQuery();
            check(rows.next(), "no row");
            return rows.getObject(1);
        }
    }

    // The named columns of all rows, a text each.
    static List<String> texts(ResultSet rows, String... columns) throws SQLException {
        List<String> all = new ArrayList<>();
        while (rows.next()) {
            List<String> row = new ArrayList<>();
            for (String column : columns) {
                row.add(rows.getString(column));
            }
            all.add(String.join(" ", row.toString().replaceAll("[\\[\\],]", "").split(" ")));
        }
        rows.close();
        return all;
    }

    void shop() throws SQLException {
        run("DROP SCHEMA IF EXISTS shop CASCADE", "CREATE SCHEMA shop", "SET search_path = shop, public",
            "CREATE TABLE customer (id serial PRIMARY KEY, name varchar(40) NOT NULL, mail text UNIQUE, "
                + "credit numeric(10, 2) DEFAULT 0)",
            "CREATE TABLE article (code char(8), edition int, title text, PRIMARY KEY (code, edition))",
            "CREATE TABLE sale (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
                + "customer int NOT NULL CONSTRAINT sale_by REFERENCES customer (id) ON DELETE CASCADE, "
                + "code char(8), edition int, at timestamptz DEFAULT now(), "
                + "CONSTRAINT sale_of FOREIGN KEY (code, edition) REFERENCES article (code, edition))",
            "CREATE INDEX sale_at ON sale (at)",
            "CREATE VIEW buyers AS SELECT name FROM customer",
            "COMMENT ON TABLE customer IS 'who buys'",
            "COMMENT ON COLUMN customer.name IS 'as on the letter'",
            "CREATE FUNCTION doubled(n int) RETURNS int LANGUAGE sql AS 'SELECT n * 2'");
    }

    // --- metadata ---------------------------------------------------------------------------------------------------

    public void testMetadataOfTables() throws Exception {
        shop();
        DatabaseMetaData about = connection.getMetaData();
        equal(texts(about.getTables(null, "shop", "%", new String[] {"TABLE"}), "TABLE_NAME", "TABLE_TYPE", "REMARKS"),
            List.of("article TABLE null", "customer TABLE who buys", "sale TABLE null"));
        equal(texts(about.getTables(null, "shop", "%", new String[] {"VIEW"}), "TABLE_NAME"), List.of("buyers"));
        equal(texts(about.getTables(null, "shop", "c%", null), "TABLE_NAME", "TABLE_TYPE"),
            List.of("customer_id_seq SEQUENCE", "customer_mail_key INDEX", "customer_pkey INDEX", "customer TABLE")
                .stream().sorted(Comparator.comparing((String row) -> row.split(" ")[1])
                    .thenComparing(row -> row.split(" ")[0])).toList());
        check(texts(about.getTables(null, "pg_catalog", "pg_cl%", new String[] {"SYSTEM TABLE"}), "TABLE_NAME")
            .contains("pg_class"), "pg_class is a system table");
        run("CREATE TEMP TABLE passing (n int)");
        equal(texts(about.getTables(null, null, "passing", new String[] {"TEMPORARY TABLE"}), "TABLE_NAME"),
            List.of("passing"));
        check(texts(about.getTableTypes(), "TABLE_TYPE").contains("MATERIALIZED VIEW"), "there are materialized views");
        check(texts(about.getSchemas(), "TABLE_SCHEM").containsAll(List.of("information_schema", "pg_catalog", "public",
            "shop")), "schemas");
        equal(texts(about.getSchemas(null, "sh%"), "TABLE_SCHEM"), List.of("shop"));
        check(texts(about.getCatalogs(), "TABLE_CAT").contains("nearside"), "catalogs");
    }

    public void testMetadataOfColumns() throws Exception {
        shop();
        DatabaseMetaData about = connection.getMetaData();
        equal(texts(about.getColumns(null, "shop", "customer", "%"), "COLUMN_NAME", "TYPE_NAME", "COLUMN_SIZE",
                "DECIMAL_DIGITS", "NULLABLE", "IS_AUTOINCREMENT", "ORDINAL_POSITION", "COLUMN_DEF", "REMARKS"),
            List.of("id serial 10 0 0 YES 1 nextval('customer_id_seq'::regclass) null",
                "name varchar 40 0 0 NO 2 null as on the letter", "mail text 2147483647 0 1 NO 3 null null",
                "credit numeric 10 2 1 NO 4 0 null"));
        equal(texts(about.getColumns(null, "shop", "sale", "%"), "COLUMN_NAME", "DATA_TYPE", "IS_NULLABLE",
                "IS_AUTOINCREMENT"),
            List.of("id -5 NO YES", "customer 4 NO NO", "code 1 YES NO", "edition 4 YES NO", "at 93 YES NO"));
        equal(texts(about.getColumns(null, "pg_catalog", "pg_namespace", "nsp%"), "COLUMN_NAME"),
            List.of("nspname", "nspowner", "nspacl"));
        equal(texts(about.getBestRowIdentifier(null, "shop", "sale", DatabaseMetaData.bestRowSession, false),
            "COLUMN_NAME", "TYPE_NAME"), List.of("id int8"));
        texts(about.getVersionColumns(null, "shop", "sale"), "COLUMN_NAME");
        texts(about.getColumnPrivileges(null, "shop", "customer", "name"), "GRANTEE");
        check(texts(about.getTablePrivileges(null, "shop", "customer"), "GRANTEE", "PRIVILEGE")
            .contains("nearside SELECT"), "privileges of tables");
    }

    public void testMetadataOfKeys() throws Exception {
        shop();
        DatabaseMetaData about = connection.getMetaData();
        equal(texts(about.getPrimaryKeys(null, "shop", "article"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"),
            List.of("code 1 article_pkey", "edition 2 article_pkey"));
        String[] columns = {"PKTABLE_NAME", "PKCOLUMN_NAME", "FKTABLE_NAME", "FKCOLUMN_NAME", "KEY_SEQ", "UPDATE_RULE",
            "DELETE_RULE", "FK_NAME", "PK_NAME", "DEFERRABILITY"};
        List<String> of = List.of("article code sale code 1 3 3 sale_of article_pkey 7",
            "article edition sale edition 2 3 3 sale_of article_pkey 7");
        List<String> by = List.of("customer id sale customer 1 3 0 sale_by customer_pkey 7");
        List<String> both = new ArrayList<>(of);
        both.addAll(by);
        equal(texts(about.getImportedKeys(null, "shop", "sale"), columns), both);
        equal(texts(about.getExportedKeys(null, "shop", "customer"), columns), by);
        equal(texts(about.getCrossReference(null, "shop", "article", null, "shop", "sale"), columns), of);
        equal(texts(about.getIndexInfo(null, "shop", "sale", false, true), "NON_UNIQUE", "INDEX_NAME", "COLUMN_NAME",
            "ASC_OR_DESC"), List.of("f sale_pkey id A", "t sale_at at A"));
        equal(texts(about.getIndexInfo(null, "shop", "article", true, true), "INDEX_NAME", "ORDINAL_POSITION",
            "COLUMN_NAME"), List.of("article_pkey 1 code", "article_pkey 2 edition"));
    }

    public void testMetadataOfTypesAndFunctions() throws Exception {
        shop();
        DatabaseMetaData about = connection.getMetaData();
        List<String> types = texts(about.getTypeInfo(), "TYPE_NAME");
        check(types.containsAll(List.of("bool", "int2", "int4", "int8", "float8", "numeric", "text", "varchar", "date",
            "timestamp", "timestamptz", "bytea", "uuid", "jsonb", "interval")), "types: " + types);
        equal(texts(about.getFunctions(null, "shop", "%"), "FUNCTION_NAME", "SPECIFIC_NAME").size(), 1);
        equal(texts(about.getFunctionColumns(null, "shop", "doubled", "%"), "COLUMN_NAME", "TYPE_NAME"),
            List.of("returnValue int4", "n int4"));
        equal(texts(about.getProcedures(null, "shop", "%"), "PROCEDURE_NAME"), List.of());
        equal(texts(about.getProcedureColumns(null, "shop", "doubled", "%"), "COLUMN_NAME").size(), 2);
        check(texts(about.getFunctions(null, "pg_catalog", "lower"), "FUNCTION_NAME").contains("lower"), "lower");
        run("CREATE TYPE shop.mood AS ENUM ('sad', 'happy')", "CREATE DOMAIN shop.short AS varchar(5)");
        equal(texts(about.getUDTs(null, "shop", "%", new int[] {Types.DISTINCT}), "TYPE_NAME", "BASE_TYPE"),
            List.of("short 12"));
        texts(about.getUDTs(null, "shop", "%", null), "TYPE_NAME");
        check(about.getSQLKeywords().contains("ilike"), "keywords");
        check(about.getClientInfoProperties().next(), "client info");
    }

    public void testMetadataOfTheServer() throws Exception {
        DatabaseMetaData about = connection.getMetaData();
        equal(about.getDatabaseProductName(), "PostgreSQL");
        check(about.getDatabaseMajorVersion() >= 15, "version");
        equal(about.getUserName(), "nearside");
        equal(about.getMaxColumnNameLength(), 63);
        equal(about.getMaxColumnsInIndex(), 32);
        equal(about.getDefaultTransactionIsolation(), Connection.TRANSACTION_READ_COMMITTED);
        equal(about.supportsSchemasInTableDefinitions(), true);
        equal(connection.getCatalog(), "nearside");
    }

    // --- values -----------------------------------------------------------------------------------------------------

    public void testValuesAsTextAndBinary() throws Exception {
        Object[][] values = {
            {"boolean", true}, {"smallint", -7}, {"integer", 2147483647}, {"bigint", -9223372036854775808L},
            {"real", 1.5f}, {"double precision", -1e300}, {"numeric(23,3)", new BigDecimal("12345678901234567890.123")},
            {"numeric(10,2)", new BigDecimal("-1.50")}, {"text", "a'b\\c\u00e9\ud83d\ude00"}, {"varchar(10)", "ab"},
            {"char(3)", "ab "}, {"bytea", new byte[] {0, -1, 39, 92}}, {"uuid", UUID.fromString(
                "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")},
        };
        for (Object[] pair : values) {
            try (PreparedStatement statement = connection.prepareStatement("SELECT ?::" + pair[0] + ", NULL::"
                + pair[0])) {
                for (int time = 0; time < OFTEN; time += 1) {
                    statement.setObject(1, pair[1]);
                    ResultSet rows = statement.executeQuery();
                    check(rows.next(), "no row");
                    equal(rows.getObject(1), pair[1]);
                    equal(rows.getObject(2), null);
                }
                check(statement.unwrap(PGStatement.class).isUseServerPrepare(), "is prepared by the server");
            }
        }
    }

    public void testTimes() throws Exception {
        run("SET TIME ZONE 'Europe/Berlin'");
        Object[][] values = {
            {"date", LocalDate.of(2024, 2, 29)}, {"time", LocalTime.of(23, 59, 59, 999999000)},
            {"timestamp", LocalDateTime.of(1999, 12, 31, 23, 59, 59, 1000)},
            {"timestamptz", OffsetDateTime.of(2024, 6, 1, 12, 0, 0, 0, ZoneOffset.UTC)},
            {"date", LocalDate.of(-44, 3, 15)},
        };
        for (Object[] pair : values) {
            try (PreparedStatement statement = connection.prepareStatement("SELECT ?::" + pair[0])) {
                for (int time = 0; time < OFTEN; time += 1) {
                    statement.setObject(1, pair[1]);
                    ResultSet rows = statement.executeQuery();
                    check(rows.next(), "no row");
                    equal(rows.getObject(1, pair[1].getClass()), pair[1]);
                }
            }
        }
        equal(one("SELECT ?::timestamp", Timestamp.valueOf("2024-02-29 01:02:03.5")),
            Timestamp.valueOf("2024-02-29 01:02:03.5"));
        equal(one("SELECT ?::date", Date.valueOf("2024-02-29")), Date.valueOf("2024-02-29"));
        equal(one("SELECT ?", new PGInterval("1 year 2 days 3.5 seconds")), new PGInterval("1 year 2 days 3.5 secs"));
        try (PreparedStatement statement = connection.prepareStatement("SELECT timetz '12:00:00+02'")) {
            ResultSet rows = statement.executeQuery();
            check(rows.next(), "no row");
            equal(rows.getString(1), "12:00:00+02");
        } catch (PSQLException refused) {
            equal(refused.getSQLState(), "0A000");
        }
    }

    public void testArraysJsonAndEnums() throws Exception {
        run("DROP TYPE IF EXISTS mood CASCADE", "CREATE TYPE mood AS ENUM ('sad', 'happy')",
            "DROP TABLE IF EXISTS kept", "CREATE TABLE kept (l int[], t text[], n numeric(10, 2)[], j jsonb, "
                + "m mood, u uuid[])");
        PGobject json = new PGobject();
        json.setType("jsonb");
        json.setValue("{\"a\": [1, null]}");
        PGobject mood = new PGobject();
        mood.setType("mood");
        mood.setValue("happy");
        UUID id = UUID.randomUUID();
        try (PreparedStatement put = connection.prepareStatement("INSERT INTO kept VALUES (?, ?, ?, ?, ?, ?)")) {
            for (int time = 0; time < OFTEN; time += 1) {
                put.setArray(1, connection.createArrayOf("int4", new Integer[] {1, null, time}));
                put.setArray(2, connection.createArrayOf("text", new String[] {"a b", "", null, "\"{}"}));
                put.setArray(3, connection.createArrayOf("numeric", new BigDecimal[] {new BigDecimal("1.50")}));
                put.setObject(4, json);
                put.setObject(5, mood);
                put.setArray(6, connection.createArrayOf("uuid", new UUID[] {id}));
                equal(put.executeUpdate(), 1);
            }
        }
        try (PreparedStatement get = connection.prepareStatement("SELECT * FROM kept WHERE l[3] = ?")) {
            for (int time = 0; time < OFTEN; time += 1) {
                get.setInt(1, time);
                ResultSet rows = get.executeQuery();
                check(rows.next(), "no row");
                equal(rows.getArray(1).getArray(), new Integer[] {1, null, time});
                equal(rows.getArray(2).getArray(), new String[] {"a b", "", null, "\"{}"});
                equal(rows.getArray(3).getArray(), new BigDecimal[] {new BigDecimal("1.50")});
                equal(rows.getObject(4).toString(), "{\"a\": [1, null]}");
                equal(rows.getString(5), "happy");
                equal(rows.getArray(6).getArray(), new UUID[] {id});
                equal(rows.getMetaData().getColumnTypeName(5), "mood");
            }
        }
        equal(one("SELECT count(*) FROM kept WHERE m = ?::mood AND ? = ANY(t)", "happy", "a b"), (long) OFTEN);
        try (PreparedStatement any = connection.prepareStatement("SELECT ARRAY[[1, 2], [3, 4]], 3 = ANY(?)")) {
            any.setArray(1, connection.createArrayOf("int4", new Integer[] {1, 3}));
            ResultSet rows = any.executeQuery();
            check(rows.next(), "no row");
            equal(rows.getArray(1).getArray(), new Integer[][] {{1, 2}, {3, 4}});
            equal(rows.getBoolean(2), true);
            Array array = rows.getArray(1);
            equal(array.getBaseTypeName(), "int4");
            ResultSet parts = array.getResultSet();
            check(parts.next(), "no row of the array");
        }
    }

    // --- statements -------------------------------------------------------------------------------------------------

    public void testStatementsTellTheirTypes() throws Exception {
        run("DROP TABLE IF EXISTS told", "CREATE TABLE told (n int PRIMARY KEY, s varchar(5), d numeric(10, 2))");
        try (PreparedStatement statement = connection.prepareStatement(
            "SELECT s AS t, d, n + 1 AS m FROM told WHERE n = ? AND s = ?")) {
            ParameterMetaData taken = statement.getParameterMetaData();
            equal(taken.getParameterCount(), 2);
            equal(taken.getParameterTypeName(1), "int4");
            ResultSetMetaData given = statement.getMetaData();
            equal(given.getColumnLabel(1), "t");
            equal(given.getColumnTypeName(1), "varchar");
            equal(given.getPrecision(1), 5);
            equal(given.getScale(2), 2);
            equal(given.isNullable(3), ResultSetMetaData.columnNullableUnknown);
            equal(given.isAutoIncrement(1), false);
        }
    }

    public void testBatchesAndGeneratedKeys() throws Exception {
        run("DROP TABLE IF EXISTS made", "CREATE TABLE made (id serial PRIMARY KEY, s text UNIQUE)");
        connection.setAutoCommit(false);
        try (PreparedStatement put = connection.prepareStatement("INSERT INTO made (s) VALUES (?)",
            Statement.RETURN_GENERATED_KEYS)) {
            for (int number = 0; number < 500; number += 1) {
                put.setString(1, "s" + number);
                put.addBatch();
            }
            equal(Arrays.stream(put.executeBatch()).sum(), 500);
            equal(texts(put.getGeneratedKeys(), "id").size(), 500);
        }
        connection.commit();
        try (PreparedStatement put = connection.prepareStatement("INSERT INTO made (s) VALUES (?)",
            new String[] {"id", "s"})) {
            put.setString(1, "last");
            equal(put.executeUpdate(), 1);
            equal(texts(put.getGeneratedKeys(), "id", "s"), List.of("501 last"));
        }
        try (PreparedStatement put = connection.prepareStatement("INSERT INTO made (s) VALUES (?)")) {
            for (String text : List.of("new", "s1", "other")) {
                put.setString(1, text);
                put.addBatch();
            }
            try {
                put.executeBatch();
                throw new AssertionError("a batch with a key twice is run");
            } catch (BatchUpdateException failed) {
                equal(failed.getSQLState(), "23505");
            }
        }
        connection.rollback();
        connection.setAutoCommit(true);
        equal(one("SELECT count(*) FROM made"), 500L);
        try (Connection other = connect("reWriteBatchedInserts", "true");
            PreparedStatement put = other.prepareStatement("INSERT INTO made (s) VALUES (?)")) {
            for (int number = 0; number < 300; number += 1) {
                put.setString(1, "t" + number);
                put.addBatch();
            }
            put.executeBatch();
        }
        equal(one("SELECT count(*) FROM made"), 800L);
        try (Statement several = connection.createStatement()) {
            several.addBatch("DELETE FROM made WHERE s LIKE 't%'");
            several.addBatch("UPDATE made SET s = s || '!' WHERE id < 3");
            equal(several.executeBatch(), new int[] {300, 2});
            several.execute("SELECT 1; UPDATE made SET s = 'x' WHERE id = 1; SELECT 2");
            equal(texts(several.getResultSet(), "?column?"), List.of("1"));
            equal(several.getMoreResults(), false);
            equal(several.getUpdateCount(), 1);
            equal(several.getMoreResults(), true);
        }
    }

    public void testRowsAFewAtATime() throws Exception {
        connection.setAutoCommit(false);
        try (PreparedStatement get = connection.prepareStatement("SELECT generate_series(1, ?) AS n")) {
            get.setFetchSize(50);
            get.setInt(1, 1005);
            ResultSet rows = get.executeQuery();
            int sum = 0;
            while (rows.next()) {
                sum += rows.getInt("n");
            }
            equal(sum, 1005 * 1006 / 2);
            get.setMaxRows(7);
            equal(texts(get.executeQuery(), "n").size(), 7);
        }
        try (Statement scroll = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE,
            ResultSet.CONCUR_READ_ONLY)) {
            ResultSet rows = scroll.executeQuery("SELECT generate_series(1, 10) AS n");
            check(rows.last(), "no last row");
            equal(rows.getInt(1), 10);
            check(rows.absolute(3) && rows.previous(), "no second row");
            equal(rows.getInt(1), 2);
        }
        connection.rollback();
    }

    public void testFunctionsAreCalled() throws Exception {
        shop();
        try (CallableStatement call = connection.prepareCall("{? = call shop.doubled(?)}")) {
            call.registerOutParameter(1, Types.INTEGER);
            call.setInt(2, 21);
            call.execute();
            equal(call.getInt(1), 42);
        }
        equal(one("SELECT {fn concat('a', {fn ucase('b')})} || {fn length(?)}", "abc"), "aB3");
        equal(one("SELECT {d '2024-02-29'} + 1 = {d '2024-03-01'}"), true);
        equal(one("SELECT {fn timestampadd(SQL_TSI_DAY, 2, {ts '2024-02-28 01:02:03'})}").toString(),
            "2024-03-01 01:02:03.0");
    }

    public void testTransactions() throws Exception {
        run("DROP TABLE IF EXISTS tried", "CREATE TABLE tried (n int PRIMARY KEY)");
        connection.setAutoCommit(false);
        run("INSERT INTO tried VALUES (1)");
        Savepoint before = connection.setSavepoint("before");
        SQLException twice = fails("23505", () -> run("INSERT INTO tried VALUES (1)"));
        ServerErrorMessage said = ((PSQLException) twice).getServerErrorMessage();
        equal(said.getConstraint(), "tried_pkey");
        equal(said.getTable(), "tried");
        equal(said.getSchema(), "public");
        fails("25P02", () -> run("SELECT 1"));
        connection.rollback(before);
        Savepoint unnamed = connection.setSavepoint();
        run("INSERT INTO tried VALUES (2)");
        connection.releaseSavepoint(unnamed);
        connection.commit();
        connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
        equal(connection.getTransactionIsolation(), Connection.TRANSACTION_REPEATABLE_READ);
        equal(one("SELECT count(*) FROM tried"), 2L);
        connection.commit();
        connection.setReadOnly(true);
        fails("25006", () -> run("INSERT INTO tried VALUES (3)"));
        connection.rollback();
        connection.setReadOnly(false);
        connection.setAutoCommit(true);
        try (Connection saving = connect("autosave", "always")) {
            saving.setAutoCommit(false);
            Statement statement = saving.createStatement();
            statement.execute("INSERT INTO tried VALUES (3)");
            fails("23505", () -> statement.execute("INSERT INTO tried VALUES (3)"));
            saving.commit();
        }
        equal(one("SELECT count(*) FROM tried"), 3L);
    }

    public void testCancelsAndTimeLimits() throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            fails("57014", () -> statement.execute("SELECT pg_sleep(30)"));
            statement.setQueryTimeout(0);
            Thread later = new Thread(() -> {
                try {
                    Thread.sleep(300);
                    statement.cancel();
                } catch (Exception lost) {
                    lost.printStackTrace(System.out);
                }
            });
            later.start();
            fails("57014", () -> statement.execute("SELECT pg_sleep(30)"));
            later.join();
        }
        check(connection.isValid(2), "is valid");
    }

    public void testSettings() throws Exception {
        equal(connection.getSchema(), "public");
        run("CREATE SCHEMA IF NOT EXISTS other");
        connection.setSchema("other");
        equal(connection.getSchema(), "other");
        connection.setClientInfo("ApplicationName", "tests");
        equal(connection.getClientInfo("ApplicationName"), "tests");
        equal(one("SHOW application_name"), "tests");
        connection.setNetworkTimeout(Runnable::run, 20000);
        connection.setHoldability(ResultSet.HOLD_CURSORS_OVER_COMMIT);
        equal(connection.nativeSQL("SELECT {d '2024-02-29'}"), "SELECT DATE '2024-02-29'");
        try (Connection other = connect("currentSchema", "other", "options", "-c statement_timeout=5s",
            "binaryTransfer", "false", "preferQueryMode", "simple", "readOnly", "true", "assumeMinServerVersion", "15",
            "ApplicationName", "another")) {
            equal(other.getSchema(), "other");
            ResultSet rows = other.createStatement().executeQuery("SELECT current_setting('statement_timeout')");
            check(rows.next(), "no row");
            equal(rows.getString(1), "5s");
            PreparedStatement simple = other.prepareStatement("SELECT ? + 1");
            simple.setInt(1, 2);
            check(simple.executeQuery().next(), "no row");
        }
        try (Connection eager = connect("prepareThreshold", "-1", "binaryTransferEnable", "numeric,timestamptz,date")) {
            PreparedStatement get = eager.prepareStatement("SELECT ?::numeric(7,5)");
            for (int time = 0; time < OFTEN; time += 1) {
                get.setBigDecimal(1, new BigDecimal("-0.00123"));
                ResultSet rows = get.executeQuery();
                check(rows.next(), "no row");
                equal(rows.getBigDecimal(1), new BigDecimal("-0.00123"));
            }
        }
        connection.abort(Runnable::run);
    }

    public void testCopies() throws Exception {
        run("DROP TABLE IF EXISTS copied", "CREATE TABLE copied (n int, s text)");
        CopyManager copy = connection.unwrap(PGConnection.class).getCopyAPI();
        equal(copy.copyIn("COPY copied FROM STDIN (FORMAT csv)", new StringReader("1,a\n2,\"b,c\"\n3,\n")), 3L);
        StringWriter out = new StringWriter();
        equal(copy.copyOut("COPY (SELECT * FROM copied ORDER BY n) TO STDOUT", out), 3L);
        equal(out.toString(), "1\ta\n2\tb,c\n3\t\\N\n");
        fails("22P02", () -> copy.copyIn("COPY copied FROM STDIN", new StringReader("x\ta\n")));
        org.postgresql.copy.CopyIn broken = copy.copyIn("COPY copied FROM STDIN");
        byte[] line = "9\tz\n".getBytes(StandardCharsets.UTF_8);
        broken.writeToCopy(line, 0, line.length);
        broken.cancelCopy();
        equal(one("SELECT count(*) FROM copied"), 3L);
    }

    public void testErrorsTellWhere() throws Exception {
        SQLException column = fails("42703", () -> run("SELECT nothing"));
        equal(((PSQLException) column).getServerErrorMessage().getPosition(), 8);
        fails("42P01", () -> run("SELECT * FROM nowhere"));
        fails("42601", () -> run("SELEC 1"));
        fails("22012", () -> run("SELECT 1 / 0"));
        fails("22P02", () -> one("SELECT ?::int", "text"));
    }

    public void testListeningIsRefusedByNameOrThere() throws Exception {
        try {
            run("LISTEN tests");
        } catch (SQLException refused) {
            equal(refused.getSQLState(), "0A000");
            check(refused.getMessage().contains("LISTEN"), refused.getMessage());
            return;
        }
        run("NOTIFY tests, 'x'");
        equal(connection.unwrap(PGConnection.class).getNotifications(2000).length, 1);
    }
}
