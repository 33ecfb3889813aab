"""pgbench: its tables, and its scripts in each of its modes."""

import os
import re
import subprocess
import unittest

SECONDS = 1
CLIENTS = 4


def pgbench(*words):
    done = subprocess.run([os.environ["PGBENCH"], *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"pgbench {' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


class Pgbench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        pgbench("-i", "-q", "-s", "1")

    def test_scripts(self):
        for script in ("select-only", "simple-update", "tpcb-like"):
            for mode in ("simple", "extended", "prepared"):
                with self.subTest(script=script, mode=mode):
                    said = pgbench("-n", "-b", script, "-M", mode, "-c", str(CLIENTS), "-T", str(SECONDS))
                    done = re.search(r"transactions actually processed: (\d+)", said)
                    failed = re.search(r"failed transactions: (\d+)", said)
                    self.assertGreater(int(done[1]), 0, said)
                    self.assertEqual(int(failed[1]), 0, said)

    def test_tables_are_made_in_other_ways(self):
        pgbench("-i", "-q", "-s", "1", "-I", "dtGvpf")
