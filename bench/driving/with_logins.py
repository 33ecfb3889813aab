"""Roles and passwords, as drivers log in with them; made over the Unix socket, where no password is asked for."""

import asyncio
import os
import unittest
import urllib.request

import asyncpg
import psycopg
from adbc_driver_flightsql import dbapi


class Logins(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with psycopg.connect(host=os.environ["NEARSIDE_SOCKET"], autocommit=True) as admin:
            admin.execute("CREATE ROLE clerk LOGIN PASSWORD 'a long one'")
            admin.execute("CREATE TABLE shown (n int)")
            admin.execute("CREATE TABLE hidden (n int)")
            admin.execute("GRANT SELECT ON shown TO clerk")

    def test_psycopg(self):
        with psycopg.connect(user="clerk", password="a long one") as connection:
            self.assertEqual(connection.execute("SELECT current_user").fetchone(), ("clerk",))
            self.assertEqual(connection.execute("SELECT count(*) FROM shown").fetchone(), (0,))
            with self.assertRaises(psycopg.errors.InsufficientPrivilege):
                connection.execute("SELECT * FROM hidden")
        for user, password in [("clerk", "another"), ("clerk", None), ("nobody", "a long one"), ("nearside", "")]:
            with self.subTest(user=user, password=password), self.assertRaises(psycopg.OperationalError):
                psycopg.connect(user=user, password=password)

    def test_asyncpg(self):
        async def one(password):
            connection = await asyncpg.connect(user="clerk", password=password)
            try:
                return await connection.fetchval("SELECT session_user")
            finally:
                await connection.close()
        self.assertEqual(asyncio.run(one("a long one")), "clerk")
        with self.assertRaises(asyncpg.InvalidPasswordError):
            asyncio.run(one("another"))

    def test_flight(self):
        login = {"username": "clerk", "password": "a long one"}
        with dbapi.connect(os.environ["NEARSIDE_FLIGHT"], login, autocommit=True) as connection:
            with connection.cursor() as cursor:
                cursor.execute("SELECT current_user")
                self.assertEqual(cursor.fetchall(), [("clerk",)])
                with self.assertRaises(dbapi.Error):
                    cursor.execute("SELECT * FROM hidden")
        with self.assertRaises(dbapi.Error):
            with dbapi.connect(os.environ["NEARSIDE_FLIGHT"], {**login, "password": "another"},
                autocommit=True) as other:
                other.cursor().execute("SELECT 1")

    def test_http(self):
        place = os.environ["NEARSIDE_HTTP"] + "query"
        request = urllib.request.Request(place, b"SELECT current_user AS who", {"Content-Type": "application/sql"})
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        self.assertEqual(refused.exception.code, 401)
        passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
        passwords.add_password(None, place, "clerk", "a long one")
        opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))
        self.assertIn(b'["clerk"]', opener.open(request).read())
