"""What the programs of this folder share: where the binary is, and an environment with the other engines in it."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PEERS = {"duckdb": "duckdb==2.0.0", "hyper": "tableauhyperapi==0.0.26963", "datafusion": "datafusion==55.0.0", "polars": "polars==2.1.0",
         "clickhouse": "chdb==4.4.0"}
NEEDED = ["pyarrow", "numpy"]


def environment(folder, engines):
    """The interpreter of an environment that has the peers asked for."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    wanted = NEEDED + [PEERS[e] for e in engines if e in PEERS]
    listed = subprocess.run([str(python), "-m", "pip", "list", "--format=freeze"], check=True, capture_output=True, text=True)
    have = listed.stdout.split()
    names = {h.split("==")[0].lower() for h in have}
    missing = [w for w in wanted if (w not in have if "==" in w else w not in names)]
    if missing:
        print(f"installing {', '.join(missing)} into {folder}", file=sys.stderr)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *missing], check=True)
    return python


def nearside_binary(given):
    """The binary that was named, else the one that `cargo build --release` made."""
    folders = [pathlib.Path(os.environ["CARGO_TARGET_DIR"])] if "CARGO_TARGET_DIR" in os.environ else []
    for path in [pathlib.Path(given)] if given else [f / "release" / "nearside" for f in [*folders, HERE.parent / "target"]]:
        if path.exists():
            return path
    sys.exit("no nearside binary: run `cargo build --release`, or name one with --nearside")
