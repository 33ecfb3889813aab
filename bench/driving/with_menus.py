"""What DBeaver, Metabase, Grafana and Superset ask for their menus, as it is written in menus/: each must answer."""

import pathlib
import re
import unittest

import psycopg

MENUS = pathlib.Path(__file__).parent / "menus"
# These give no row with PostgreSQL either, for what setup.sql makes.
EMPTY = re.compile(r"^(SET|RESET)|timescaledb|pg_trigger|pg_rewrite|pg_policies|pg_inherits|pg_auth_members|"
                   r"pg_foreign_data|pg_foreign_server|pg_event_trigger|pid = '0'|pg_available_extensions|"
                   r"FROM pg_catalog.pg_extension|FROM unnest|relacl|nspacl")


def statements(name):
    """The statements of a file: each ends with a semicolon at the end of a line."""
    text = re.sub(r"^--.*\n", "", (MENUS / f"{name}.sql").read_text(), flags=re.M)
    return [one for one in re.split(r";\n", text) if one.strip()]


class Menus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with psycopg.connect(autocommit=True) as connection:
            for sql in statements("setup"):
                connection.execute(sql)

    def answers(self, name):
        with psycopg.connect(autocommit=True) as connection:
            for sql in statements(name):
                # Some tools send texts as they are, others prepare them.
                for prepare in (False, True):
                    with self.subTest(sql=sql, prepare=prepare), connection.cursor() as cursor:
                        cursor.execute(sql, prepare=prepare)
                        if not EMPTY.search(sql):
                            self.assertTrue(cursor.fetchall())

    def test_dbeaver(self):
        self.answers("dbeaver")

    def test_metabase(self):
        self.answers("metabase")

    def test_grafana(self):
        self.answers("grafana")

    def test_superset(self):
        self.answers("superset")
